// Text rows of prompts seen before: the same prompt with another seed runs no encoder, in this process or, with a folder, in another one.
#pragma once

#include "pipeline/conditions.h"

#include <filesystem>
#include <list>
#include <mutex>
#include <optional>

namespace tritium {

// A hash of everything the vision tower and the text encoder see of a request.
std::string prompt_key(const PromptInputs& prompt);
// What else the rows depend on: the encoder's files (path, size, time of the last change), the device, its arithmetic, the program's
// version.
std::string encoder_key(const WeightPart& encoder, const std::string& arithmetic);

// Thread safe. Rows come back bit for bit as they were given.
class TextCache {
 public:
  struct Rows {
    std::vector<float> text;  // [tokens][width]
    std::vector<Modality> tags;
  };

  // `folder`: empty for memory alone. Files there: "<key>.safetensors" with a checksum; those unused for the longest time are removed above
  // `folder_bytes`. A file that cannot be read or is damaged counts as absent.
  explicit TextCache(std::filesystem::path folder = {}, std::size_t capacity = 16, std::uint64_t folder_bytes = std::uint64_t{512} << 20)
      : folder_(std::move(folder)), capacity_(capacity), folder_bytes_(folder_bytes) {}

  std::optional<Rows> find(const std::string& key);
  // The one unused for the longest time gives way. A folder that cannot be written costs the next process the encoding, nothing else.
  void keep(const std::string& key, const Rows& rows);

 private:
  struct Entry {
    std::string key;
    Rows rows;
  };
  [[nodiscard]] std::filesystem::path file_of(const std::string& key) const { return folder_ / (key + ".safetensors"); }
  [[nodiscard]] std::optional<Rows> read(const std::string& key) const;
  void write(const std::string& key, const Rows& rows) const;
  void trim_folder() const;
  void remember(const std::string& key, Rows rows);

  std::filesystem::path folder_;
  std::size_t capacity_;
  std::uint64_t folder_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // last used first
};

}  // namespace tritium
