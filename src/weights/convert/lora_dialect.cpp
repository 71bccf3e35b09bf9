// Adapters in the dialects of other programs (spec/dit.md §13.2).
#include "base/hash.h"
#include "base/try.h"
#include "weights/convert/lora_merge.h"
#include "weights/convert/part_file.h"
#include "weights/dit_names.h"
#include "weights/ggml_types.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

struct Pair {
  std::string layer;  // as the dialect calls it
  std::int64_t rank = 0, out = 0, in = 0;
  std::vector<float> down, up;
};

std::string flattened(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::vector<float> in_order(const std::vector<float>& rows, std::int64_t width, const RowOrder& order) {
  std::vector<float> out(rows.size());
  (void)for_each_run(order, 0, static_cast<std::int64_t>(rows.size()) / width,
                     [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
                       std::copy_n(rows.begin() + first * width, count * width, out.begin() + position * width);
                       return {};
                     });
  return out;
}

// Rows [first, first + count) of B, without the columns that are zero there: what remains of a block structure.
Pair slice(const Pair& whole, std::string layer, std::int64_t first, std::int64_t count) {
  Pair out{std::move(layer), 0, count, whole.in, {}, {}};
  std::vector<std::int64_t> used;
  for (std::int64_t j = 0; j < whole.rank; ++j)
    for (std::int64_t r = first; r < first + count; ++r)
      if (whole.up[static_cast<std::size_t>(r * whole.rank + j)] != 0) {
        used.push_back(j);
        break;
      }
  if (used.empty()) used.push_back(0);  // a part that adds nothing: B is zero
  out.rank = static_cast<std::int64_t>(used.size());
  for (const std::int64_t j : used)
    out.down.insert(out.down.end(), whole.down.begin() + j * whole.in, whole.down.begin() + (j + 1) * whole.in);
  for (std::int64_t r = first; r < first + count; ++r)
    for (const std::int64_t j : used) out.up.push_back(whole.up[static_cast<std::size_t>(r * whole.rank + j)]);
  return out;
}

std::vector<Pair> diffusers_pairs(const LoraTarget& target, Pair whole) {
  const auto name_of = [](const std::string& official) {
    std::string name = diffusers_dit_name(official + ".weight");
    return name.substr(0, name.size() - std::string_view(".weight").size());
  };
  if (target.rows == LoraTarget::Rows::gate_up) whole.up = in_order(whole.up, whole.rank, swapped_halves(target.out));
  if (target.rows != LoraTarget::Rows::qkv) {
    whole.layer = name_of(target.name);
    return {std::move(whole)};
  }
  std::vector<Pair> out;
  const std::string block = target.name.substr(0, target.name.size() - std::string_view("qkv_proj").size());
  const std::int64_t inner = target.out / 3;
  for (int j = 0; j < 3; ++j) out.push_back(slice(whole, name_of(block + "qkv"[j]), j * inner, inner));
  return out;
}

std::vector<Pair> pairs_of(const LoraTarget& target, LoraFactors factors, LoraDialect dialect) {
  Pair whole{
      target.name,          static_cast<std::int64_t>(factors.down.size()) / target.in, target.out, target.in, std::move(factors.down),
      std::move(factors.up)};
  if (dialect == LoraDialect::diffusers) return diffusers_pairs(target, std::move(whole));
  if (dialect == LoraDialect::diffsynth && target.rows == LoraTarget::Rows::qkv)
    whole.up = in_order(whole.up, whole.rank, interleaved_qkv(target.heads, target.head_dim));
  if (dialect == LoraDialect::comfy) whole.layer = "diffusion_model." + whole.layer;
  if (dialect == LoraDialect::kohya) whole.layer = "lora_unet_" + flattened(whole.layer);
  return {std::move(whole)};
}

struct Suffixes {
  const char *down, *up;
  bool alpha;
};
Suffixes suffixes_of(LoraDialect dialect) {
  switch (dialect) {
    case LoraDialect::diffusers:
    case LoraDialect::diffsynth:
      return {".lora_A.default.weight", ".lora_B.default.weight", false};
    case LoraDialect::kohya:
      return {".lora_down.weight", ".lora_up.weight", true};
    case LoraDialect::comfy:
      return {".lora_A.weight", ".lora_B.weight", true};
    case LoraDialect::bare:
      break;
  }
  return {".lora_A.weight", ".lora_B.weight", false};
}

// A pair's place in the file is known from its shapes; its values are read again when it is written.
class Writer {
 public:
  Writer(const LoraMatch& match, LoraDialect dialect) : match_(match), dialect_(dialect), suffixes_(suffixes_of(dialect)) {
    type_ = match.adapters.front().pieces.front().down->dtype;
    if (type_ != DType::f32 && type_ != DType::f16) type_ = DType::bf16;
  }

  Result<void> write(const std::filesystem::path& target, bool overwrite) {
    for (const LoraAdapter& adapter : match_.adapters) TRITIUM_TRY(visit(adapter, nullptr));
    FileMetadata metadata{{"format", "pt"}};
    for (const TensorFile& file : match_.file->checkpoint().files())
      for (const auto& [key, value] : file.header().metadata)
        if (key != "alpha" && key != "key_format" && key != "format") metadata.emplace_back(key, value);
    TRITIUM_TRY_ASSIGN(layout_, layout_safetensors(declarations_, metadata));
    const Fingerprint fresh{match_.file->path().string(), dialect_name(dialect_), sha256_hex(layout_.header)};
    TRITIUM_TRY_ASSIGN(PartFile file, PartFile::open(target, layout_.file_bytes, fresh, overwrite));
    next_ = 0;
    for (const LoraAdapter& adapter : match_.adapters) TRITIUM_TRY(visit(adapter, &file));
    TRITIUM_TRY(file.write(0, layout_.header));
    return file.commit();
  }

 private:
  // Without a file: declares the tensors.
  Result<void> visit(const LoraAdapter& adapter, const PartFile* file) {
    TRITIUM_TRY_ASSIGN(LoraFactors factors, read_factors(match_, adapter));
    for (const Pair& pair : pairs_of(match_.targets[adapter.target], std::move(factors), dialect_)) {
      TRITIUM_TRY(put(pair.layer + suffixes_.down, {pair.rank, pair.in}, pair.down, type_, file));
      TRITIUM_TRY(put(pair.layer + suffixes_.up, {pair.out, pair.rank}, pair.up, type_, file));
      if (suffixes_.alpha) TRITIUM_TRY(put(pair.layer + ".alpha", {}, {static_cast<float>(pair.rank)}, DType::f32, file));
    }
    return {};
  }

  Result<void> put(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values, DType type,
                   const PartFile* file) {
    if (file == nullptr) {
      declarations_.push_back({name, type, std::move(shape)});
      return {};
    }
    const TensorInfo& place = layout_.tensors[next_++];
    std::vector<std::uint8_t> bytes(place.bytes);
    if (auto done = quantize(type, values, static_cast<std::int64_t>(values.size()), bytes); !done.ok())
      return Error{done.error().code, done.error().message, name, ""};
    return file->write(place.offset, bytes);
  }

  const LoraMatch& match_;
  LoraDialect dialect_;
  Suffixes suffixes_;
  DType type_ = DType::bf16;
  std::vector<TensorDeclaration> declarations_;
  FileLayout layout_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<LoraDialect> lora_dialect_from_name(std::string_view name) {
  for (const auto& [text, dialect] : {std::pair<std::string_view, LoraDialect>{"diffusers", LoraDialect::diffusers},
                                      {"comfy", LoraDialect::comfy},
                                      {"diffsynth", LoraDialect::diffsynth},
                                      {"kohya", LoraDialect::kohya},
                                      {"bare", LoraDialect::bare}})
    if (text == name) return dialect;
  return std::nullopt;
}

Result<void> write_lora(const LoraMatch& match, LoraDialect dialect, const std::filesystem::path& target, bool overwrite) {
  if (match.adapters.empty()) return Error{ErrorCode::model, "no pair of the adapter fits", "lora", ""};
  return Writer(match, dialect).write(target, overwrite);
}

}  // namespace tritium
