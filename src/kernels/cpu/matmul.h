// y[M,N] = x[M,K] · w[N,K]ᵀ + bias[N], the linear layer, on the CPU. All matrices row-major and dense, y in float32.
//
// The product is cut into tiles whose size depends on the shape alone, and each tile is computed by one thread: the result has the
// same bits for every number of threads.
#pragma once

#include <cstdint>
#include <memory>

namespace tritium::cpu {

enum class MatmulType {
  f32,   // x and w float32
  bf16,  // x and w bfloat16 (raw 16-bit words), accumulated in float32
};

class Matmul {
 public:
  struct Shape {
    std::int64_t m = 0, n = 0, k = 0;
    MatmulType type = MatmulType::f32;
    bool bias = false;
    std::int64_t max_tile_columns = 512;  // of one tile
  };
  virtual ~Matmul() = default;

  [[nodiscard]] int tiles() const { return static_cast<int>(tile_rows_ * tile_columns_); }
  // Computes tile `tile`; different tiles may run on different threads at once. `w` points to the whole matrix's first row that the tile
  // needs. `bias` is ignored unless the shape has one.
  virtual void compute_tile(int tile, const void* x, const void* w, const float* bias, float* y) const = 0;
  // Computes every tile with index = thread (mod threads): the body of one worker.
  void compute(int thread, int threads, const void* x, const void* w, const float* bias, float* y) const;

  // The tiles of one column of tiles share their rows of w: for weights that are made when they are needed.
  struct Panel {
    std::int64_t first = 0, count = 0;  // rows of w
  };
  [[nodiscard]] int panels() const { return static_cast<int>(tile_columns_); }
  [[nodiscard]] Panel panel(int index) const;
  // `w`: the rows of the panel alone.
  void compute_panel(int index, const void* x, const void* w, const float* bias, float* y) const;
  // The implementation's own name, for reports.
  [[nodiscard]] virtual const char* name() const = 0;

 protected:
  explicit Matmul(const Shape& shape);
  struct Tile {
    std::int64_t row, rows, column, columns;
  };
  [[nodiscard]] Tile tile(int index) const;

  Shape shape_;

 private:
  std::int64_t tile_rows_, tile_columns_;
};

// Whether this build has fast products of float32 at all.
bool fast_f32();
// Whether this machine has products of bfloat16. Where it has not, oneDNN emulates them at less than half the speed of float32, or not even
// that.
bool fast_bf16();

// The fastest implementation this machine has for the shape, or nullptr if there is none beyond the plain loops
// (no oneDNN in this build, or oneDNN would use its reference code or emulate bfloat16).
std::shared_ptr<const Matmul> make_fast_matmul(const Matmul::Shape& shape);

// Plain loops with double accumulation: the yardstick of the tests.
std::shared_ptr<const Matmul> make_plain_matmul(const Matmul::Shape& shape);

}  // namespace tritium::cpu
