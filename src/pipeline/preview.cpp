#include "pipeline/preview.h"

#include "base/system.h"
#include "media/jpeg_writer.h"
#include "media/resample.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kCell = 16;                     // pixels of a side
constexpr std::int64_t kCellsPerClip = 6000;  // that are looked at
constexpr int kEnoughClips = 8;
constexpr double kRidge = 1e-4;          // of the mean square of a channel: channels that never vary get no weight
constexpr double kSecondsBetween = 0.5;  // pictures go to everybody who watches
constexpr double kShareOfTime = 100;     // a preview may cost a hundredth
constexpr int kEnlarge = 4, kQuality = 80;

std::size_t plane(const Plan& plan) { return static_cast<std::size_t>(plan.latent_height) * static_cast<std::size_t>(plan.latent_width); }

bool has_shape(const Plan& plan, std::span<const float> video) {
  return plan.latent_channels > 0 && plan.latent_frames > 0 &&
         video.size() == static_cast<std::size_t>(plan.latent_channels) * static_cast<std::size_t>(plan.latent_frames) * plane(plan);
}

// Of one cell: its channels, and 1.
void features(const Plan& plan, std::span<const float> video, int frame, std::size_t cell, std::vector<double>& out) {
  const std::size_t frames = static_cast<std::size_t>(plan.latent_frames), cells = plane(plan);
  for (std::size_t c = 0; c < static_cast<std::size_t>(plan.latent_channels); ++c)
    out[c] = static_cast<double>(video[(c * frames + static_cast<std::size_t>(frame)) * cells + cell]);
  out.back() = 1;
}

// a·x = b for a symmetric positive definite [n, n] and b [n, 3] by Cholesky's method, in place; false if a is not.
bool solve_spd(std::vector<double>& a, std::vector<double>& b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i != j) {
        a[i * n + j] = sum / a[j * n + j];
        continue;
      }
      if (!(sum > 0)) return false;
      a[i * n + i] = std::sqrt(sum);
    }
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) b[i * 3 + c] -= a[i * n + k] * b[k * 3 + c];
      b[i * 3 + c] /= a[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k) b[i * 3 + c] -= a[k * n + i] * b[k * 3 + c];
      b[i * 3 + c] /= a[i * n + i];
    }
  }
  return true;
}

}  // namespace

std::string PreviewMap::picture(std::span<const float> cells, int height, int width) const {
  if (empty() || height < 1 || width < 1) return {};
  const std::size_t count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width), n = static_cast<std::size_t>(channels) + 1;
  if (cells.size() != count * (n - 1)) return {};
  Picture small{width, height, std::vector<std::uint8_t>(count * 3)};
  for (std::size_t cell = 0; cell < count; ++cell)
    for (std::size_t c = 0; c < 3; ++c) {
      double value = weights[c * n + n - 1];
      for (std::size_t i = 0; i + 1 < n; ++i) value += weights[c * n + i] * static_cast<double>(cells[i * count + cell]);
      small.rgb[cell * 3 + c] = static_cast<std::uint8_t>(std::isfinite(value) ? std::clamp(value + 0.5, 0.0, 255.0) : 0.0);
    }
  const auto large = resample(small, width * kEnlarge, height * kEnlarge, ResampleFilter::bicubic);
  if (!large.ok()) return {};
  auto jpeg = encode_jpeg(*large, kQuality);
  return jpeg.ok() ? std::move(*jpeg) : std::string();
}

CellColours::CellColours(const Plan& plan)
    : frames_(plan.frames),
      latent_frames_(plan.latent_frames),
      latent_width_(plan.latent_width),
      latent_height_(plan.latent_height),
      cells_(plane(plan)),
      fits_(plan.frames > 0 && plan.width == plan.latent_width * kCell && plan.height == plan.latent_height * kCell) {}

void CellColours::add(std::span<const std::uint8_t> rgb) {
  const std::size_t width = static_cast<std::size_t>(latent_width_) * kCell;
  fits_ = fits_ && rgb.size() == cells_ * kCell * kCell * 3;
  const int frame = next_frame_++;
  // With few frames, one is the middle of several latents.
  for (; fits_ && next_latent_ < latent_frames_; ++next_latent_) {
    if (std::min(frames_ - 1, (2 * next_latent_ + 1) * frames_ / (2 * latent_frames_)) != frame) return;
    for (int row = 0; row < latent_height_; ++row)
      for (int column = 0; column < latent_width_; ++column) {
        std::array<int, 3> sums{};
        for (int y = row * kCell; y < (row + 1) * kCell; ++y)
          for (int x = column * kCell; x < (column + 1) * kCell; ++x)
            for (std::size_t c = 0; c < 3; ++c) sums[c] += rgb[(static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x)) * 3 + c];
        std::array<float, 3>& mean = means_.emplace_back();
        for (std::size_t c = 0; c < 3; ++c) mean[c] = static_cast<float>(sums[c]) / (kCell * kCell);
      }
  }
}

void PreviewFit::add(const Plan& plan, std::span<const float> video, const CellColours& colours) {
  if (!has_shape(plan, video) || !colours.complete() || (channels_ != 0 && channels_ != plan.latent_channels)) return;
  channels_ = plan.latent_channels;
  const std::size_t n = static_cast<std::size_t>(channels_) + 1;
  normal_.resize(n * n);
  right_.resize(n * 3);
  const auto cells = static_cast<std::int64_t>(plane(plan)), all = cells * plan.latent_frames;
  const std::int64_t stride = std::max<std::int64_t>(1, all / kCellsPerClip);
  std::vector<double> x(n);
  for (std::int64_t at = 0; at < all; at += stride) {
    const int frame = static_cast<int>(at / cells);
    const auto cell = static_cast<std::size_t>(at % cells);
    features(plan, video, frame, cell, x);
    const auto rgb = colours.of(frame, cell);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) normal_[i * n + j] += x[i] * x[j];
      for (std::size_t c = 0; c < 3; ++c) right_[i * 3 + c] += x[i] * static_cast<double>(rgb[c]);
    }
    ++cells_;
  }
  ++clips_;
}

std::optional<PreviewMap> PreviewFit::solve() const {
  const std::size_t n = static_cast<std::size_t>(channels_) + 1;
  if (channels_ == 0 || cells_ < static_cast<std::int64_t>(2 * n)) return {};
  std::vector<double> a = normal_, b = right_;
  double trace = 0;
  for (std::size_t i = 0; i + 1 < n; ++i) trace += a[i * n + i];
  for (std::size_t i = 0; i < n; ++i) {
    a[i * n + i] += kRidge * trace / static_cast<double>(n - 1);
    for (std::size_t j = 0; j < i; ++j) a[j * n + i] = a[i * n + j];
  }
  if (!solve_spd(a, b, n)) return {};
  PreviewMap out{channels_, std::vector<double>(3 * n)};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c) out.weights[c * n + i] = b[i * 3 + c];
  return out;
}

Previews::Previews(fs::path folder, const std::string& key) {
  if (!folder.empty()) file_ = folder / ("preview-" + key.substr(0, 32) + ".safetensors");
}

PreviewMap Previews::map() {
  const std::lock_guard lock(mutex_);
  if (!map_.empty() || looked_ || file_.empty()) return map_;
  looked_ = true;
  std::error_code ignored;
  if (!fs::exists(file_, ignored)) return map_;
  const auto file = Checkpoint::open(file_);
  const auto weights = file.ok() ? file->read_f32("weights") : Result<std::vector<float>>(Error{});
  if (!weights.ok() || weights->size() < 6 || weights->size() % 3 != 0) return map_;
  map_.channels = static_cast<int>(weights->size() / 3) - 1;
  map_.weights.assign(weights->begin(), weights->end());
  return map_;
}

void Previews::learn(const Plan& plan, std::span<const float> video, const CellColours& colours) {
  const std::lock_guard lock(mutex_);
  if (fit_.clips() >= kEnoughClips) return;
  fit_.add(plan, video, colours);
  auto solved = fit_.solve();
  if (!solved) return;
  map_ = std::move(*solved);
  if (file_.empty()) return;
  std::error_code failed;
  if (fs::create_directories(file_.parent_path(), failed)) fs::permissions(file_.parent_path(), fs::perms::owner_all, failed);
  const std::vector<float> values(map_.weights.begin(), map_.weights.end());
  const NamedTensor tensors[] = {{"weights", {3, map_.channels + 1}, values}};
  if (!failed) (void)write_safetensors(file_, tensors);
}

PreviewRun::PreviewRun(const Plan& plan, PreviewMap map, const std::function<void(const std::string&)>& show)
    : plan_(plan), map_(std::move(map)), show_(show) {}

void PreviewRun::after_step(const Latents& state, const Latents& velocity, float sigma) {
  if (!show_ || map_.empty() || state.video.size() != velocity.video.size()) return;
  const double now = monotonic_seconds();
  if (now - last_ < std::max(kSecondsBetween, kShareOfTime * cost_)) return;
  if (map_.channels != plan_.latent_channels || !has_shape(plan_, state.video)) return;
  // The middle frame alone.
  const std::size_t cells = plane(plan_), frames = static_cast<std::size_t>(plan_.latent_frames);
  std::vector<float> clean;
  for (std::size_t c = 0; c < static_cast<std::size_t>(map_.channels); ++c)
    for (std::size_t i = 0, at = (c * frames + frames / 2) * cells; i < cells; ++i)
      clean.push_back(state.video[at + i] + sigma * velocity.video[at + i]);
  const std::string jpeg = map_.picture(clean, plan_.latent_height, plan_.latent_width);
  last_ = monotonic_seconds();
  cost_ = last_ - now;
  if (!jpeg.empty()) show_(jpeg);
}

}  // namespace tritium
