// What the prompt, the vision tower and the text stack tell each other about pictures and reference videos (spec/text.md §2-§4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tritium {

// Size of a prepared picture or video in patches of the vision tower. A temporal block of h*w patches gives (h/2)*(w/2) tokens.
struct PatchGrid {
  std::int64_t t = 1;  // temporal blocks; 1 for a picture
  std::int64_t h = 0, w = 0;

  [[nodiscard]] std::int64_t patches() const { return t * h * w; }
  bool operator==(const PatchGrid&) const = default;
};

// Ids of the tokens whose rows the vision tower fills.
struct VisionPads {
  std::int32_t image = -1, video = -1;
};

// Rows for the pad tokens of one modality, in the order of the tokens: [tokens][hidden], row-major.
struct VisionRows {
  std::vector<float> merged;                  // take the place of the pads' embeddings
  std::vector<std::vector<float>> deepstack;  // set i is added to the same rows after layer i of the text stack

  // Puts the rows of the next picture or video behind these. Both are empty or have the same number of sets.
  void append(const VisionRows& next) {
    merged.insert(merged.end(), next.merged.begin(), next.merged.end());
    if (deepstack.size() < next.deepstack.size()) deepstack.resize(next.deepstack.size());
    for (std::size_t i = 0; i < next.deepstack.size(); ++i)
      deepstack[i].insert(deepstack[i].end(), next.deepstack[i].begin(), next.deepstack[i].end());
  }
};

}  // namespace tritium
