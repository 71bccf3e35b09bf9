#include "model/video_vae/compose.h"

#include "base/try.h"

#include <algorithm>

namespace tritium::video_vae {
namespace {

std::size_t size(int value) { return static_cast<std::size_t>(value); }

// mine := before * (1 - weight) + mine * weight
void mix(float* mine, const float* before, std::size_t count, float weight) {
  for (std::size_t i = 0; i < count; ++i) mine[i] = before[i] * (1.0f - weight) + mine[i] * weight;
}

}  // namespace

TileComposer::TileComposer(AxisTiles rows, AxisTiles columns, int planes)
    : rows_(std::move(rows)),
      columns_(std::move(columns)),
      planes_(size(planes)),
      above_(columns_.starts.size()),
      picture_(planes_ * size(rows_.length) * size(columns_.length)) {}

void TileComposer::place(std::vector<float> tile) {
  std::vector<float> bottom = bottom_strip(tile), right = right_strip(tile);
  if (row_ > 0) blend_above(tile);
  if (column_ > 0) blend_left(tile);
  copy_to_picture(tile);
  above_[size(column_)] = std::move(bottom);
  left_ = std::move(right);
  if (++column_ == columns_.count()) {
    column_ = 0;
    ++row_;
  }
}

std::vector<float> TileComposer::bottom_strip(const std::vector<float>& tile) const {
  if (row_ + 1 == rows_.count()) return {};
  const std::size_t height = size(rows_.tile), width = size(columns_.tile), overlap = size(rows_.overlaps[size(row_)]);
  std::vector<float> strip(planes_ * overlap * width);
  for (std::size_t plane = 0; plane < planes_; ++plane)
    std::copy_n(&tile[((plane + 1) * height - overlap) * width], overlap * width, &strip[plane * overlap * width]);
  return strip;
}

std::vector<float> TileComposer::right_strip(const std::vector<float>& tile) const {
  if (column_ + 1 == columns_.count()) return {};
  const std::size_t lines = planes_ * size(rows_.tile), width = size(columns_.tile), overlap = size(columns_.overlaps[size(column_)]);
  std::vector<float> strip(lines * overlap);
  for (std::size_t line = 0; line < lines; ++line)
    std::copy_n(tile.begin() + static_cast<std::ptrdiff_t>((line + 1) * width - overlap), overlap,
                strip.begin() + static_cast<std::ptrdiff_t>(line * overlap));
  return strip;
}

void TileComposer::blend_above(std::vector<float>& tile) const {
  const std::vector<float>& strip = above_[size(column_)];
  const std::size_t height = size(rows_.tile), width = size(columns_.tile), overlap = size(rows_.overlaps[size(row_ - 1)]);
  for (std::size_t plane = 0; plane < planes_; ++plane)
    for (std::size_t y = 0; y < overlap; ++y)
      mix(&tile[(plane * height + y) * width], &strip[(plane * overlap + y) * width], width,
          static_cast<float>(y) / static_cast<float>(overlap));
}

void TileComposer::blend_left(std::vector<float>& tile) const {
  const std::size_t lines = planes_ * size(rows_.tile), width = size(columns_.tile), overlap = size(columns_.overlaps[size(column_ - 1)]);
  for (std::size_t line = 0; line < lines; ++line)
    for (std::size_t x = 0; x < overlap; ++x)
      mix(&tile[line * width + x], &left_[line * overlap + x], 1, static_cast<float>(x) / static_cast<float>(overlap));
}

// Lines and columns shared with the next tile are left to that tile.
void TileComposer::copy_to_picture(const std::vector<float>& tile) {
  const std::size_t tile_height = size(rows_.tile), tile_width = size(columns_.tile);
  const std::size_t height = size(rows_.length), width = size(columns_.length), top = size(rows_.starts[size(row_)]),
                    left = size(columns_.starts[size(column_)]);
  const std::size_t lines = row_ + 1 < rows_.count() ? tile_height - size(rows_.overlaps[size(row_)]) : tile_height;
  const std::size_t count = column_ + 1 < columns_.count() ? tile_width - size(columns_.overlaps[size(column_)]) : tile_width;
  for (std::size_t plane = 0; plane < planes_; ++plane)
    for (std::size_t y = 0; y < lines; ++y)
      std::copy_n(&tile[(plane * tile_height + y) * tile_width], count, &picture_[(plane * height + top + y) * width + left]);
}

ClipJoiner::ClipJoiner(const TemporalGeometry& geometry, std::size_t frame_values, int output_frames, FrameSink sink)
    : frame_values_(frame_values),
      clip_frames_(size(geometry.clip_length)),
      overlap_(size(geometry.frame_overlap())),
      output_frames_(output_frames),
      sink_(std::move(sink)) {}

Result<void> ClipJoiner::add(std::vector<float> frames) {
  const std::size_t faded = std::min(look_ahead_.size(), frames.size()) / frame_values_;
  for (std::size_t i = 0; i < faded; ++i)
    mix(&frames[i * frame_values_], &look_ahead_[i * frame_values_], frame_values_, static_cast<float>(i) / static_cast<float>(overlap_));
  const std::size_t final_values = std::min(frames.size(), clip_frames_ * frame_values_);
  TRITIUM_TRY(emit(std::span(frames).first(final_values)));
  look_ahead_.assign(frames.begin() + static_cast<std::ptrdiff_t>(final_values), frames.end());
  return {};
}

Result<void> ClipJoiner::finish() { return emit(look_ahead_); }

Result<void> ClipJoiner::emit(std::span<const float> frames) {
  for (std::size_t offset = 0; offset < frames.size() && next_ < output_frames_; offset += frame_values_)
    TRITIUM_TRY(sink_(next_++, frames.subspan(offset, frame_values_)));
  return {};
}

}  // namespace tritium::video_vae
