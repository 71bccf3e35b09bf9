// From a checkpoint to tensors on a device: a model part declares what it needs, then everything is checked, allocated and read once.
#pragma once

#include "device/tensor_pool.h"
#include "weights/checkpoint.h"

#include <functional>
#include <optional>
#include <set>

namespace tritium {

// How matrices are kept on the device. Biases, norms and matrices that are float32 in the file stay float32 in either case.
enum class MatrixPrecision {
  f32,   // everything widened: small models, exact tests
  bf16,  // matrices that are bfloat16 in the file stay so; products take bfloat16 inputs and accumulate in float32
};

using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

class ParamLoader {
 public:
  // `what` names the model part in errors: "video VAE decoder".
  ParamLoader(const Checkpoint& checkpoint, std::string what, MatrixPrecision precision);

  // Each declares one tensor of the file with its exact shape (outermost first, as in the file) and returns the device tensor
  // (ne = reversed shape), usable in graphs after load(). A missing or misshapen tensor is remembered for load().
  ggml_tensor* matrix(const std::string& name, std::vector<std::int64_t> shape);  // stored per MatrixPrecision
  ggml_tensor* tensor(const std::string& name, std::vector<std::int64_t> shape);  // stored as float32

  // A matrix made of several tensors of the file: their values, one after the other, pass through `transform` (same count in and
  // out; may be empty) and are stored with `stored_shape` under the first one's name.
  struct Source {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  using Transform = std::function<std::vector<float>(std::vector<float>)>;
  ggml_tensor* matrix(const std::vector<Source>& sources, std::vector<std::int64_t> stored_shape, Transform transform);

  // A float32 tensor computed on load from any tensors of the checkpoint.
  using Compute = std::function<Result<std::vector<float>>(const Checkpoint&)>;
  ggml_tensor* computed(const std::string& name, std::vector<std::int64_t> stored_shape, Compute compute);

  // Checks that the tensor exists with this shape without loading it: for computed().
  void require(const std::string& name, const std::vector<std::int64_t>& shape);

  [[nodiscard]] std::uint64_t bytes() const { return pool_.bytes(); }

  // All missing and misshapen tensors in one error (code model), before anything is allocated; then reads. Values that are not
  // finite are refused. The loader is spent afterwards.
  Result<TensorPool> load(Device& device, const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  // The problems found so far, as load() would report them: for checking a model without loading it.
  [[nodiscard]] Result<void> check() const;

 private:
  struct Item {
    ggml_tensor* tensor;
    std::vector<const TensorInfo*> sources;  // empty for computed tensors
    Transform transform;
    Compute compute;
  };
  ggml_tensor* add(const std::string& name, ggml_type type, std::vector<std::int64_t> stored_shape, Item item);
  Result<std::vector<float>> values_of(const Item& item) const;
  const TensorInfo* expect(const std::string& name, const std::vector<std::int64_t>& shape);

  const Checkpoint& checkpoint_;
  std::string what_;
  MatrixPrecision precision_;
  TensorPool pool_;
  std::vector<Item> items_;
  std::vector<std::string> problems_;
};

}  // namespace tritium
