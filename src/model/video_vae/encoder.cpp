#include "model/video_vae/encoder.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace tritium::video_vae {
namespace {

constexpr const char* kPartName = "video VAE encoder";
constexpr int kMaxSide = 65536;  // pixels

std::size_t size(int value) { return static_cast<std::size_t>(value); }

// Every 8-bit value in the encoder's normalized space, per channel (spec/vae.md §1.2).
using PixelTable = std::array<std::array<float, 256>, kPixelChannels>;

const PixelTable& pixel_table() {
  static const PixelTable table = [] {
    PixelTable out;
    for (std::size_t c = 0; c < kPixelChannels; ++c)
      for (std::size_t v = 0; v < 256; ++v) out[c][v] = (static_cast<float>(v) / 255.0f - kPixelMean[c]) / kPixelStd[c];
    return out;
  }();
  return table;
}

// Adds the pixels of one frame inside the tile, [height, width, 3], normalized. An empty frame is black.
void append_pixels(std::span<const std::uint8_t> frame, std::size_t frame_width, std::size_t top, std::size_t left, std::size_t height,
                   std::size_t width, std::vector<float>& out) {
  const PixelTable& table = pixel_table();
  for (std::size_t y = top; y < top + height; ++y)
    for (std::size_t i = 0; i < width * kPixelChannels; ++i) {
      const std::uint8_t value = frame.empty() ? std::uint8_t{0} : frame[(y * frame_width + left) * kPixelChannels + i];
      out.push_back(table[i % kPixelChannels][value]);
    }
}

// The layout of tiles of moments: one position for every `ratio` pixels.
AxisTiles latent_tiles(AxisTiles axis, int ratio) {
  axis.length /= ratio;
  axis.tile /= ratio;
  for (int& start : axis.starts) start /= ratio;
  for (int& overlap : axis.overlaps) overlap /= ratio;
  return axis;
}

// Puts the planes of a clip, [planes, tokens of the clip, positions], behind those of the clips before.
void insert_clip(const std::vector<float>& clip, std::size_t clip_values, std::size_t first_value, TokenGrid& grid) {
  const std::size_t plane = grid.plane_values();
  for (std::size_t p = 0; p < size(grid.planes); ++p)
    std::copy_n(clip.begin() + static_cast<std::ptrdiff_t>(p * clip_values), clip_values,
                grid.values.begin() + static_cast<std::ptrdiff_t>(p * plane + first_value));
}

// Reads the frames of the clips, each once.
class ClipReader {
 public:
  ClipReader(const FrameSource& source, int used_frames) : source_(source), used_frames_(used_frames) {}

  // Frames first .. first + count - 1 as described at EncodeSchedule. They stay valid until the next call.
  Result<std::vector<std::span<const std::uint8_t>>> read(int first, int count) {
    std::vector<std::span<const std::uint8_t>> out;
    const auto bytes = size(source_.height) * size(source_.width) * kPixelChannels;
    buffer_.resize(bytes * size(count));
    for (int i = 0; i < count; ++i) {
      const int number = first + i;
      if (number >= used_frames_)
        out.push_back(out.back());
      else if (number < 0)
        out.emplace_back();
      else {
        const std::span<std::uint8_t> frame(buffer_.data() + bytes * size(i), bytes);
        TRITIUM_TRY(source_.read(number, frame));
        out.push_back(frame);
      }
    }
    return out;
  }

 private:
  const FrameSource& source_;
  int used_frames_;
  std::vector<std::uint8_t> buffer_;
};

// Counts tiles for a progress callback.
std::function<void()> tile_counter(const EncodeProgress& progress, int total) {
  return [&progress, total, done = 0]() mutable {
    if (progress) progress(++done, total);
  };
}

}  // namespace

FrameSource frames_in_memory(std::span<const std::uint8_t> rgb, int frames, int height, int width) {
  return {frames, height, width, [rgb, frames](int number, std::span<std::uint8_t> out) -> Result<void> {
            if (rgb.size() != out.size() * size(frames))
              return Error{ErrorCode::failure, fmt::format("{} frames of {} bytes have {} bytes together", frames, out.size(), rgb.size()),
                           "frames", ""};
            std::copy_n(rgb.begin() + static_cast<std::ptrdiff_t>(out.size() * size(number)), out.size(), out.begin());
            return {};
          }};
}

VideoEncoder::VideoEncoder(Device& device, VideoVaeConfig config, EncoderWeights weights, TensorPool pool)
    : device_(&device), config_(std::move(config)), weights_(std::move(weights)), pool_(std::move(pool)) {}

Result<std::uint64_t> VideoEncoder::check(const WeightPart& part, const VideoVaeConfig& config) {
  TRITIUM_TRY(check_encoder_config(config));
  ParamLoader loader(part, kPartName, MatrixPrecision::f32);
  declare_encoder(loader, config);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

Result<VideoEncoder> VideoEncoder::load(Device& device, const WeightPart& part, const VideoVaeConfig& config, const CancelToken* cancel,
                                        const LoadProgress& progress) {
  TRITIUM_TRY(check_encoder_config(config));
  ParamLoader loader(part, kPartName, MatrixPrecision::f32);
  EncoderWeights weights = declare_encoder(loader, config);
  TRITIUM_TRY_ASSIGN(TensorPool pool, loader.load(device, cancel, progress));
  return VideoEncoder(device, config, std::move(weights), std::move(pool));
}

std::uint64_t VideoEncoder::working_bytes(const VideoVaeConfig& config, int height, int width, bool video) {
  return encoder_working_bytes(config, std::min(height, config.tile_size), std::min(width, config.tile_size), video);
}

Result<void> VideoEncoder::check_size(int height, int width) const {
  const int least = 2 * config_.spatial_ratio();
  if (height >= least && width >= least && height <= kMaxSide && width <= kMaxSide) return {};
  return Error{ErrorCode::usage, fmt::format("a picture of {} x {} pixels (width x height) cannot be encoded", width, height), "size",
               fmt::format("both sides must be from {} to {} pixels", least, kMaxSide)};
}

Result<TokenGrid> VideoEncoder::encode_image(const PictureView& picture, Posterior posterior, const CancelToken* cancel,
                                             const EncodeProgress& progress) const {
  TRITIUM_TRY_ASSIGN(const TokenGrid moments, image_moments(picture, cancel, progress));
  return latents_of(moments, posterior, moments.tokens);
}

Result<TokenGrid> VideoEncoder::encode_video(const FrameSource& source, FrameRule rule, Posterior posterior, const CancelToken* cancel,
                                             const EncodeProgress& progress) const {
  TRITIUM_TRY_ASSIGN(const EncodeSchedule schedule, schedule_encode(config_.temporal(), source.frames, rule));
  TRITIUM_TRY_ASSIGN(const TokenGrid moments, video_moments(source, rule, cancel, progress));
  return latents_of(moments, posterior, schedule.drawn_tokens);
}

Result<TokenGrid> VideoEncoder::latents_of(const TokenGrid& moments, Posterior posterior, int drawn_tokens) const {
  TokenGrid latents = choose_latents(moments, posterior, drawn_tokens);
  normalize_latents(config_, latents);
  if (std::all_of(latents.values.begin(), latents.values.end(), [](float v) { return std::isfinite(v); })) return latents;
  return Error{ErrorCode::rejected, "the encoded picture has latents beyond the range of float16", "",
               "damaged weights: download the model again"};
}

Result<TokenGrid> VideoEncoder::image_moments(const PictureView& picture, const CancelToken* cancel, const EncodeProgress& progress) const {
  TRITIUM_TRY(check_size(picture.height, picture.width));
  if (!picture.complete())
    return Error{ErrorCode::failure,
                 fmt::format("a picture of {} x {} pixels has {} values", picture.width, picture.height, picture.rgb.size()), "picture",
                 ""};
  const AxisTiles rows = tiles(picture.height), columns = tiles(picture.width);
  FrameMemory memory(config_);
  const std::function<void()> tile_done = tile_counter(progress, rows.count() * columns.count());
  TokenGrid out{2 * config_.latent_channels, 1, rows.length / config_.spatial_ratio(), columns.length / config_.spatial_ratio(), {}};
  TRITIUM_TRY_ASSIGN(out.values, encode_clip({0, 1, picture.height, picture.width, {picture.rgb}}, memory, cancel, tile_done));
  return out;
}

Result<TokenGrid> VideoEncoder::video_moments(const FrameSource& source, FrameRule rule, const CancelToken* cancel,
                                              const EncodeProgress& progress) const {
  TRITIUM_TRY(check_size(source.height, source.width));
  TRITIUM_TRY_ASSIGN(const EncodeSchedule schedule, schedule_encode(config_.temporal(), source.frames, rule));
  const AxisTiles rows = tiles(source.height), columns = tiles(source.width);
  TokenGrid out{
      2 * config_.latent_channels, schedule.tokens, rows.length / config_.spatial_ratio(), columns.length / config_.spatial_ratio(), {}};
  out.values.resize(size(out.planes) * out.plane_values());
  const std::function<void()> tile_done = tile_counter(progress, static_cast<int>(schedule.clips.size()) * rows.count() * columns.count());

  FrameMemory memory(config_);
  ClipReader reader(source, schedule.used_frames);
  std::size_t done_values = 0;  // of one plane
  for (std::size_t k = 0; k < schedule.clips.size(); ++k) {
    const auto [first_frame, tokens] = schedule.clips[k];
    TRITIUM_TRY_ASSIGN(auto frames, reader.read(first_frame, frames_for_tokens(config_.temporal(), tokens)));
    const Clip clip{static_cast<int>(k), tokens, source.height, source.width, std::move(frames)};
    TRITIUM_TRY_ASSIGN(const std::vector<float> moments, encode_clip(clip, memory, cancel, tile_done));
    const std::size_t clip_values = moments.size() / size(out.planes);
    insert_clip(moments, clip_values, done_values, out);
    done_values += clip_values;
  }
  return out;
}

Result<std::vector<float>> VideoEncoder::encode_clip(const Clip& clip, FrameMemory& memory, const CancelToken* cancel,
                                                     const std::function<void()>& tile_done) const {
  const AxisTiles rows = tiles(clip.height), columns = tiles(clip.width);
  const int ratio = config_.spatial_ratio();
  TileComposer composer(latent_tiles(rows, ratio), latent_tiles(columns, ratio), 2 * config_.latent_channels * clip.tokens);
  for (int i = 0; i < rows.count(); ++i)
    for (int j = 0; j < columns.count(); ++j) {
      const Tile tile{i, j, rows.starts[size(i)], columns.starts[size(j)], rows.tile, columns.tile};
      TRITIUM_TRY_ASSIGN(std::vector<float> moments, encode_tile(clip, tile, memory, cancel));
      composer.place(std::move(moments));
      tile_done();
    }
  return composer.take();
}

Result<std::vector<float>> VideoEncoder::encode_tile(const Clip& clip, const Tile& tile, FrameMemory& memory,
                                                     const CancelToken* cancel) const {
  const std::size_t positions = size(tile.height / config_.spatial_ratio()) * size(tile.width / config_.spatial_ratio());
  const std::size_t planes = 2 * size(config_.latent_channels), tokens = size(clip.tokens);
  std::vector<float> out(planes * tokens * positions);
  int next_frame = 0;
  for (int step = 0; step < clip.tokens; ++step) {
    const StepShape shape{step == 0 ? 1 : config_.temporal_ratio(), tile.height, tile.width};
    std::vector<float> pixels;
    for (const int end = next_frame + shape.frames; next_frame < end; ++next_frame)
      append_pixels(clip.frames[size(next_frame)], size(clip.width), size(tile.top), size(tile.left), size(tile.height), size(tile.width),
                    pixels);

    Graph graph(*device_, fmt::format("video_vae.encoder.clip{}.tile{}_{}.step{}", clip.number, tile.row, tile.column, step),
                encoder_graph_nodes(config_, shape));
    memory.begin(step == 0, step + 1 == clip.tokens);
    ggml_tensor* result = build_encoder_step(graph, weights_, memory, shape, pixels);
    graph.watch(result);
    TRITIUM_TRY(memory.allocate(*device_));
    TRITIUM_TRY(graph.run(cancel));
    const std::vector<float> values = graph.read(result);  // [positions, planes]
    for (std::size_t p = 0; p < planes; ++p)
      for (std::size_t i = 0; i < positions; ++i) out[(p * tokens + size(step)) * positions + i] = values[i * planes + p];
  }
  return out;
}

}  // namespace tritium::video_vae
