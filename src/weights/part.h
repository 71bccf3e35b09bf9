// One part of a model (transformer, text encoder, ...) as a set of tensors with official names, whatever the file calls them, in
// whatever order it keeps their rows and however it quantizes them.
//
// Official names are those of the original repository (spec/weights.md §1). Row order is the engine's: attn.qkv_proj is [q; k; v], each
// [heads, head_dim]; mlp.fc1 is [gate; up].
#pragma once

#include "weights/quant/matrix_reader.h"

#include <functional>
#include <memory>

namespace tritium {

// Where the rows of an official tensor lie in a file: all rows of `tensors`, one after the other, read in `order` (empty: as they are).
struct TensorPlace {
  std::vector<std::string> tensors;
  RowOrder order;
};

// From an official name to its place.
using Naming = std::function<TensorPlace(const std::string& official)>;

// The same names and rows as the official ones.
TensorPlace same_name(const std::string& official);

// A tensor found in a file: what it is made of. Empty: not there.
struct PlacedTensor {
  std::vector<const LogicalTensor*> sources;
  RowOrder order;

  [[nodiscard]] bool found() const { return !sources.empty(); }
  // Rows add up over the sources; empty for a scalar.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  [[nodiscard]] std::uint64_t bytes() const;  // in the file, with everything that belongs to it
};

class WeightPart {
 public:
  // Errors: those of Checkpoint::open and LogicalTensors::open.
  static Result<std::shared_ptr<const WeightPart>> open(std::shared_ptr<const Checkpoint> checkpoint, Naming naming = same_name);
  static Result<std::shared_ptr<const WeightPart>> open(const std::filesystem::path& path, Naming naming = same_name);

  // The names a file uses may only be known once its tensors have been looked at.
  static std::shared_ptr<const WeightPart> wrap(std::shared_ptr<const Checkpoint> checkpoint, LogicalTensors tensors, Naming naming);

  [[nodiscard]] const Checkpoint& checkpoint() const { return *checkpoint_; }
  [[nodiscard]] const LogicalTensors& tensors() const { return tensors_; }

  [[nodiscard]] TensorPlace place(const std::string& official) const { return naming_(official); }
  [[nodiscard]] PlacedTensor find(const std::string& official) const;
  [[nodiscard]] bool has(const std::string& official) const { return find(official).found(); }
  // None if the tensor is missing.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> shape(const std::string& official) const;

  // The whole tensor in float32, rows in the engine's order. Errors: code model if it is missing, MatrixReader's.
  Result<std::vector<float>> read_f32(const std::string& official) const;

  // The path of the first file, for errors.
  [[nodiscard]] std::string where() const;

 private:
  WeightPart(std::shared_ptr<const Checkpoint> checkpoint, LogicalTensors tensors, Naming naming)
      : checkpoint_(std::move(checkpoint)), tensors_(std::move(tensors)), naming_(std::move(naming)) {}
  std::shared_ptr<const Checkpoint> checkpoint_;
  LogicalTensors tensors_;
  Naming naming_;
};

// The rows of a placed tensor in float32, a few at a time. Vectors are matrices of one column, scalars of one row.
class PartRows {
 public:
  // Reads and checks the side tensors. The part must outlive the reader. Errors: MatrixReader::open's; failure for an order that does not
  // fit.
  // `shape`: the wanted one of a single source, see MatrixReader::open.
  static Result<PartRows> open(const WeightPart& part, const PlacedTensor& tensor, const std::vector<std::int64_t>& shape = {});

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return readers_.front().columns(); }
  [[nodiscard]] const std::vector<MatrixReader>& readers() const { return readers_; }

  // Rows [begin, end) in the engine's order, in the basis the model computes in; out: [end - begin, columns]. Thread safe.
  Result<void> decode(std::int64_t begin, std::int64_t end, std::span<float> out) const;

  // Calls visit(source, first row within it, count, first position) -> Result<void> for every run of rows within [begin, end).
  template <class Visit>
  Result<void> for_each_source_run(std::int64_t begin, std::int64_t end, Visit visit) const {
    return for_each_run(order_, begin, end, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
      std::int64_t base = 0;
      for (std::size_t s = 0; s < readers_.size() && count > 0; base += readers_[s++].rows()) {
        const std::int64_t local = first - base, here = std::min(count, readers_[s].rows() - local);
        if (local < 0 || here <= 0) continue;
        if (Result<void> done = visit(s, local, here, position); !done.ok()) return done;
        first += here;
        position += here;
        count -= here;
      }
      return {};
    });
  }

 private:
  std::vector<MatrixReader> readers_;  // one per source
  RowOrder order_;
  std::int64_t rows_ = 0;
};

}  // namespace tritium
