#include "weights/synth/fill.h"

#include "base/try.h"
#include "weights/convert/encoder_parts.h"
#include "weights/ggml_types.h"
#include "weights/synth/random.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tritium {
namespace {

constexpr std::size_t kTable = 4096;         // values a plain type draws from: 32 KiB at the most, which stays in the fastest cache
constexpr std::size_t kPoolValues = 262144;  // of a pool of blocks
constexpr float kScaleNoise = 0.1f;          // relative deviation of the scales of rows

// 256 equally likely bytes: normal values of this deviation, each turned into a code.
template <class Code>
std::vector<std::uint8_t> code_table(float deviation, Code code) {
  std::vector<std::uint8_t> out;
  for (const float q : normal_quantiles(256)) out.push_back(code(q * deviation));
  return out;
}

// Root of the mean square of what `value` makes of them.
template <class Values, class Value>
float root_mean_square(const Values& values, Value value) {
  double sum = 0;
  for (const auto v : values) {
    const auto x = static_cast<double>(value(v));
    sum += x * x;
  }
  return static_cast<float>(std::sqrt(sum / static_cast<double>(std::size(values))));
}

void fill_words(const RandomWords& words, std::uint64_t first, std::span<std::uint8_t> out) {
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t word = words.at((first + at) / 8);
    std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, out.size() - at));
  }
}

void fill_from_bytes(const RandomWords& words, const std::vector<std::uint8_t>& table, std::uint64_t first, std::span<std::uint8_t> out) {
  std::array<std::uint8_t, 256> codes;
  std::copy_n(table.begin(), codes.size(), codes.begin());
  for (std::size_t at = 0; at < out.size(); at += 8) {
    std::uint64_t word = words.at((first + at) / 8);
    const std::size_t count = std::min<std::size_t>(8, out.size() - at);
    for (std::size_t k = 0; k < count; ++k, word >>= 8) out[at + k] = codes[word & 0xFFu];
  }
}

// Items of `size` bytes out of a table of a power of two many, four to a word.
template <std::size_t size>
void fill_from_items(const RandomWords& words, const std::uint8_t* table, std::size_t items, std::uint64_t first_item,
                     std::span<std::uint8_t> out) {
  const std::uint64_t mask = items - 1;
  for (std::size_t at = 0; at < out.size(); at += 4 * size) {
    std::uint64_t word = words.at((first_item + at / size) / 4);
    const std::size_t count = std::min<std::size_t>(4, (out.size() - at) / size);
    for (std::size_t k = 0; k < count; ++k, word >>= 16) std::memcpy(out.data() + at + k * size, table + (word & mask) * size, size);
  }
}

void fill_from_blocks(const RandomWords& words, const BlockPools::Pool& pool, std::size_t size, std::uint64_t first,
                      std::span<std::uint8_t> out) {
  const std::uint64_t mask = pool.size() / size - 1;
  std::uint64_t block = first / size;
  for (std::size_t at = 0; at < out.size(); at += size, ++block) {
    const std::uint64_t slot = words.at(block / 4) >> (16 * (block % 4)) & 0xFFFFu;
    std::memcpy(out.data() + at, pool.data() + (slot & mask) * size, size);
  }
}

}  // namespace

std::vector<float> normal_quantiles(std::size_t count) {
  std::vector<float> out(count);
  double squares = 0;
  for (std::size_t i = 0; i < (count + 1) / 2; ++i) {
    // Bisection: the distribution function is at hand, its inverse is not.
    const double wanted = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    double low = -10, high = 0;
    for (int step = 0; step < 50; ++step) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < wanted ? low : high) = middle;
    }
    out[i] = static_cast<float>(low);
    out[count - 1 - i] = -out[i];
    squares += 2 * low * low;
  }
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(count) / squares));
  for (float& v : out) v *= scale;
  return out;
}

Result<std::shared_ptr<const BlockPools::Pool>> BlockPools::get(DType type, float deviation) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Pool>& found = pools_[{type, deviation}];
  if (found) return found;
  static const std::vector<float> normal = normal_quantiles(kTable);
  const RandomWords words(0, "pool");
  std::vector<float> values(kPoolValues);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * normal[words.at(i / 4) >> (16 * (i % 4)) & (kTable - 1)];
  const DTypeBlock block = dtype_block(type);
  Pool pool(values.size() / static_cast<std::size_t>(block.values) * static_cast<std::size_t>(block.bytes));
  TRITIUM_TRY(quantize(type, values, block.values, pool));
  found = std::make_shared<const Pool>(std::move(pool));
  return found;
}

Result<SynthFiller> SynthFiller::create(const MatrixSpec& spec, const SynthValues& values, std::uint64_t seed, BlockPools& pools) {
  TRITIUM_TRY_ASSIGN(std::unique_ptr<MatrixEncoder> encoder, MatrixEncoder::create(spec));
  const bool plain = spec.format.encoding == Encoding::plain && !spec.format.block_type();
  if (!plain && (values.mean != 0 || !values.exact.empty()))
    return Error{ErrorCode::failure, fmt::format("{} is for values around zero", spec.format.name), spec.name, ""};
  SynthFiller out(std::move(encoder), values, seed);
  TRITIUM_TRY(out.plan(pools));
  return out;
}

Result<void> SynthFiller::plan(BlockPools& pools) {
  recipes_.resize(outputs().size());
  switch (encoder_->spec().format.encoding) {
    case Encoding::int8:
      plan_int8();
      break;
    case Encoding::fp8:
      plan_fp8();
      break;
    case Encoding::w4a8:
      plan_w4a8();
      break;
    case Encoding::nf4:
      plan_nf4();
      break;
    default: {
      Recipe& only = recipes_.front();
      const DType type = outputs().front().dtype;
      if (is_block_dtype(type)) {
        only.kind = Recipe::Kind::blocks;
        TRITIUM_TRY_ASSIGN(only.blocks, pools.get(type, values_.deviation));
      } else {
        only = normal(values_.mean, values_.deviation);
      }
      if (!values_.exact.empty()) {
        only.kind = Recipe::Kind::exact;
        only.values = values_.exact;
      }
      only.type = type;
    }
  }
  return {};
}

SynthFiller::Recipe& SynthFiller::recipe(std::string_view suffix) {
  const auto found = std::find_if(outputs().begin(), outputs().end(), [&](const auto& o) { return o.name.ends_with(suffix); });
  return recipes_[static_cast<std::size_t>(found - outputs().begin())];
}

// What the encoder itself writes there.
void SynthFiller::constants(std::string_view suffix) {
  for (EncodedPiece& piece : encoder_->constants())
    if (outputs()[piece.output].name.ends_with(suffix)) recipes_[piece.output].table = std::move(piece.bytes);
}

SynthFiller::Recipe SynthFiller::normal(float mean, float deviation) const {
  Recipe out;
  out.kind = Recipe::Kind::normal;
  out.mean = mean;
  out.deviation = deviation;
  return out;
}

void SynthFiller::plan_int8() {
  constexpr float kDeviation = 36;  // of the codes: rows of thousands of normal values reach 3.5 deviations
  Recipe& codes = recipe(".weight");
  codes.kind = Recipe::Kind::bytes;
  codes.table =
      code_table(kDeviation, [](float v) { return static_cast<std::uint8_t>(static_cast<std::int8_t>(round_within(v, 127.0f))); });
  const float scale = values_.deviation / root_mean_square(codes.table, [](std::uint8_t c) { return static_cast<std::int8_t>(c); });
  recipe(".weight_scale") = normal(scale, kScaleNoise * scale);
  constants(".comfy_quant");
}

void SynthFiller::plan_fp8() {
  constexpr float kDeviation = 100;
  Recipe& codes = recipe(".weight");
  codes.kind = Recipe::Kind::bytes;
  codes.table = code_table(kDeviation, f32_to_f8_e4m3);
  Recipe& scale = recipe(".weight_scale");
  scale.kind = Recipe::Kind::exact;
  scale.values = {values_.deviation / root_mean_square(codes.table, f8_e4m3_to_f32)};
  constants(".comfy_quant");
}

// The levels of the codebook stand closer around zero: all nibbles equally likely make a bell.
void SynthFiller::plan_w4a8() {
  recipe(".weight").kind = Recipe::Kind::words;
  Recipe& relative = recipe(".weight_s_rel");
  relative.kind = Recipe::Kind::bytes;
  relative.table = code_table(12.0f, [](float v) { return f32_to_f8_e4m3(64.0f + v); });
  const auto book = w4a8_fixed_codebook();
  const float grid = root_mean_square(relative.table, [&](std::uint8_t code) {
    return root_mean_square(book, [&](float level) { return round_within(level * f8_e4m3_to_f32(code), 127.0f); });
  });
  recipe(".weight_s_channel") = normal(values_.deviation / grid, kScaleNoise * values_.deviation / grid);
  for (const char* suffix : {".weight_codebook", ".comfy_quant"}) constants(suffix);
}

// The levels of NF4 are equally likely for normal values.
void SynthFiller::plan_nf4() {
  constexpr float kSpread = 0.4f;  // largest difference of a scale from their mean, relative to that
  recipe(".weight").kind = Recipe::Kind::words;
  const auto map = nested_scale_map();
  Recipe& scales = recipe(".weight.absmax");
  scales.kind = Recipe::Kind::bytes;
  scales.table = code_table(0.3f, [&](float v) {
    return static_cast<std::uint8_t>(std::min<std::ptrdiff_t>(255, std::upper_bound(map.begin(), map.end(), v) - map.begin()));
  });
  const float relative = root_mean_square(scales.table, [&](std::uint8_t code) { return 1 + kSpread * map[code]; });
  const float offset = values_.deviation / (relative * root_mean_square(nf4_table(), [](float v) { return v; }));
  Recipe& nested = recipe(".weight.nested_absmax");
  nested.kind = Recipe::Kind::exact;
  nested.values = {kSpread * offset};
  for (const char* suffix : {".weight.nested_quant_map", ".weight.quant_map"}) constants(suffix);
  const MatrixSpec& spec = encoder_->spec();
  recipe(".quant_state.bitsandbytes__nf4").table =
      bytes_of_text(nf4_state_text(spec.rows(), spec.columns(), fmt::format("{}", static_cast<double>(offset))));
}

std::uint64_t SynthFiller::step(std::size_t output) const {
  const DType type = outputs()[output].dtype;
  return 8 * static_cast<std::uint64_t>(dtype_block(type).bytes);
}

Result<void> SynthFiller::fill(std::size_t output, std::uint64_t first, std::span<std::uint8_t> out) const {
  const Recipe& recipe = recipes_[output];
  const std::string& name = outputs()[output].name;
  const RandomWords words(seed_, name);
  switch (recipe.kind) {
    case Recipe::Kind::normal:
      return fill_normal(recipe, name, first, out);
    case Recipe::Kind::exact:
      return fill_exact(recipe, first, out);
    case Recipe::Kind::bytes:
      fill_from_bytes(words, recipe.table, first, out);
      return {};
    case Recipe::Kind::words:
      fill_words(words, first, out);
      return {};
    case Recipe::Kind::blocks:
      fill_from_blocks(words, *recipe.blocks, static_cast<std::size_t>(dtype_block(recipe.type).bytes), first, out);
      return {};
    case Recipe::Kind::constant:
      std::copy_n(recipe.table.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
      return {};
  }
  return {};
}

Result<void> SynthFiller::fill_normal(const Recipe& recipe, const std::string& name, std::uint64_t first,
                                      std::span<std::uint8_t> out) const {
  static const std::vector<float> normal = normal_quantiles(kTable);
  std::vector<float> values(normal);
  for (float& v : values) v = recipe.mean + recipe.deviation * v;
  const std::size_t size = dtype_size(recipe.type);
  std::vector<std::uint8_t> table(kTable * size);
  TRITIUM_TRY(quantize(recipe.type, values, static_cast<std::int64_t>(kTable), table));
  const RandomWords words(seed_, name);
  if (size == 2) {
    fill_from_items<2>(words, table.data(), kTable, first / size, out);
  } else {
    fill_from_items<4>(words, table.data(), kTable, first / size, out);
  }
  return put_outliers(recipe, name, first, out);
}

Result<void> SynthFiller::put_outliers(const Recipe& recipe, const std::string& name, std::uint64_t first,
                                       std::span<std::uint8_t> out) const {
  if (values_.outlier_every < 1) return {};
  const std::size_t size = dtype_size(recipe.type);
  std::array<std::uint8_t, 4> value{};
  TRITIUM_TRY(quantize(recipe.type, std::span(&values_.outlier, 1), 1, std::span(value).first(size)));
  const RandomWords words(seed_, name + " outliers");
  const auto every = static_cast<std::uint64_t>(values_.outlier_every), begin = first / size, end = begin + out.size() / size;
  for (std::uint64_t group = begin / every; group * every < end; ++group) {
    const std::uint64_t at = group * every + words.at(group) % every;
    if (at >= begin && at < end) std::copy_n(value.begin(), size, out.begin() + static_cast<std::ptrdiff_t>((at - begin) * size));
  }
  return {};
}

Result<void> SynthFiller::fill_exact(const Recipe& recipe, std::uint64_t first, std::span<std::uint8_t> out) const {
  const std::size_t size = dtype_size(recipe.type), count = out.size() / size;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = recipe.values[(first / size + i) % recipe.values.size()];
  return quantize(recipe.type, values, static_cast<std::int64_t>(count), out);
}

}  // namespace tritium
