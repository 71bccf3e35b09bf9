// From a part of a model to tensors on a device: a network declares what it needs by official names, then everything is checked,
// allocated and read once.
#pragma once

#include "device/tensor_pool.h"
#include "device/weight_matrix.h"
#include "weights/quant/blocks.h"

#include <functional>

namespace tritium {

using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

// How a device keeps quantized matrices: packed ones need the CPU's own kernels.
inline MatrixForm form_for(const Device& device) { return device.fast_kernels() ? MatrixForm::packed : MatrixForm::blocks; }
inline MatrixForm host_form() { return fast_kernels_wanted() ? MatrixForm::packed : MatrixForm::blocks; }

class ParamLoader {
 public:
  static constexpr std::size_t kMaxParams = 16384;  // the largest part has about 1100 tensors, some with two factors beside them

  // `what` names the part in errors: "video VAE decoder".
  ParamLoader(const WeightPart& part, std::string what, MatrixPolicy policy, std::size_t max_params = kMaxParams);

  // The matrix of a linear layer, usable in graphs after load(). `file_shape`: that of the file, where it is not [out, in] but has the same
  // values in the same order. A missing or misshapen tensor is remembered for load().
  WeightMatrix matrix(const std::string& name, std::int64_t out, std::int64_t in, const std::vector<std::int64_t>& file_shape = {});

  // The same rounded as the policy says even where the file has float32, for products that the reference computes in half precision
  // whatever its weights are. Other devices than the CPU keep float32.
  WeightMatrix autocast_matrix(const std::string& name, std::int64_t out, std::int64_t in);

  // The same kept and multiplied in float32 whatever the file has: small matrices whose rounding would be felt everywhere.
  WeightMatrix float_matrix(const std::string& name, std::int64_t out, std::int64_t in, const std::vector<std::int64_t>& file_shape = {});

  // One tensor with its exact shape (outermost first), kept as float32.
  ggml_tensor* tensor(const std::string& name, std::vector<std::int64_t> shape);

  // One tensor of the file whose values pass through `transform`; empty: as they are, in another shape.
  using Transform = std::function<std::vector<float>(std::vector<float>)>;
  ggml_tensor* transformed(const std::string& name, const std::vector<std::int64_t>& shape, std::vector<std::int64_t> stored_shape,
                           Transform transform = {});

  // A float32 tensor computed on load from any tensors of the part.
  using Compute = std::function<Result<std::vector<float>>(const WeightPart&)>;
  ggml_tensor* computed(const std::string& name, std::vector<std::int64_t> stored_shape, Compute compute);

  // Checks that the tensor exists with this shape without loading it: for computed().
  PlacedTensor require(const std::string& name, const std::vector<std::int64_t>& shape);

  [[nodiscard]] const WeightPart& part() const { return part_; }

  // What will be allocated, with the tables of packed matrices.
  [[nodiscard]] std::uint64_t bytes() const { return pool_.bytes() + table_bytes_; }

  // All missing and misshapen tensors in one error (code model), before anything is allocated; then reads. Values and scales that are
  // not finite are refused. The matrices given out are complete afterwards, the loader is spent.
  Result<TensorPool> load(Device& device, const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

  // The same into memory that is used again for other tensors, with at most `readers` threads. Values are always copied, never left in
  // the file's own memory, so that `slot` is all the memory the tensors take.
  struct Refill {
    int readers = 1;
    // The file is larger than what the system could keep of it: read from the disk straight into the slot where that is possible, and
    // leave nothing of it in the page cache.
    bool past_cache = false;
  };
  Result<TensorPool> load_into(const DeviceBuffer& slot, Refill how, const CancelToken* cancel = nullptr);
  // What load_into() takes in a slot, and beside it on the host.
  [[nodiscard]] std::uint64_t slot_bytes(const Device& device) const { return pool_.placed_bytes(device); }
  [[nodiscard]] std::uint64_t table_bytes() const { return table_bytes_; }

  // The tensors as declared, without memory: their shapes. The loader is spent.
  TensorPool declared() { return std::move(pool_); }

  // The problems found so far, as load() would report them: for checking a model without loading it.
  [[nodiscard]] Result<void> check() const;

 private:
  // How the values of a tensor come to the device.
  enum class Filling {
    floats,    // decoded, as float32
    bfloats,   // decoded, rounded to bfloat16
    as_is,     // the stored bytes of plain rows: float32, bfloat16 or blocks of ggml
    packed,    // the stored bytes of quantized rows
    encoded,   // moved into ggml's blocks
    computed,  // Compute
  };
  struct Item {
    ggml_tensor* tensor = nullptr;
    Filling filling = Filling::floats;
    PlacedTensor source;
    std::vector<std::int64_t> cropped;  // padded nvfp4: the part that is wanted
    bool autocast = false;
    Compute compute;
    std::shared_ptr<PackedRows> packed;         // filled in by load()
    std::shared_ptr<const FileMapping> mapped;  // the values stay in the file's own memory
    bool direct = false;                        // the stored bytes come straight from the disk
    ggml_tensor *row_scale = nullptr, *column_factor = nullptr;
  };
  class Reader;

  WeightMatrix declared_matrix(const std::string& name, std::int64_t out, std::int64_t in, const std::vector<std::int64_t>& file_shape,
                               Item item);
  // The three ways to keep a matrix.
  WeightMatrix packed_matrix(const std::string& name, std::int64_t out, std::int64_t in, Item item);
  WeightMatrix native_matrix(const std::string& name, std::int64_t out, std::int64_t in, ggml_type type, Item item);
  WeightMatrix plain_matrix(const std::string& name, std::int64_t out, std::int64_t in, Item item);
  ggml_tensor* add(const std::string& name, ggml_type type, std::vector<std::int64_t> shape, Item item);
  Result<void> for_slices(std::int64_t slices, const std::function<Result<void>(std::int64_t)>& work) const;
  // Whether the stored bytes are the tensor's own, in one piece and aligned as kernels want them.
  [[nodiscard]] static bool as_in_file(const Item& item);
  // Binds tensors whose stored bytes can be used where they are.
  Result<void> map_values();
  // Declares the factors a quantized matrix has beside its codes.
  void add_factors(const std::string& name, std::int64_t out, std::int64_t in, Item& item, WeightMatrix& matrix);

  const WeightPart& part_;
  std::string what_;
  MatrixPolicy policy_;
  TensorPool pool_;
  std::vector<Item> items_;
  std::vector<std::string> problems_;
  std::uint64_t table_bytes_ = 0;
  int readers_ = 0;  // 0: as many as make a disk fast
};

}  // namespace tritium
