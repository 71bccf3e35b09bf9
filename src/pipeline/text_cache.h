// Text rows of prompts seen before: the same prompt with another seed runs no encoder.
#pragma once

#include "pipeline/conditions.h"

#include <list>

namespace tritium {

// A hash of everything the vision tower and the text encoder see of a request.
std::string prompt_key(const PromptInputs& prompt);

// In memory, of one model on one device. Not thread safe.
class TextCache {
 public:
  explicit TextCache(std::size_t capacity = 16) : capacity_(capacity) {}

  struct Rows {
    std::vector<float> text;
    std::vector<Modality> tags;
  };
  // Null if unknown. Valid until the next keep().
  const Rows* find(const std::string& key);
  // The one unused for the longest time gives way.
  void keep(const std::string& key, Rows rows);

 private:
  struct Entry {
    std::string key;
    Rows rows;
  };
  std::size_t capacity_;
  std::list<Entry> entries_;  // last used first
};

}  // namespace tritium
