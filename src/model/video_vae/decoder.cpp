#include "model/video_vae/decoder.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace tritium::video_vae {
namespace {

constexpr const char* kPartName = "video VAE decoder";
constexpr int kMaxLatentSide = 4096;  // 65536 pixels

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Counts tiles for a progress callback.
std::function<void()> tile_counter(const TileProgress& progress, int total) {
  return [&progress, total, done = 0]() mutable {
    if (progress) progress(++done, total);
  };
}

}  // namespace

VideoDecoder::VideoDecoder(Device& device, VideoVaeConfig config, DecoderWeights weights, TensorPool pool)
    : device_(&device), config_(std::move(config)), weights_(std::move(weights)), pool_(std::move(pool)) {}

Result<std::uint64_t> VideoDecoder::check(const WeightPart& part, const VideoVaeConfig& config, MatrixPolicy policy) {
  ParamLoader loader(part, kPartName, policy);
  declare_decoder(loader, config);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

Result<VideoDecoder> VideoDecoder::load(Device& device, const WeightPart& part, const VideoVaeConfig& config, MatrixPolicy policy,
                                        const CancelToken* cancel, const LoadProgress& progress) {
  ParamLoader loader(part, kPartName, policy);
  DecoderWeights weights = declare_decoder(loader, config);
  TRITIUM_TRY_ASSIGN(TensorPool pool, loader.load(device, cancel, progress));
  return VideoDecoder(device, config, std::move(weights), std::move(pool));
}

std::uint64_t VideoDecoder::frame_bytes(const VideoVaeConfig& config, int latent_height, int latent_width) {
  const AxisTiles rows = config.tiles(latent_height), columns = config.tiles(latent_width);
  const TemporalGeometry time = config.temporal();
  const auto pixels = [](int height, int width) { return static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width); };
  const auto frames = static_cast<std::uint64_t>(time.clip_length + time.frame_overlap());
  const auto decoded = static_cast<std::uint64_t>(time.tokens_per_decode() * time.ratio);
  // The picture of a clip with the look-ahead of the clip before; strips of the tiles above and beside (two generations while one is
  // replaced); a tile as the network gives it and as frames.
  const int strip = rows.overlaps.empty() ? 0 : *std::max_element(rows.overlaps.begin(), rows.overlaps.end());
  const std::uint64_t picture = (frames + static_cast<std::uint64_t>(time.frame_overlap())) * pixels(rows.length, columns.length);
  const std::uint64_t strips = frames * (pixels(strip, columns.tile * (columns.count() + 1)) + 2 * pixels(rows.tile, columns.tile));
  const std::uint64_t tile = (decoded + frames) * pixels(rows.tile, columns.tile);
  return (picture + strips + tile) * kPixelChannels * sizeof(float);
}

Result<void> VideoDecoder::decode(const LatentVideo& latents, const FrameSink& sink, const CancelToken* cancel,
                                  const TileProgress& progress, Decoding decoding) {
  TRITIUM_TRY(check_latents(latents));
  const TemporalGeometry time = config_.temporal();
  const DecodePlan plan = plan_decode(time, latents.tokens);
  const AxisTiles rows = config_.tiles(latents.height, decoding), columns = config_.tiles(latents.width, decoding);
  const std::function<void()> tile_done = tile_counter(progress, plan.clips * rows.count() * columns.count());
  const std::size_t frame_values = kPixelChannels * static_cast<std::size_t>(rows.length) * static_cast<std::size_t>(columns.length);

  ClipJoiner joiner(time, frame_values, plan.output_frames, sink);
  for (int number = 0; number < plan.clips; ++number) {
    // The look-ahead frames of the last clip are the video's last.
    const bool alone = decoding == Decoding::draft && number + 1 < plan.clips;
    Clip clip{number,
              number * time.tokens_per_clip(),
              alone ? time.tokens_per_clip() : time.tokens_per_decode(),
              alone ? time.own_frames() : time.kept_frames(),
              rows,
              columns};
    const int remaining = plan.output_frames - number * time.clip_length;
    if (remaining < static_cast<int>(clip.frames.size())) clip.frames.resize(static_cast<std::size_t>(remaining));
    TRITIUM_TRY_ASSIGN(std::vector<float> frames, decode_clip(latents, clip, cancel, tile_done));
    TRITIUM_TRY(joiner.add(std::move(frames)));
  }
  return joiner.finish();
}

Result<std::vector<float>> VideoDecoder::decode_image(const LatentVideo& latents, const CancelToken* cancel, const TileProgress& progress) {
  TRITIUM_TRY(check_latents(latents));
  if (latents.tokens != 1)
    return Error{ErrorCode::failure, fmt::format("an image has one latent token, not {}", latents.tokens), "latents_video", ""};
  Clip clip{0,
            0,
            1,
            std::vector<int>(static_cast<std::size_t>(config_.temporal_ratio())),
            config_.tiles(latents.height),
            config_.tiles(latents.width)};
  const std::function<void()> tile_done = tile_counter(progress, clip.rows.count() * clip.columns.count());
  std::iota(clip.frames.begin(), clip.frames.end(), 0);
  return decode_clip(latents, clip, cancel, tile_done);
}

Result<void> VideoDecoder::check_latents(const LatentVideo& latents) const {
  const auto [values, tokens, height, width] = latents;
  const auto fail = [](std::string message) { return Error{ErrorCode::failure, std::move(message), "latents_video", ""}; };
  if (tokens < 1 || height < 1 || width < 1 || height > kMaxLatentSide || width > kMaxLatentSide)
    return fail(fmt::format("the shape {} x {} x {} (tokens, height, width) is outside 1..{}", tokens, height, width, kMaxLatentSide));
  const std::size_t expected = static_cast<std::size_t>(config_.latent_channels) * static_cast<std::size_t>(tokens) *
                               static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  if (values.size() != expected)
    return fail(fmt::format("{} values given, expected {} = {} x {} x {} x {}", values.size(), expected, config_.latent_channels, tokens,
                            height, width));
  if (!all_finite(values)) return fail("contains values that are not finite");
  return {};
}

Result<std::vector<float>> VideoDecoder::decode_clip(const LatentVideo& latents, const Clip& clip, const CancelToken* cancel,
                                                     const std::function<void()>& tile_done) {
  TileComposer composer(clip.rows, clip.columns, static_cast<int>(clip.frames.size()) * kPixelChannels);
  for (int i = 0; i < clip.rows.count(); ++i)
    for (int j = 0; j < clip.columns.count(); ++j) {
      TRITIUM_TRY_ASSIGN(std::vector<float> tile, decode_tile(latents, clip, i, j, cancel));
      composer.place(std::move(tile));
      tile_done();
    }
  return composer.take();
}

Result<std::vector<float>> VideoDecoder::decode_tile(const LatentVideo& latents, const Clip& clip, int i, int j,
                                                     const CancelToken* cancel) {
  const int ratio = config_.spatial_ratio();
  const TileShape shape{clip.tokens, clip.rows.tile / ratio, clip.columns.tile / ratio};
  const int top = clip.rows.starts[static_cast<std::size_t>(i)] / ratio, left = clip.columns.starts[static_cast<std::size_t>(j)] / ratio;
  const int first_token = clip.frames.front() / config_.temporal_ratio(), end_token = clip.frames.back() / config_.temporal_ratio() + 1;
  Graph graph(*device_, fmt::format("video_vae.clip{}.tile{}_{}", clip.number, i, j), tile_graph_nodes(config_, shape));
  const ggml_tensor* result =
      build_tile(graph, weights_, config_, shape, tile_latents(latents, clip, shape, top, left), first_token, end_token);
  TRITIUM_TRY(graph.run(cancel));
  const std::vector<float> values = graph.read(result);
  if (!all_finite(values))
    return Error{ErrorCode::rejected, fmt::format("{} produced non-finite values in clip {}, tile ({},{})", kPartName, clip.number, i, j),
                 "", "damaged weights or an unsuitable device: download the model again, or try '--device CPU'"};
  return unpatchify(config_, shape, values, first_token, clip.frames);
}

std::vector<float> VideoDecoder::tile_latents(const LatentVideo& latents, const Clip& clip, const TileShape& shape, int top,
                                              int left) const {
  const auto channels = static_cast<std::size_t>(config_.latent_channels);
  const auto height = static_cast<std::size_t>(latents.height), width = static_cast<std::size_t>(latents.width);
  const std::size_t channel_stride = static_cast<std::size_t>(latents.tokens) * height * width;
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(shape.rows()) * channels);
  for (int t = 0; t < shape.tokens; ++t) {
    const auto token = static_cast<std::size_t>(std::min(clip.first_token + t, latents.tokens - 1));
    for (int y = top; y < top + shape.height; ++y)
      for (int x = left; x < left + shape.width; ++x) {
        const float* value = &latents.values[(token * height + static_cast<std::size_t>(y)) * width + static_cast<std::size_t>(x)];
        for (std::size_t c = 0; c < channels; ++c)
          out.push_back(value[c * channel_stride] * config_.latents_std[c] + config_.latents_mean[c]);
      }
  }
  return out;
}

}  // namespace tritium::video_vae
