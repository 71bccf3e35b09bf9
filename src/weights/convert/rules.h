// Which tensors of a part get which type when it is converted: as the published files of each format do (spec/weights.md §2.3, §4).
#pragma once

#include "weights/convert/target_format.h"
#include "weights/part.h"

namespace tritium {

enum class PartKind { dit, text, video_vae, audio_vae };
std::string_view part_kind_name(PartKind kind);  // "dit", "text", "video-vae", "audio-vae"
std::optional<PartKind> part_kind_from_name(std::string_view name);

// --keep GLOB=FORMAT: tensors whose official or target name matches. '*' stands for anything, '?' for one character.
struct KeepRule {
  std::string glob;
  TargetFormat format;
};
bool glob_matches(std::string_view glob, std::string_view text);

struct FormatChoice {
  TargetFormat format;        // never Encoding::keep
  std::int64_t rotation = 0;  // ConvRot group
  bool full_precision = false;
  std::string reason;  // why a tensor the format is meant for has another one; else empty
};

struct TensorFacts {
  std::string official, target;     // names
  std::vector<std::int64_t> shape;  // as it will be written
  const PlacedTensor* source = nullptr;
};

struct ConvertRules {
  PartKind kind = PartKind::dit;
  TargetFormat format;
  Container container = Container::safetensors;
  std::vector<KeepRule> keep;
  bool pruned = false;  // the transformer that is written has a curve table

  // Errors: usage for a --keep rule whose format cannot hold the tensor or the container.
  [[nodiscard]] Result<FormatChoice> choose(const TensorFacts& tensor) const;

 private:
  [[nodiscard]] Result<FormatChoice> forced(const TensorFacts& tensor, const TargetFormat& wanted) const;
  [[nodiscard]] FormatChoice as_source(const TensorFacts& tensor) const;
  [[nodiscard]] FormatChoice fitted(const TensorFacts& tensor, const TargetFormat& wanted) const;
  [[nodiscard]] bool is_meant(const TensorFacts& tensor) const;
  [[nodiscard]] bool container_has(DType type) const;
};

}  // namespace tritium
