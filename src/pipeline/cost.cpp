#include "pipeline/cost.h"

#include "model/video_vae/decoder.h"

#include <algorithm>

namespace tritium {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);
// ops::attention holds scores for a slice of rows at once, and their softmax in the same place (ops/attention.cpp).
constexpr std::uint64_t kScoreBytes = (std::uint64_t{64} << 20) * kFloat;

std::uint64_t u(std::int64_t value) { return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)); }

// q·kᵀ and weights·v for every head: 4·rows·keys·width operations.
double attention_flops(std::int64_t rows, std::int64_t width) {
  return 4.0 * static_cast<double>(rows) * static_cast<double>(rows) * static_cast<double>(width);
}

std::uint64_t score_bytes(std::int64_t rows, std::int64_t heads) { return std::min(kScoreBytes, kFloat * u(rows) * u(rows) * u(heads)); }

}  // namespace

StageCost text_cost(const TextConfig& c, std::int64_t tokens) {
  const double weights =
      static_cast<double>(c.hidden) * static_cast<double>(2 * c.heads * c.head_dim + 2 * c.kv_heads * c.head_dim + 3 * c.ffn);
  StageCost cost;
  cost.flops =
      static_cast<double>(c.layers) * (2.0 * static_cast<double>(tokens) * weights + attention_flops(tokens, c.heads * c.head_dim));
  cost.attention_flops = static_cast<double>(c.layers) * attention_flops(tokens, c.heads * c.head_dim);
  cost.values = static_cast<double>(c.layers) * weights;
  cost.working_bytes = kFloat * u(tokens) * u(3 * c.hidden + 4 * c.heads * c.head_dim + 3 * c.ffn) + score_bytes(tokens, c.heads);
  return cost;
}

StageCost denoise_cost(const DitConfig& c, std::int64_t rows, std::int64_t text_rows, std::int64_t targets, const DenoiseWork& work) {
  const double block = static_cast<double>(c.hidden) * static_cast<double>(4 * c.inner() + 3 * c.ffn);
  const double modulation = static_cast<double>(c.time_dim) * static_cast<double>(18 * c.hidden);
  const double runs = static_cast<double>(work.evaluations) * static_cast<double>(work.blocks);  // of a block
  StageCost cost;
  cost.flops = runs * (2.0 * static_cast<double>(rows) * block + attention_flops(rows, c.inner()));
  cost.flops += static_cast<double>(work.steps) * 2.0 * static_cast<double>(targets) * static_cast<double>(c.hidden) *
                static_cast<double>(c.video_features);
  cost.plain_flops = static_cast<double>(c.refiner_layers) * 2.0 * static_cast<double>(text_rows) * block;
  cost.plain_values = static_cast<double>(c.refiner_layers) * block;
  cost.flops += cost.plain_flops + static_cast<double>(c.refiner_layers) * attention_flops(text_rows, c.inner());
  cost.flops += 2.0 * 2.0 * static_cast<double>(work.steps) * static_cast<double>(c.layers) * modulation;  // two distinct times a step
  cost.attention_flops =
      runs * attention_flops(rows, c.inner()) + static_cast<double>(c.refiner_layers) * attention_flops(text_rows, c.inner());
  cost.values = runs * block + static_cast<double>(work.steps) * static_cast<double>(c.layers) * modulation + cost.plain_values;
  const std::uint64_t tables =
      std::min<std::uint64_t>(std::uint64_t{1} << 30, kFloat * 2 * u(work.steps) * u(c.hidden) * (18 * u(c.layers) + 2));
  // The state, and what a block holds at most: in its attention what goes in, q, k and v as they come, turned, and in the order of heads;
  // in its MLP four tensors of the state's size and a chunk of rows. Measured at real width: within 8 %.
  const std::uint64_t attention = kFloat * u(rows) * u(2 * c.hidden + 7 * c.inner()) + score_bytes(rows, c.heads);
  const std::uint64_t mlp = kFloat * u(rows) * u(5 * c.hidden) + kFloat * std::min<std::uint64_t>(u(rows), 4096) * u(3 * c.ffn);
  cost.working_bytes = std::max(attention, mlp) + tables + (work.residual ? kFloat * u(targets) * u(c.hidden) : 0);
  return cost;
}

StageCost video_decode_cost(const video_vae::VideoVaeConfig& c, int latent_frames, int latent_height, int latent_width,
                            video_vae::Decoding decoding) {
  const video_vae::TemporalGeometry time = c.temporal();
  const int clips = video_vae::plan_decode(time, latent_frames).clips;
  const auto rows = c.tiles(latent_height, decoding), columns = c.tiles(latent_width, decoding);
  const std::int64_t area = std::int64_t{rows.tile / c.spatial_ratio()} * (columns.tile / c.spatial_ratio());
  const std::int64_t hidden = c.hidden();
  const double per_token = static_cast<double>(hidden) * static_cast<double>(4 * hidden + 3 * video_vae::kFeedForwardFactor * hidden);
  StageCost cost;
  const auto add = [&](int count, int tokens_of_clip) {
    const double tiles = static_cast<double>(count) * rows.count() * columns.count();
    const std::int64_t tokens = tokens_of_clip * area + video_vae::kSuffixRows;
    const double attention = static_cast<double>(c.layers) * attention_flops(tokens, hidden);
    cost.flops += tiles * (attention + 2.0 * static_cast<double>(tokens) *
                                           (static_cast<double>(c.layers) * per_token + static_cast<double>(hidden) * c.patch_features()));
    cost.attention_flops += tiles * attention;
    cost.values += tiles * static_cast<double>(c.layers) * per_token;
  };
  const int alone = decoding == video_vae::Decoding::draft ? clips - 1 : 0;  // without the tokens that the next clip begins with
  add(alone, time.tokens_per_clip());
  add(clips - alone, time.tokens_per_decode());
  const std::int64_t most = time.tokens_per_decode() * area + video_vae::kSuffixRows;
  cost.working_bytes = kFloat * u(most) * u(12 * hidden + 3 * 2 * video_vae::kFeedForwardFactor * hidden + c.patch_features()) +
                       score_bytes(most, c.heads) + video_vae::VideoDecoder::frame_bytes(c, latent_height, latent_width);
  return cost;
}

StageCost audio_decode_cost(const audio_vae::AudioVaeConfig& c, std::int64_t latents) {
  StageCost cost;
  std::int64_t length = latents;
  std::uint64_t widest = 0;
  for (std::size_t stage = 0; stage < c.decoder_rates.size(); ++stage) {
    const double in = c.decoder_channels(stage), out = c.decoder_channels(stage + 1);
    cost.flops += 2.0 * static_cast<double>(length) * in * out * c.decoder_kernel_sizes[stage];
    length *= c.decoder_rates[stage];
    for (std::size_t branch = 0; branch < c.resblock_kernel_sizes.size(); ++branch) {
      const double values = 2.0 * static_cast<double>(c.resblock_dilation_sizes[branch].size()) * static_cast<double>(length) * out;
      cost.flops += 2.0 * values * out * c.resblock_kernel_sizes[branch];
      cost.values += values;
    }
    const int widest_kernel = *std::max_element(c.resblock_kernel_sizes.begin(), c.resblock_kernel_sizes.end());
    widest = std::max(widest, kFloat * u(length) * static_cast<std::uint64_t>(out) * static_cast<std::uint64_t>(widest_kernel + 12));
  }
  cost.flops *= audio_vae::kChannels;
  cost.values *= audio_vae::kChannels;
  cost.working_bytes = std::min(widest, std::uint64_t{1} << 30) + 2 * kFloat * audio_vae::kChannels * u(length);
  return cost;
}

}  // namespace tritium
