#include "pipeline/released_model.h"

#include "pipeline/model_config.h"

namespace tritium {

const char* released_text_config() {
  return R"({
 "image_token_id": 151655, "video_token_id": 151656, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
 "text_config": {"head_dim": 128, "hidden_size": 5120, "intermediate_size": 25600, "max_position_embeddings": 262144,
  "num_attention_heads": 64, "num_hidden_layers": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_theta": 5000000,
  "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20], "rope_type": "default"}, "vocab_size": 151936},
 "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152,
  "in_channels": 3, "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 5120,
  "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}})";
}

const char* released_video_vae_config() {
  return R"({"vae_clip_length": 17, "vae_token_drop": 3, "vae_tile_size": 256, "vae_tile_overlap_min": 64, "latent_channels": 24,
 "latents_mean": [0.85809034, -0.96065915, 1.066164, -0.50903255, -0.2727582, -1.3675414, -0.2553255, -0.26907554, -0.5376841,
  -0.04640973, 0.66573703, 0.19690128, -0.5460608, -0.4035342, -0.23683025, 0.25928453, -0.30133945, 0.21134199, -1.1206849,
  0.35819334, -0.042251438, 0.260483, 0.22864093, 0.7056032],
 "latents_std": [1.2223774, 1.2767264, 1.6831775, 1.7549455, 1.5636216, 2.1941435, 0.9653138, 1.0569886, 0.8419489, 0.7729953,
  1.8955938, 0.94684184, 0.79968095, 0.449889, 0.71974, 0.6936293, 2.961095, 2.76942, 3.0496185, 2.1088054, 3.2762263, 3.1627357,
  2.2816813, 2.6127844]})";
}

const char* released_video_vae_source() {
  return R"({"ch": 128, "ch_mult": [1, 2, 2, 4, 4, 8], "num_res_blocks": 2, "space_down": [2, 2, 2, 2, 1, 1],
 "time_down": [1, 2, 2, 1, 1, 1], "in_channels": 3, "out_ch": 3, "z_channels": 24, "embed_dim": 24, "causal_encoder": true,
 "causal_decoder": false, "vit_decoder_kwargs": {"heads": 32, "dim_head": 64, "num_layers": 36, "rope_theta": 100.0,
 "rope_dim_ratio": 0.75}})";
}

const char* released_audio_vae_config() {
  return R"({"sampling_rate": 32000, "encoder_dim": 64, "encoder_rates": [2, 4, 4, 5, 5], "latent_dim": 2048, "latent_channels": 32,
 "num_attention_heads": 8, "decoder_dim": 1024, "decoder_rates": [5, 5, 2, 2, 2, 2, 2],
 "decoder_kernel_sizes": [9, 9, 4, 4, 4, 4, 4], "resblock_kernel_sizes": [3, 7, 11],
 "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
 "latents_mean": [-0.020211687, 0.38764665, -0.043982796, -0.28591514, 0.08179686, -0.3578264, 0.04062381, -0.015525345, -0.22336248,
  0.18210068, 0.2941779, -0.07901168, -0.056815073, -0.36990282, -0.31616315, 0.5905951, -0.05213957, 0.01367316, -0.03691648,
  0.09732661, -0.33946624, -0.30685678, -0.24504599, -0.034698524, 0.028680323, -0.2121778, -0.16782631, 0.3221288, -0.12230559,
  0.43566048, -0.05025992, 0.39792582],
 "latents_std": [1.6895524, 2.7626374, 1.7945344, 1.6801682, 1.6390227, 2.7788298, 1.765909, 1.6199758, 2.6336524, 1.8539357, 2.5056498,
  1.8110192, 1.9579657, 1.6685498, 1.492247, 3.2986703, 1.9491805, 1.8720003, 1.833408, 1.648807, 1.6176958, 1.913145, 1.5695245,
  1.694366, 1.8318421, 1.5540638, 1.9344931, 1.5991982, 1.718046, 1.6307219, 1.8661226, 1.5613768]})";
}

const char* released_image_processor() {
  return R"({"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
 "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})";
}

const char* released_video_processor() {
  return R"({"size": {"longest_edge": 25165824, "shortest_edge": 4096}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
 "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})";
}

}  // namespace tritium
