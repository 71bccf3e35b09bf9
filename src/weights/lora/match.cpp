#include "weights/lora/match.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <cmath>

namespace tritium {
namespace {

constexpr std::size_t kShownKeys = 5;

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "lora", std::move(hint)}; }

bool readable(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

bool usable_alpha(double alpha) { return std::isfinite(alpha) && alpha > 0; }

class Matcher {
 public:
  Matcher(LoraMatch& match, const LoraMatchOptions& options)
      : match_(match), report_(match.report), options_(options), names_(match.targets), adapters_(match.targets.size()) {}

  Result<void> run() {
    TRITIUM_TRY(read_metadata_alpha());
    count_ranks();
    for (const std::string& key : match_.file->other_keys()) skip(LoraSkip::Why::unknown, key, foreign_key_reason(key));
    for (const LoraPair& pair : match_.file->pairs()) TRITIUM_TRY(add(pair));
    for (std::size_t i = 0; i < adapters_.size(); ++i)
      if (!adapters_[i].pieces.empty()) {
        adapters_[i].target = i;
        std::sort(adapters_[i].pieces.begin(), adapters_[i].pieces.end(),
                  [](const LoraPiece& a, const LoraPiece& b) { return a.slice < b.slice; });
        match_.adapters.push_back(std::move(adapters_[i]));
      }
    report_.pairs = match_.file->pairs().size();
    report_.layers = match_.adapters.size();
    return match_.adapters.empty() ? Result<void>(nothing_fits()) : Result<void>{};
  }

 private:
  struct Alpha {
    double value = 0;
    LoraAlpha from = LoraAlpha::none;
  };

  void skip(LoraSkip::Why why, std::string key, std::string detail) { report_.skipped.push_back({why, std::move(key), std::move(detail)}); }

  static std::string foreign_key_reason(const std::string& key) {
    if (key.ends_with(".diff") || key.ends_with(".diff_b")) return "a full difference, not a low-rank pair";
    if (key.ends_with(".alpha")) return "no pair has this name";
    if (key.ends_with(".bias")) return "biases of adapters are not supported";
    return "not part of a low-rank pair";
  }

  Result<void> read_metadata_alpha() {
    if (options_.alpha && !usable_alpha(*options_.alpha))
      return Error{ErrorCode::usage, fmt::format("{} is out of range; an alpha is a number above 0", *options_.alpha), "lora_alpha", ""};
    const std::string* text = match_.file->metadata("alpha");
    if (text == nullptr) return {};
    double value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code != std::errc() || end != text->data() + text->size() || !usable_alpha(value))
      return bad(fmt::format("'{}': the metadata say alpha = '{}', which is no number above 0", match_.file->path().string(), *text),
                 "give the right one with --lora-alpha");
    metadata_alpha_ = value;
    return {};
  }

  // Repacks that fuse q, k and v have three times the rank there; an alpha of the whole file means the rank of a single pair.
  void count_ranks() {
    std::map<std::int64_t, std::size_t> ranks;
    for (const LoraPair& pair : match_.file->pairs())
      if (const auto place = names_.find({pair.layer, LoraRole::down, pair.default_infix}); place && pair.down != nullptr)
        if (const LoraTarget& target = match_.targets[place->target];
            target.rows != LoraTarget::Rows::qkv && !target.modulation && pair.down->shape.size() == 2)
          ++ranks[pair.down->shape[0]];
    const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != ranks.end()) usual_rank_ = most->first;
  }

  Result<Alpha> alpha_of(const LoraPair& pair) const {
    if (options_.alpha) return Alpha{*options_.alpha, LoraAlpha::given};
    if (pair.alpha != nullptr) {
      if (pair.alpha->elements() != 1)
        return bad(fmt::format("'{}' is {}, expected a single number", pair.alpha->name, shape_text(pair.alpha->shape)));
      TRITIUM_TRY_ASSIGN(const std::vector<float> value, match_.file->checkpoint().read_f32(*pair.alpha));
      if (!std::isfinite(value.front()))
        return bad(fmt::format("'{}' is {}, not a number", pair.alpha->name, value.front()), "give the right one with --lora-alpha");
      return Alpha{value.front(), LoraAlpha::tensor};
    }
    if (metadata_alpha_) return Alpha{*metadata_alpha_, LoraAlpha::metadata};
    if (options_.table_alpha) return Alpha{*options_.table_alpha, LoraAlpha::table};
    return Alpha{};
  }

  Result<double> scale_of(const LoraPair& pair, const LoraTarget& target, const LoraPlace& place, std::int64_t rank) {
    TRITIUM_TRY_ASSIGN(const Alpha alpha, alpha_of(pair));
    const bool fused = target.rows == LoraTarget::Rows::qkv && place.slice == LoraSlice::whole && rank == 3 * usual_rank_;
    const std::int64_t counted = fused && alpha.from != LoraAlpha::tensor ? usual_rank_ : rank;
    LoraScale scale{1, alpha.value, counted, alpha.from, 1};
    if (alpha.from != LoraAlpha::none) scale.value = alpha.value / static_cast<double>(counted);
    const auto same = std::find_if(report_.scales.begin(), report_.scales.end(), [&](const LoraScale& s) {
      // Without an alpha the rank does not matter.
      return s.from == scale.from && s.value == scale.value && (s.from == LoraAlpha::none || s.rank == scale.rank);
    });
    if (same == report_.scales.end())
      report_.scales.push_back(scale);
    else
      ++same->pairs;
    return scale.value;
  }

  // What keeps the pair from being used; true when nothing does.
  bool check_factors(const LoraPair& pair) {
    if (pair.down == nullptr || pair.up == nullptr) {
      const TensorInfo* present = pair.down != nullptr ? pair.down : pair.up;
      skip(LoraSkip::Why::incomplete, present->name, fmt::format("factor {} of the pair is missing", pair.down == nullptr ? "A" : "B"));
      return false;
    }
    for (const TensorInfo* factor : {pair.down, pair.up})
      if (!readable(factor->dtype)) {
        skip(LoraSkip::Why::wrong_type, factor->name, fmt::format("it is {}; read are F32, F16 and BF16", dtype_name(factor->dtype)));
        return false;
      }
    return true;
  }

  bool check_shape(const LoraPair& pair, const LoraTarget& target, const LoraPlace& place, bool& projected) {
    const auto& a = pair.down->shape;
    const auto& b = pair.up->shape;
    const std::int64_t out = place.slice == LoraSlice::whole ? target.out : target.out / 3;
    const bool matrices = a.size() == 2 && b.size() == 2 && a[0] > 0 && a[0] == b[1] && b[0] == out;
    if (matrices && a[1] == target.in) return true;
    const std::string shapes = fmt::format("A is {}, B is {}; the layer is [{}, {}]", shape_text(a), shape_text(b), out, target.in);
    if (!matrices || !target.modulation) {
      skip(LoraSkip::Why::wrong_shape, pair.layer, shapes);
      return false;
    }
    const AdalnBasis* basis = match_.basis.get();
    if (basis != nullptr && basis->width == a[1] && basis->rank == target.in) return projected = true;
    skip(LoraSkip::Why::modulation, pair.layer, shapes);
    return false;
  }

  static RowOrder order_of(const LoraTarget& target, const LoraPlace& place) {
    if (place.dialect == LoraDialect::diffsynth && target.rows == LoraTarget::Rows::qkv)
      return deinterleaved_qkv(target.heads, target.head_dim);
    if (place.dialect == LoraDialect::diffusers && target.rows == LoraTarget::Rows::gate_up) return swapped_halves(target.out);
    return {};
  }

  Result<void> add(const LoraPair& pair) {
    const auto place = names_.find({pair.layer, LoraRole::down, pair.default_infix});
    if (!place) {
      skip(LoraSkip::Why::unknown, pair.layer, "the model has no layer of this name");
      return {};
    }
    const LoraTarget& target = match_.targets[place->target];
    bool projected = false;
    if (!check_factors(pair) || !check_shape(pair, target, *place, projected)) return {};
    LoraAdapter& adapter = adapters_[place->target];
    for (const LoraPiece& other : adapter.pieces)
      if (other.slice == place->slice || other.slice == LoraSlice::whole || place->slice == LoraSlice::whole)
        return bad(fmt::format("'{}' has two pairs for the layer '{}': '{}' and '{}'", match_.file->path().string(), target.name,
                               other.down->name, pair.down->name));
    const std::int64_t rank = pair.down->shape[0];
    TRITIUM_TRY_ASSIGN(const double scale, scale_of(pair, target, *place, rank));
    adapter.pieces.push_back({pair.down, pair.up, place->slice, rank, scale, order_of(target, *place), projected});
    adapter.rank += rank;
    ++report_.matched;
    ++report_.dialects[place->dialect];
    report_.projected += projected ? 1 : 0;
    return {};
  }

  [[nodiscard]] Error nothing_fits() const {
    std::vector<std::string> ours, theirs;
    for (const LoraTarget& target : match_.targets)
      if (theirs.size() < kShownKeys) theirs.push_back(target.name);
    for (const LoraPair& pair : match_.file->pairs())
      if (ours.size() < kShownKeys) ours.push_back(pair.layer);
    std::string why;
    if (!report_.skipped.empty()) why = fmt::format("; for '{}': {}", report_.skipped.back().key, report_.skipped.back().detail);
    return bad(fmt::format("none of the {} pairs of '{}' fits this model. Layers of the file: {}; of the model: {}{}", report_.pairs,
                           match_.file->path().string(), fmt::join(ours, ", "), fmt::join(theirs, ", "), why),
               "it was made for another model");
  }

  LoraMatch& match_;
  LoraReport& report_;
  const LoraMatchOptions& options_;
  LoraNames names_;
  std::vector<LoraAdapter> adapters_;
  std::optional<double> metadata_alpha_;
  std::int64_t usual_rank_ = 0;
};

}  // namespace

Result<LoraMatch> match_lora(std::shared_ptr<const LoraFile> file, std::vector<LoraTarget> targets, const LoraMatchOptions& options) {
  for (const LoraTarget& t : targets)
    if (t.out < 1 || t.in < 1 || (t.rows == LoraTarget::Rows::qkv && (t.heads < 1 || t.head_dim < 1 || t.out != 3 * t.heads * t.head_dim)))
      return Error{ErrorCode::failure, fmt::format("layer '{}' has no usable shape", t.name), "lora", ""};
  LoraMatch match{std::move(file), std::move(targets), {}, options.basis, {}};
  TRITIUM_TRY(Matcher(match, options).run());
  return match;
}

}  // namespace tritium
