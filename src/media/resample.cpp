#include "media/resample.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace tritium {
namespace {

constexpr int kMaxPrecision = 22;  // bits after the point of an integer weight
constexpr int kLowBits = 12;       // a weight is high·2^12 + low, both of which fit 16 bits
constexpr int kChannels = 3;

double sinc(double x) {
  if (x == 0.0) return 1.0;
  const double angle = x * std::numbers::pi;
  return std::sin(angle) / angle;
}

double lanczos3(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

// Keys' cubic with a = -0.5.
double keys_cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

// The samples of one axis that make up each new sample.
struct Axis {
  struct Window {
    int first = 0, count = 0;
    std::size_t offset = 0;  // of its first weight
  };
  std::vector<Window> windows;  // one per new sample
  std::vector<std::int32_t> weights;
  std::vector<std::int16_t> high, low;  // the same weights in two parts
  int precision = kMaxPrecision;

  [[nodiscard]] std::int64_t half() const { return precision > 0 ? std::int64_t{1} << (precision - 1) : 0; }
};

// Smallest precision with which the largest weight still fills 15 bits.
int bicubic_precision(double largest) {
  for (int p = 0; p < kMaxPrecision; ++p)
    if (std::trunc(0.5 + largest * static_cast<double>(std::int64_t{2} << p)) >= 1 << 15) return p;
  return kMaxPrecision;
}

void to_integers(std::span<const double> exact, Axis& axis) {
  const double one = static_cast<double>(std::int64_t{1} << axis.precision);
  axis.weights.reserve(exact.size());
  for (const double weight : exact) {
    const auto fixed = static_cast<std::int32_t>(weight * one + (weight < 0 ? -0.5 : 0.5));
    axis.weights.push_back(fixed);
    axis.high.push_back(static_cast<std::int16_t>(fixed >> kLowBits));
    axis.low.push_back(static_cast<std::int16_t>(fixed & ((1 << kLowBits) - 1)));
  }
}

Axis make_axis(int in, int out, ResampleFilter filter) {
  const bool lanczos = filter == ResampleFilter::lanczos;
  const double scale = static_cast<double>(in) / out, stretch = std::max(scale, 1.0), inverse = 1.0 / stretch;
  const double support = (lanczos ? 3.0 : 2.0) * stretch;
  Axis axis;
  std::vector<double> weights;
  for (int i = 0; i < out; ++i) {
    const double centre = scale * (i + 0.5);
    const int first = std::max(static_cast<int>(std::trunc(centre - support + 0.5)), 0);
    const int last = std::min(static_cast<int>(std::trunc(centre + support + 0.5)), in);
    axis.windows.push_back({first, last - first, weights.size()});
    double total = 0;
    for (int j = first; j < last; ++j) {
      const double x = (j - centre + 0.5) * inverse;
      weights.push_back(lanczos ? lanczos3(x) : keys_cubic(x));
      total += weights.back();
    }
    if (total != 0.0)
      for (std::size_t w = axis.windows.back().offset; w < weights.size(); ++w) weights[w] /= total;
  }
  if (!lanczos) axis.precision = bicubic_precision(*std::max_element(weights.begin(), weights.end()));
  to_integers(weights, axis);
  return axis;
}

std::uint8_t to_byte(std::int64_t sum, const Axis& axis) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>((sum + axis.half()) >> axis.precision, 0, 255));
}

// Σ value·(high·2^12 + low), in parts so short that no 32-bit sum overflows; compilers turn the inner loop into multiply-add on 16 bits.
std::int64_t weighted_sum(const std::int16_t* values, const std::int16_t* high, const std::int16_t* low, int count) {
  constexpr int kPart = 1024;
  std::int64_t sum = 0;
  for (int start = 0; start < count; start += kPart) {
    const int stop = std::min(count, start + kPart);
    std::int32_t high_sum = 0, low_sum = 0;
    for (int i = start; i < stop; ++i) {
      high_sum += values[i] * high[i];
      low_sum += values[i] * low[i];
    }
    sum += std::int64_t{high_sum} * (1 << kLowBits) + low_sum;
  }
  return sum;
}

Picture along_rows(const PictureView& source, int width, ResampleFilter filter) {
  const Axis axis = make_axis(source.width, width, filter);
  const auto in_width = static_cast<std::size_t>(source.width), out_width = static_cast<std::size_t>(width);
  Picture out{width, source.height, std::vector<std::uint8_t>(out_width * static_cast<std::size_t>(source.height) * kChannels)};
  std::vector<std::int16_t> planes(in_width * kChannels);  // one row, channel by channel
  for (std::size_t y = 0; y < static_cast<std::size_t>(source.height); ++y) {
    const std::uint8_t* row = source.rgb.data() + y * in_width * kChannels;
    for (std::size_t c = 0; c < kChannels; ++c)
      for (std::size_t x = 0; x < in_width; ++x) planes[c * in_width + x] = row[x * kChannels + c];
    std::uint8_t* target = out.rgb.data() + y * out_width * kChannels;
    for (const Axis::Window& window : axis.windows)
      for (std::size_t c = 0; c < kChannels; ++c) {
        const std::int16_t* values = planes.data() + c * in_width + window.first;
        *target++ = to_byte(weighted_sum(values, axis.high.data() + window.offset, axis.low.data() + window.offset, window.count), axis);
      }
  }
  return out;
}

Picture along_columns(const PictureView& source, int height, ResampleFilter filter) {
  const Axis axis = make_axis(source.height, height, filter);
  const std::size_t row_values = static_cast<std::size_t>(source.width) * kChannels;
  Picture out{source.width, height, std::vector<std::uint8_t>(row_values * static_cast<std::size_t>(height))};
  std::vector<std::int64_t> sums(row_values);
  std::uint8_t* target = out.rgb.data();
  for (const Axis::Window& window : axis.windows) {
    std::fill(sums.begin(), sums.end(), 0);
    for (int j = 0; j < window.count; ++j) {
      const std::uint8_t* row = source.rgb.data() + static_cast<std::size_t>(window.first + j) * row_values;
      const std::int32_t weight = axis.weights[window.offset + static_cast<std::size_t>(j)];
      for (std::size_t x = 0; x < row_values; ++x) sums[x] += std::int64_t{weight} * row[x];
    }
    for (std::size_t x = 0; x < row_values; ++x) *target++ = to_byte(sums[x], axis);
  }
  return out;
}

Result<void> check(const PictureView& source, int width, int height) {
  const auto refuse = [](std::string what) { return Error{ErrorCode::failure, std::move(what), "", ""}; };
  if (!source.complete())
    return refuse(fmt::format("{} values are not a picture of {}x{} pixels", source.rgb.size(), source.width, source.height));
  for (const auto& [w, h] : {std::pair(source.width, source.height), std::pair(width, height)})
    if (w < 1 || h < 1 || w > kMaxResampleSide || h > kMaxResampleSide)
      return refuse(fmt::format("cannot resize to or from {}x{} pixels: sides must be in 1..{}", w, h, kMaxResampleSide));
  if (std::int64_t{width} * height > kMaxResamplePixels || std::int64_t{width} * source.height > kMaxResamplePixels)
    return refuse(
        fmt::format("{}x{} to {}x{} pixels takes more than {} pixels", source.width, source.height, width, height, kMaxResamplePixels));
  return {};
}

}  // namespace

Result<Picture> resample(const PictureView& source, int width, int height, ResampleFilter filter) {
  TRITIUM_TRY(check(source, width, height));
  if (width == source.width && height == source.height) return Picture{width, height, {source.rgb.begin(), source.rgb.end()}};
  if (width == source.width) return along_columns(source, height, filter);
  Picture out = along_rows(source, width, filter);
  return height == source.height ? std::move(out) : along_columns(out, height, filter);
}

}  // namespace tritium
