#include "kernels/cpu/matmul_onednn.h"

#include <omp.h>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tritium::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

// oneDNN parallelises with OpenMP; inside the threads of a graph every primitive must keep to its own thread.
class SingleThreaded {
 public:
  SingleThreaded() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(previous_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int previous_;
};

// A tile's primitive and the descriptions of its operands. Row strides are those of the whole matrices, but for a result of one column:
// oneDNN 3.6 writes that without its stride.
struct TilePrimitive {
  dnnl::matmul primitive;
  memory::desc x, w, bias, y, scratch;
};

std::optional<TilePrimitive> build(const Matmul::Shape& whole, std::int64_t rows, std::int64_t columns) {
  const auto type = whole.type == MatmulType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  TilePrimitive out;
  out.x = memory::desc({rows, whole.k}, type, memory::dims{whole.k, 1});
  out.w = memory::desc({whole.k, columns}, type, memory::dims{1, whole.k});  // w[N,K] seen as [K,N]
  out.y = memory::desc({rows, columns}, memory::data_type::f32, memory::dims{columns == 1 ? 1 : whole.n, 1});
  if (whole.bias) out.bias = memory::desc({1, columns}, memory::data_type::f32, memory::dims{columns, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    const auto description = whole.bias ? dnnl::matmul::primitive_desc(engine(), out.x, out.w, out.bias, out.y, attributes)
                                        : dnnl::matmul::primitive_desc(engine(), out.x, out.w, out.y, attributes);
    if (std::string(description.impl_info_str()).starts_with("ref")) return std::nullopt;
    out.scratch = description.scratchpad_desc();
    out.primitive = dnnl::matmul(description);
  } catch (const dnnl::error&) {
    return std::nullopt;  // this combination is not offered on this machine
  }
  return out;
}

using TilePrimitivePtr = std::shared_ptr<const TilePrimitive>;  // null: no fast implementation

// Building a primitive compiles code, so tile shapes are remembered, but not without limit: the rows follow the lengths of prompts and
// clips, and a server sees many of them.
constexpr std::size_t kMaxCachedPrimitives = 512;

TilePrimitivePtr find_or_build(const Matmul::Shape& whole, std::int64_t rows, std::int64_t columns) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, MatmulType, bool>;
  static std::mutex mutex;
  static std::map<Key, TilePrimitivePtr> cache;
  const std::lock_guard lock(mutex);
  const Key key{rows, columns, whole.k, whole.n, whole.type, whole.bias};
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  auto built = build(whole, rows, columns);
  if (cache.size() >= kMaxCachedPrimitives) cache.clear();  // primitives in use live on
  return cache[key] = built ? std::make_shared<const TilePrimitive>(std::move(*built)) : nullptr;
}

class OnednnMatmul final : public Matmul {
 public:
  explicit OnednnMatmul(const Shape& shape) : Matmul(shape) {}

  // False when a tile has no fast implementation.
  bool prepare() {
    const SingleThreaded guard;
    for (int i = 0; i < tiles(); ++i) {
      const Tile t = tile(i);
      TilePrimitivePtr primitive = t.rows > 0 && t.columns > 0 ? find_or_build(shape_, t.rows, t.columns) : nullptr;
      if (primitive == nullptr && t.rows > 0 && t.columns > 0) return false;
      primitives_.push_back(std::move(primitive));
    }
    return true;
  }

  void compute_tile(int index, const void* x, const void* w, const float* bias, float* y) const override {
    const TilePrimitive* p = primitives_[static_cast<std::size_t>(index)].get();
    if (p == nullptr) return;  // an empty tile
    const SingleThreaded guard;
    thread_local dnnl::stream stream(engine());
    thread_local std::vector<std::uint8_t> scratch;
    if (scratch.size() < p->scratch.get_size()) scratch.resize(p->scratch.get_size());
    const Tile t = tile(index);
    const std::int64_t element = shape_.type == MatmulType::f32 ? 4 : 2;
    const auto at = [element](const void* base, std::int64_t offset) {
      return const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(base)) + offset * element;
    };
    float* place = y + t.row * shape_.n + t.column;
    thread_local std::vector<float> column;
    if (t.columns == 1) column.resize(static_cast<std::size_t>(t.rows));
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(p->x, engine(), at(x, t.row * shape_.k))},
        {DNNL_ARG_WEIGHTS, memory(p->w, engine(), at(w, 0))},
        {DNNL_ARG_DST, memory(p->y, engine(), t.columns == 1 ? column.data() : place)},
        {DNNL_ARG_SCRATCHPAD, memory(p->scratch, engine(), scratch.data())},
    };
    if (shape_.bias) arguments.emplace(DNNL_ARG_BIAS, memory(p->bias, engine(), const_cast<float*>(bias) + t.column));
    p->primitive.execute(stream, arguments);
    stream.wait();
    if (t.columns == 1)
      for (std::int64_t row = 0; row < t.rows; ++row) place[row * shape_.n] = column[static_cast<std::size_t>(row)];
  }

  [[nodiscard]] const char* name() const override { return "onednn"; }

 private:
  std::vector<TilePrimitivePtr> primitives_;  // null: an empty tile
};

}  // namespace

bool onednn_has_bf16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

std::shared_ptr<const Matmul> make_onednn_matmul(const Matmul::Shape& shape) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return nullptr;
  auto matmul = std::make_shared<OnednnMatmul>(shape);
  if (!matmul->prepare()) return nullptr;
  return matmul;
}

}  // namespace tritium::cpu
