// A matrix of the transformer in one of the formats that weight files have, on a device as the engine would keep it.
#pragma once

#include "device/params.h"

namespace tritium::doctor {

struct StoredMatrix {
  static constexpr std::int64_t kOut = 5376, kIn = 7168;  // blocks.N.attn.out_proj

  // Writes a temporary file with random weights and loads it. `format`: a name of target_format(). Errors: of the file system, of the
  // device.
  static Result<StoredMatrix> make(Device& device, const std::string& format, MatrixPrecision precision);

  // Rows in float32, decoded one by one, rotations undone.
  [[nodiscard]] Result<std::vector<float>> row(std::int64_t index) const;

  WeightMatrix matrix;
  bool exact = true;  // false: the device has no type that holds the format's values

 private:
  StoredMatrix(std::shared_ptr<const WeightPart> part, TensorPool pool) : part_(std::move(part)), pool_(std::move(pool)) {}
  std::shared_ptr<const WeightPart> part_;  // its file is open, and has no name any more
  TensorPool pool_;
};

}  // namespace tritium::doctor
