// Small quantized weight files made in memory, with the value of every weight by the formula of its format, element by element.
#pragma once

#include "unit/temp_folder.h"
#include "weights/quant/logical_tensors.h"
#include "weights/quant/matrix_reader.h"

#include <functional>
#include <map>
#include <memory>
#include <random>

namespace tritium::test {

struct StoredTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// A safetensors file under construction: tensors by name, and metadata.
struct QuantFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

  void add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape, std::string bytes) {
    tensors[name] = {dtype, std::move(shape), std::move(bytes)};
  }
  void add_text(const std::string& name, const std::string& text) { add(name, "U8", {static_cast<std::int64_t>(text.size())}, text); }
  void add_floats(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
    add(name, "F32", std::move(shape), std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }
  [[nodiscard]] std::string bytes() const;  // the whole file
};

// A written and opened file. `logical` is empty when the description was refused; `error` says why.
struct OpenedFile {
  explicit OpenedFile(const QuantFile& file);
  TempFolder folder;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<LogicalTensors> logical;
  std::string error;
};

// The message when describing, loading or decoding anything in the file fails; empty if all went well.
std::string refusal(const QuantFile& file);

// Fails the test unless the file is refused with a message that names it and says all of `parts`.
void expect_refused(const QuantFile& file, std::initializer_list<std::string_view> parts);

// An int8 layer [4, 64] without a description; "l" with this marker; any layer with this header metadata.
QuantFile int8_layer(const std::string& layer = "l");
QuantFile marked(const std::string& marker);
QuantFile with_metadata(const std::string& json, const std::string& layer = "l");

// A layer "l" with a matrix "l.weight" of rows x columns.
struct Sample {
  std::string name;
  QuantFile file;
  std::int64_t rows = 0, columns = 0;
  std::int64_t rotation = 0;                                        // group of `value`'s basis
  std::function<float(std::int64_t, std::int64_t)> value;           // before the rotation is undone
  std::function<std::int64_t(std::int64_t, std::int64_t)> integer;  // on the grid, where there is one

  // The weights, rotations undone with the matrix of spec/weights.md §4.1 in double precision.
  [[nodiscard]] std::vector<double> weights() const;
};

// Every format and every option, with random codes and scales. `odd`: sizes that fill no tile and no vector.
std::vector<Sample> all_samples(std::uint32_t seed, bool odd);

}  // namespace tritium::test
