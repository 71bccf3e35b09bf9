// Configuration of the audio VAE. Source: spec/vae.md appendix B.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace tritium::audio_vae {

// Fixed by the model, in no configuration file.
inline constexpr int kChannels = 2;     // stereo: two independent runs of a mono model
inline constexpr int kFilterTaps = 12;  // of the alias-free activation
inline constexpr int kEdgeKernel = 7;   // of the first and the last convolution of the decoder

struct AudioVaeConfig {
  // Encoder: one strided stage per rate, doubling encoder_dim each time, then attention heads that reduce latent_dim features.
  int encoder_dim = 0;
  std::vector<int> encoder_rates;
  int attention_heads = 0;
  int latent_dim = 0;                            // features between the two networks and the latents
  int latent_channels = 0;                       // per latent and stereo channel
  std::vector<float> latents_mean, latents_std;  // [latent_channels]
  // Decoder: stage i turns decoder_channels(i) channels into decoder_channels(i+1) at decoder_rates[i] times the sampling rate.
  int decoder_dim = 0;
  std::vector<int> decoder_rates, decoder_kernel_sizes;
  std::vector<int> resblock_kernel_sizes;                 // the branches of one stage
  std::vector<std::vector<int>> resblock_dilation_sizes;  // the steps of each branch
  int sampling_rate = 0;                                  // Hz

  [[nodiscard]] int decoder_channels(std::size_t stage) const { return decoder_dim >> stage; }
  [[nodiscard]] int samples_per_latent() const;

  // `config_json` is audio_vae/config.json. In the official layout it holds only a part and `metadata_json` (audio_vae/metadata.json)
  // another; kernel sizes, dilations, heads and encoder widths missing from both have the values of the released 32 kHz model.
  // Error (model, field = the key) names the file, the value and what is allowed; contradictions between the files are errors too.
  static Result<AudioVaeConfig> parse(std::string_view config_json, std::string_view metadata_json = {});

  // Reads config.json and, if it is there, metadata.json of an audio_vae folder.
  static Result<AudioVaeConfig> read(const std::filesystem::path& folder);
};

}  // namespace tritium::audio_vae
