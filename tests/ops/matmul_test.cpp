// cpu::Matmul: the fast implementation against the plain one, and the plain one against loops written here.
#include "kernels/cpu/matmul.h"

#include "ops/support.h"
#include "weights/dtype.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace tritium::cpu {
namespace {

using ops_test::Expected;
using ops_test::random_bf16_values;
using ops_test::scaled_error;

using Shape = Matmul::Shape;

std::string shape_name(const Shape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + (s.type == MatmulType::bf16 ? " bf16" : " f32") +
         (s.bias ? " bias" : "");
}

// A matrix in the kernel's element type, starting `offset` elements into its allocation.
struct Matrix {
  Matrix(const std::vector<float>& values, MatmulType type, std::size_t offset) : element(type == MatmulType::bf16 ? 2 : 4) {
    bytes.resize((values.size() + offset) * element);
    start = offset * element;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = f32_to_bf16(values[i]);
      if (type == MatmulType::bf16)
        std::memcpy(bytes.data() + start + i * element, &half, sizeof(half));
      else
        std::memcpy(bytes.data() + start + i * element, &values[i], sizeof(float));
    }
  }
  [[nodiscard]] const void* data() const { return bytes.data() + start; }
  std::vector<std::uint8_t> bytes;
  std::size_t element, start = 0;
};

// One product: operands exact in bfloat16, so that both types have the same expected values.
struct Problem {
  explicit Problem(const Shape& s, std::size_t offset = 0)
      : shape(s),
        x_values(random_bf16_values(static_cast<std::size_t>(s.m * s.k), 1)),
        w_values(random_bf16_values(static_cast<std::size_t>(s.n * s.k), 2)),
        x(x_values, s.type, offset),
        w(w_values, s.type, offset),
        bias(random_bf16_values(static_cast<std::size_t>(s.n) + offset, 3)),
        offset_(offset) {}

  [[nodiscard]] std::vector<float> run(const Matmul& matmul, int threads = 1) const {
    std::vector<float> y(static_cast<std::size_t>(shape.m * shape.n) + offset_, std::nanf(""));
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] { matmul.compute(t, threads, x.data(), w.data(), bias.data() + offset_, y.data() + offset_); });
    workers.clear();
    return {y.begin() + static_cast<std::ptrdiff_t>(offset_), y.end()};
  }

  [[nodiscard]] Expected expected() const {
    Expected out(static_cast<std::size_t>(shape.m * shape.n));
    for (std::int64_t m = 0; m < shape.m; ++m)
      for (std::int64_t n = 0; n < shape.n; ++n) {
        const auto i = static_cast<std::size_t>(m * shape.n + n);
        if (shape.bias) out.add(i, static_cast<double>(bias[static_cast<std::size_t>(n) + offset_]));
        const float* xs = x_values.data() + m * shape.k;
        const float* ws = w_values.data() + n * shape.k;
        for (std::int64_t k = 0; k < shape.k; ++k) out.add(i, static_cast<double>(xs[k]) * static_cast<double>(ws[k]));
      }
    return out;
  }

  Shape shape;
  std::vector<float> x_values, w_values;
  Matrix x, w;
  std::vector<float> bias;

 private:
  std::size_t offset_;
};

// Rounding of k float32 additions, statistically bounded.
double tolerance(std::int64_t k) { return 2.5e-7 * std::sqrt(static_cast<double>(k) + 16.0); }

void expect_correct(const Shape& shape, std::size_t offset = 0) {
  const Problem problem(shape, offset);
  const Expected expected = problem.expected();
  EXPECT_LE(scaled_error(problem.run(*make_plain_matmul(shape)), expected), 1e-7) << "plain " << shape_name(shape);
  if (const auto fast = make_fast_matmul(shape)) {
    EXPECT_LE(scaled_error(problem.run(*fast), expected), tolerance(shape.k)) << fast->name() << ' ' << shape_name(shape) << " +" << offset;
  }
}

template <class Function>
void for_each_kind(Function&& function) {
  for (const MatmulType type : {MatmulType::f32, MatmulType::bf16})
    for (const bool bias : {false, true}) function(type, bias);
}

#ifdef TRITIUM_HAVE_ONEDNN
TEST(Matmul, FastImplementationExistsForEveryTypeOfTheMachine) {
  for_each_kind([](MatmulType type, bool bias) {
    EXPECT_EQ(make_fast_matmul({64, 64, 64, type, bias}) != nullptr, type == MatmulType::f32 || fast_bf16());
  });
}
#endif

TEST(Matmul, SmallShapes) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const std::int64_t m : {1, 2, 5, 16, 17})
      for (const std::int64_t n : {1, 3, 15, 16, 17})
        for (const std::int64_t k : {1, 2, 7, 16, 33}) expect_correct({m, n, k, type, bias});
  });
}

// Panels end anywhere, also with one column.
TEST(Matmul, NarrowPanels) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const std::int64_t m : {1, 17, 70})
      for (const std::int64_t n : {63, 65, 66, 129, 513}) expect_correct({m, n, 96, type, bias, /*max_tile_columns=*/64});
  });
}

// Each dimension walks over register, tile and split edges while the others stay small, odd and even.
TEST(Matmul, TileEdges) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const std::int64_t edge : {15, 16, 17, 63, 64, 65, 127, 511, 512, 513, 1025}) {
      for (const std::int64_t other : {1, 19, 64}) {
        expect_correct({edge, other, 31, type, bias});
        expect_correct({other, edge, 31, type, bias});
        expect_correct({other, 37, edge, type, bias});
      }
    }
  });
}

TEST(Matmul, SeveralTilesInBothDirections) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const auto& [m, n] : {std::pair{513, 1025}, std::pair{1025, 511}, std::pair{1537, 65}, std::pair{63, 4099}})
      expect_correct({m, n, 23, type, bias});
  });
}

TEST(Matmul, MisalignedPointers) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const std::size_t offset : {1u, 3u, 7u}) {
      expect_correct({5, 33, 17, type, bias}, offset);
      expect_correct({65, 129, 64, type, bias}, offset);
    }
  });
}

TEST(Matmul, TilesCoverEveryElementOnceInAnyOrder) {
  for_each_kind([](MatmulType type, bool bias) {
    const Shape shape{530, 770, 9, type, bias};
    const Problem problem(shape);
    for (const auto& matmul : {make_plain_matmul(shape), make_fast_matmul(shape)}) {
      if (matmul == nullptr) continue;
      const std::vector<float> forward = problem.run(*matmul);
      std::vector<float> backward(forward.size(), std::nanf(""));
      for (int t = matmul->tiles() - 1; t >= 0; --t)
        matmul->compute(t, matmul->tiles(), problem.x.data(), problem.w.data(), problem.bias.data(), backward.data());
      EXPECT_EQ(forward, backward) << matmul->name();
    }
  });
}

TEST(Matmul, ResultDoesNotDependOnTheNumberOfThreads) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const auto& [m, n, k] : {std::tuple{1, 1000, 777}, std::tuple{7, 130, 64}, std::tuple{600, 600, 200}, std::tuple{1100, 17, 50}}) {
      const Shape shape{m, n, k, type, bias};
      const Problem problem(shape);
      for (const auto& matmul : {make_plain_matmul(shape), make_fast_matmul(shape)}) {
        if (matmul == nullptr) continue;
        const std::vector<float> one = problem.run(*matmul, 1);
        for (const int threads : {2, 3, 5, 16}) EXPECT_EQ(problem.run(*matmul, threads), one) << shape_name(shape) << ' ' << threads;
      }
    }
  });
}

TEST(Matmul, EmptyShapesAreLeftToThePlainLoops) {
  for_each_kind([](MatmulType type, bool bias) {
    for (const Shape& shape : {Shape{0, 4, 4, type, bias}, Shape{4, 0, 4, type, bias}, Shape{4, 4, 0, type, bias}}) {
      EXPECT_EQ(make_fast_matmul(shape), nullptr);
      const Problem problem(shape);
      EXPECT_LE(scaled_error(problem.run(*make_plain_matmul(shape)), problem.expected()), 0.0) << shape_name(shape);
    }
  });
}

}  // namespace
}  // namespace tritium::cpu
