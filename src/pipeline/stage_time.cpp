#include "pipeline/stage_time.h"

namespace tritium {
namespace {

const ProductSpeed& product_speed(ProductKind kind, const MeasuredSpeeds& speeds) {
  if (speeds.of(kind).operations > 0) return speeds.of(kind);
  if (kind == ProductKind::int8) return speeds.of(ProductKind::decoded);
  return kind == ProductKind::sound ? speeds.of(ProductKind::f32) : speeds.of(kind);
}

double product_seconds(double flops, double values, const ProductSpeed& speed) {
  return flops / speed.operations + (speed.values > 0 ? values / speed.values : 0);
}

}  // namespace

std::optional<double> compute_seconds(const StageWork& work, ProductKind kind, const MeasuredSpeeds& speeds) {
  const bool wide = kind == ProductKind::f32 || kind == ProductKind::sound;
  const ProductSpeed &coded = product_speed(kind, speeds), &plain = wide ? coded : speeds.of(ProductKind::bf16);
  const double attention = wide || speeds.narrow_attention <= 0 ? speeds.attention : speeds.narrow_attention;
  if (coded.operations <= 0 || (work.plain_flops > 0 && plain.operations <= 0) || (work.attention_flops > 0 && attention <= 0))
    return std::nullopt;
  double seconds = product_seconds(work.flops - work.attention_flops - work.plain_flops, work.values - work.plain_values, coded);
  if (work.plain_flops > 0) seconds += product_seconds(work.plain_flops, work.plain_values, plain);
  return work.attention_flops > 0 ? seconds + work.attention_flops / attention : seconds;
}

}  // namespace tritium
