#include "support/measure.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>

namespace tritium::demo {
namespace {

using Rgb = std::array<double, 3>;
constexpr int kColors = 8;
constexpr std::array<const char*, kColors> kNames = {"red", "green", "blue", "yellow", "purple", "orange", "white", "black"};
constexpr std::array<Rgb, kColors> kPaints = {{{0.86, 0.14, 0.14},
                                               {0.12, 0.70, 0.26},
                                               {0.14, 0.28, 0.88},
                                               {0.96, 0.86, 0.16},
                                               {0.58, 0.20, 0.76},
                                               {0.97, 0.54, 0.10},
                                               {0.95, 0.95, 0.95},
                                               {0.07, 0.07, 0.07}}};
constexpr int kEdge = 6;  // pixels along each side that are taken as background

struct Swatch {
  Rgb value;
  int color;
};

// The second tone of a patterned background.
Rgb second_tone(const Rgb& c) {
  Rgb out{};
  const bool dark = 0.3 * c[0] + 0.59 * c[1] + 0.11 * c[2] < 0.25;
  for (std::size_t i = 0; i < 3; ++i) out[i] = dark ? std::min(1.0, c[i] + 0.20) : c[i] * 0.70;
  return out;
}

// Every colour as painted, as second tone, in shade, in light, and half-way to the second tone.
std::vector<Swatch> palette() {
  std::vector<Swatch> out;
  for (int color = 0; color < kColors; ++color) {
    const Rgb c = kPaints[static_cast<std::size_t>(color)], tone = second_tone(c);
    Rgb shade{}, light{}, half{};
    for (std::size_t i = 0; i < 3; ++i) {
      shade[i] = c[i] * 0.88;
      light[i] = std::clamp(c[i] * 1.12, 0.0, 1.0);
      half[i] = 0.5 * (c[i] + tone[i]);
    }
    for (const Rgb& value : {c, tone, shade, light, half}) out.push_back({value, color});
  }
  return out;
}

// Colour number of every pixel, [frames, height, width].
struct Labels {
  int frames, height, width;
  std::vector<std::uint8_t> of;
  [[nodiscard]] int at(int t, int y, int x) const {
    return of[(static_cast<std::size_t>(t) * static_cast<std::size_t>(height) + static_cast<std::size_t>(y)) *
                  static_cast<std::size_t>(width) +
              static_cast<std::size_t>(x)];
  }
};

Labels label(const Clip& clip) {
  const std::vector<Swatch> swatches = palette();
  Labels out{clip.frames, clip.height, clip.width, {}};
  out.of.reserve(clip.rgb.size() / 3);
  for (std::size_t i = 0; i < clip.rgb.size(); i += 3) {
    double best = 1e9;
    int color = 0;
    for (const Swatch& swatch : swatches) {
      double distance = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double d = clip.rgb[i + c] / 255.0 - swatch.value[c];
        distance += d * d;
      }
      if (distance < best) best = distance, color = swatch.color;
    }
    out.of.push_back(static_cast<std::uint8_t>(color));
  }
  return out;
}

using Counts = std::array<std::int64_t, kColors>;
int most_common(const Counts& counts) { return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin()); }

int background(const Labels& labels) {
  Counts counts{};
  const auto add = [&](int t, int y0, int y1, int x0, int x1) {
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) ++counts[static_cast<std::size_t>(labels.at(t, y, x))];
  };
  for (int t = 0; t < labels.frames; ++t) {  // corners count twice, as in the original
    add(t, 0, kEdge, 0, labels.width);
    add(t, labels.height - kEdge, labels.height, 0, labels.width);
    add(t, 0, labels.height, 0, kEdge);
    add(t, 0, labels.height, labels.width - kEdge, labels.width);
  }
  return most_common(counts);
}

bool solid(const Labels& labels, int t, int y, int x) {
  const int color = labels.at(t, y, x);
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (labels.at(t, y + dy, x + dx) != color) return false;
  return true;
}

// The most common other colour, counted where a pixel and its 8 neighbours agree.
int object(const Labels& labels, int bg) {
  Counts counts{};
  for (int t = 0; t < labels.frames; ++t)
    for (int y = 1; y < labels.height - 1; ++y)
      for (int x = 1; x < labels.width - 1; ++x)
        if (solid(labels, t, y, x)) ++counts[static_cast<std::size_t>(labels.at(t, y, x))];
  counts[static_cast<std::size_t>(bg)] = 0;
  return most_common(counts);
}

struct Outline {
  double area = 0, cx = 0, cy = 0;  // pixels; centre in picture widths and heights
  double fill = 0;                  // of the bounding box
};

Outline outline(const Labels& labels, int t, int color) {
  double sum_x = 0, sum_y = 0, area = 0;
  int left = labels.width, right = -1, top = labels.height, bottom = -1;
  for (int y = 0; y < labels.height; ++y)
    for (int x = 0; x < labels.width; ++x) {
      if (labels.at(t, y, x) != color) continue;
      ++area;
      sum_x += x;
      sum_y += y;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
    }
  Outline out{area, sum_x / std::max(area, 1.0) / labels.width, sum_y / std::max(area, 1.0) / labels.height, 0};
  if (area > 0) out.fill = area / (static_cast<double>(bottom - top + 1) * (right - left + 1));
  return out;
}

template <class Get>
double mean(std::span<const Outline> part, Get get) {
  double sum = 0;
  for (const Outline& o : part) sum += get(o);
  return sum / static_cast<double>(part.size());
}

std::string motion_name(const Measured& m, std::span<const Outline> track) {
  const std::string hx = m.dx > 0.12 ? "right" : m.dx < -0.12 ? "left" : "";
  const std::string hy = m.dy > 0.12 ? "down" : m.dy < -0.12 ? "up" : "";
  if (!hx.empty() || !hy.empty()) return hy + hx;
  if (m.area_ratio > 2.0) return "grow";
  if (m.area_ratio < 0.5) return "shrink";
  const double middle = mean(track, [](const Outline& o) { return o.cy; });
  const double variance = mean(track, [&](const Outline& o) { return (o.cy - middle) * (o.cy - middle); });
  return std::sqrt(variance) > 0.06 ? "bounce" : "spin";
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

std::string shape_name(double fill) {
  constexpr std::array<std::pair<const char*, double>, 4> kShapes = {
      {{"circle", 0.785}, {"square", 1.0}, {"triangle", 0.5}, {"star", 0.36}}};
  const auto closer = [fill](const auto& a, const auto& b) { return std::abs(a.second - fill) < std::abs(b.second - fill); };
  return std::min_element(kShapes.begin(), kShapes.end(), closer)->first;
}

void measure_pictures(const Clip& clip, Measured& m) {
  const Labels labels = label(clip);
  const int bg = background(labels), color = object(labels, bg);
  m.bg = kNames[static_cast<std::size_t>(bg)];
  m.color = kNames[static_cast<std::size_t>(color)];
  std::vector<Outline> track;
  std::vector<double> fills;
  int seen = 0;
  for (int t = 0; t < clip.frames; ++t) {
    track.push_back(outline(labels, t, color));
    if (track.back().area > 20) ++seen;
    if (track.back().area > 60) fills.push_back(track.back().fill);
  }
  const auto area = [](const Outline& o) { return o.area; };
  const auto cx = [](const Outline& o) { return o.cx; };
  const auto cy = [](const Outline& o) { return o.cy; };
  const std::span all(track);  // the outermost frames are left out: they are the least certain
  const auto start = all.subspan(1, 4), end = all.subspan(all.size() - 5, 4);
  m.visible = static_cast<double>(seen) / clip.frames;
  m.area = mean(all, area) / (static_cast<double>(clip.height) * clip.width);
  m.dx = mean(end, cx) - mean(start, cx);
  m.dy = mean(end, cy) - mean(start, cy);
  m.area_ratio = mean(end, area) / std::max(mean(start, area), 1.0);
  m.motion = motion_name(m, all);
  m.fill = median(std::move(fills));
  m.shape = shape_name(m.fill);
}

constexpr std::size_t kSpectrum = 65536;  // points of the transform; sound beyond its first 2 s is not looked at

// In place, radix 2. Precondition: the size is a power of two.
void fourier(std::vector<std::complex<double>>& a) {
  const std::size_t n = a.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(a[i], a[j]);
  }
  for (std::size_t half = 1; half < n; half *= 2)
    for (std::size_t k = 0; k < half; ++k) {
      const auto turn = std::polar(1.0, -std::numbers::pi * static_cast<double>(k) / static_cast<double>(half));
      for (std::size_t i = k; i < n; i += 2 * half) {
        const auto odd = turn * a[i + half];
        a[i + half] = a[i] - odd;
        a[i] += odd;
      }
    }
}

// Magnitudes of the Hann-windowed sum of both channels, bins 0..kSpectrum/2.
std::vector<double> spectrum(const Clip& clip) {
  std::vector<std::complex<double>> points(kSpectrum);
  const std::size_t n = clip.left.size();
  for (std::size_t i = 0; i < std::min(n, kSpectrum); ++i) {
    const double window = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n - 1));
    points[i] = (static_cast<double>(clip.left[i]) + static_cast<double>(clip.right[i])) * window;
  }
  fourier(points);
  std::vector<double> out(kSpectrum / 2 + 1);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::abs(points[i]);
  return out;
}

void measure_pitch(const Clip& clip, Measured& m) {
  constexpr std::array<std::pair<const char*, double>, 3> kPitches = {{{"low", 200}, {"mid", 400}, {"high", 800}}};
  const std::vector<double> size = spectrum(clip);
  const auto hertz = [&](std::size_t bin) { return static_cast<double>(bin) * clip.sample_rate / static_cast<double>(kSpectrum); };
  double strongest = -1;
  for (const auto& [name, tone] : kPitches) {
    double level = 0;
    for (std::size_t i = 0; i < size.size(); ++i)
      if (hertz(i) > tone * 0.94 && hertz(i) < tone * 1.06) level = std::max(level, size[i]);
    if (level > strongest) strongest = level, m.pitch = name;
  }
  m.peak_hz = hertz(static_cast<std::size_t>(std::max_element(size.begin(), size.end()) - size.begin()));
  double power = 0;
  for (const double s : size) power += s * s;
  m.tonality = strongest / (std::sqrt(power / static_cast<double>(size.size())) + 1e-9);
}

double mean_square(std::span<const float> part) {
  double sum = 0;
  for (const float v : part) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum / static_cast<double>(part.size());
}

double balance(const Clip& clip, std::size_t begin, std::size_t end) {
  const double l = std::sqrt(mean_square(std::span(clip.left).subspan(begin, end - begin)));
  const double r = std::sqrt(mean_square(std::span(clip.right).subspan(begin, end - begin)));
  return (r - l) / (r + l + 1e-9);
}

void measure_sound(const Clip& clip, Measured& m) {
  measure_pitch(clip, m);
  const std::size_t length = clip.left.size(), quarter = length / 4;
  m.pan_start = balance(clip, 600, quarter);  // the tone is faded in before
  m.pan_end = balance(clip, length - quarter, length);
  const double moved = m.pan_end - m.pan_start;
  m.pan = moved > 0.3 ? "right" : moved < -0.3 ? "left" : "still";
  m.rms = std::sqrt(0.5 * (mean_square(clip.left) + mean_square(clip.right)));
}

std::string expected_pan(const std::string& motion) {
  const auto names = [&](const char* side) { return motion.find(side) != std::string::npos; };
  return names("right") ? "right" : names("left") ? "left" : "still";
}

}  // namespace

std::map<std::string, std::string> Measured::answers() const {
  return {{"color", color}, {"bg", bg}, {"motion", motion}, {"shape", shape}, {"pitch", pitch}, {"pan", pan}};
}

Result<Measured> measure(const Clip& clip) {
  if (clip.frames < 6 || clip.width < 16 || clip.height < 16 || clip.left.size() < 3200 || clip.left.size() != clip.right.size() ||
      !clip.pictures_complete())
    return Error{ErrorCode::failure,
                 fmt::format("a clip of {} frames of {}x{} with {} samples cannot be measured", clip.frames, clip.width, clip.height,
                             clip.left.size()),
                 "", ""};
  Measured out;
  measure_pictures(clip, out);
  measure_sound(clip, out);
  return out;
}

std::map<std::string, bool> score(const Measured& measured, const nlohmann::json& expect) {
  const auto answers = measured.answers();
  const std::string motion = expect.at("motion").get<std::string>();
  std::map<std::string, bool> out;
  for (const char* name : {"color", "bg", "motion", "pitch", "shape"}) {
    if (!expect.contains(name) || (name == std::string("shape") && motion == "spin")) continue;
    out[name] = answers.at(name) == expect.at(name).get<std::string>();
  }
  out["pan"] = measured.pan == expected_pan(motion);
  return out;
}

}  // namespace tritium::demo
