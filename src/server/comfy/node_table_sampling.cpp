// Sampling, decoding, saving, and nodes that compute values.
#include "server/comfy/node_table.h"

namespace tritium::server::comfy {
namespace {

constexpr double kMaxSeed = 18446744073709551615.0;

// res_multistep is what ComfyUI's own templates name; it is replaced by euler, with a note.
InputSpec sampler_name() { return choice("sampler_name", {"euler", "res_multistep"}, "euler"); }
InputSpec scheduler() { return choice("scheduler", {"simple"}, "simple"); }
InputSpec denoise() { return tip(number("denoise", 1.0, 0, 1), "1: a clip is made from noise alone"); }

}  // namespace

void add_sampling_nodes(std::vector<NodeSpec>& table) {
  const std::string sampling = "model/sampling";
  table.push_back({"KSampler",
                   "KSampler",
                   sampling,
                   "The model is distilled: cfg is 1 and the negative has no effect.",
                   false,
                   false,
                   {link("model", "MODEL"), integer("seed", 0, 0, kMaxSeed), integer("steps", 20, 1, 10000),
                    number("cfg", 1.0, 0, 100, 0.1), sampler_name(), scheduler(), link("positive", "CONDITIONING"),
                    link("negative", "CONDITIONING"), link("latent_image", "LATENT"), denoise()},
                   {{"LATENT", "LATENT"}}});
  table.push_back({"KSamplerSelect", "KSamplerSelect", sampling, "", false, true, {sampler_name()}, {{"SAMPLER", "SAMPLER"}}});
  table.push_back({"BasicScheduler",
                   "BasicScheduler",
                   sampling,
                   "",
                   false,
                   true,
                   {link("model", "MODEL"), scheduler(), integer("steps", 20, 1, 10000), denoise()},
                   {{"SIGMAS", "SIGMAS"}}});
  table.push_back({"RandomNoise", "RandomNoise", sampling, "", false, true, {integer("noise_seed", 0, 0, kMaxSeed)}, {{"NOISE", "NOISE"}}});
  table.push_back({"BasicGuider",
                   "BasicGuider",
                   sampling,
                   "",
                   false,
                   true,
                   {link("model", "MODEL"), link("conditioning", "CONDITIONING")},
                   {{"GUIDER", "GUIDER"}}});
  table.push_back(
      {"CFGGuider",
       "CFGGuider",
       sampling,
       "The model is distilled: cfg is 1 and the negative has no effect.",
       false,
       true,
       {link("model", "MODEL"), link("positive", "CONDITIONING"), link("negative", "CONDITIONING"), number("cfg", 1.0, 0, 100, 0.1)},
       {{"GUIDER", "GUIDER"}}});
  table.push_back({"SamplerCustomAdvanced",
                   "SamplerCustomAdvanced",
                   sampling,
                   "",
                   false,
                   true,
                   {link("noise", "NOISE"), link("guider", "GUIDER"), link("sampler", "SAMPLER"), link("sigmas", "SIGMAS"),
                    link("latent_image", "LATENT")},
                   {{"LATENT", "output"}, {"LATENT", "denoised_output"}}});
  table.push_back({"LTXVSeparateAVLatent",
                   "LTXVSeparateAVLatent",
                   "model/latent",
                   "",
                   false,
                   true,
                   {link("av_latent", "LATENT")},
                   {{"LATENT", "video_latent"}, {"LATENT", "audio_latent"}}});
}

void add_output_nodes(std::vector<NodeSpec>& table) {
  table.push_back(
      {"VAEDecode", "VAE Decode", "model/latent", "", false, false, {link("samples", "LATENT"), link("vae", "VAE")}, {{"IMAGE", "IMAGE"}}});
  table.push_back(
      {"VAEDecodeTiled",
       "VAE Decode (Tiled)",
       "model/latent",
       "Tiles are chosen here by the memory; the numbers have no effect.",
       false,
       false,
       {link("samples", "LATENT"), link("vae", "VAE"), integer("tile_size", 512, 64, 4096, 32), integer("overlap", 64, 0, 4096, 32),
        integer("temporal_size", 64, 8, 4096, 4), integer("temporal_overlap", 8, 4, 4096, 4)},
       {{"IMAGE", "IMAGE"}}});
  table.push_back({"VAEDecodeAudio",
                   "VAE Decode Audio",
                   "model/latent",
                   "",
                   false,
                   true,
                   {link("samples", "LATENT"), link("vae", "VAE")},
                   {{"AUDIO", "AUDIO"}}});
  table.push_back({"CreateVideo",
                   "Create Video",
                   "video",
                   "24 frames per second, 8 bits.",
                   false,
                   true,
                   {link("images", "IMAGE"), tip(number("fps", 24, 1, 120, 1), "The model makes 24 frames per second"),
                    optional(link("audio", "AUDIO")), optional(choice("bit_depth", {"auto", "8"}, "auto")),
                    optional(choice("color_space", {"sRGB"}, "sRGB")), optional(choice("codec", {"none", "auto", "h264"}, "none"))},
                   {{"VIDEO", "VIDEO"}}});
  table.push_back({"SaveVideo",
                   "Save Video",
                   "video",
                   "MP4 with H.264 and AAC.",
                   true,
                   true,
                   {link("video", "VIDEO"), text("filename_prefix", "video/ComfyUI"), choice("format", {"auto", "mp4"}, "auto"),
                    optional(choice("codec", {"auto", "h264"}, "auto")), hidden(choice("format.codec", {"auto", "h264"}, "auto")),
                    hidden(choice("codec.encoding", {"auto"}, "auto")), hidden(choice("format.codec.encoding", {"auto"}, "auto"))},
                   {{"VIDEO", "video"}}});
  table.push_back({"VHS_VideoCombine",
                   "Video Combine",
                   "Video Helper Suite",
                   "MP4 with H.264 and AAC.",
                   true,
                   false,
                   {link("images", "IMAGE"), number("frame_rate", 24, 1, 120, 1), integer("loop_count", 0, 0, 100),
                    text("filename_prefix", "ComfyUI"), choice("format", {"video/h264-mp4"}, "video/h264-mp4"), boolean("pingpong", false),
                    boolean("save_output", true), optional(link("audio", "AUDIO")), hidden(text("pix_fmt", "yuv420p")),
                    hidden(integer("crf", 19, 0, 100)), hidden(boolean("save_metadata", true)), hidden(boolean("trim_to_audio", false))},
                   {{"VHS_FILENAMES", "Filenames"}}});
}

void add_value_nodes(std::vector<NodeSpec>& table) {
  constexpr double kBig = 9223372036854775807.0;
  const std::string values = "utilities/primitive";
  table.push_back({"PrimitiveInt", "Int", values, "", false, true, {integer("value", 0, -kBig, kBig)}, {{"INT", "INT"}}});
  table.push_back({"PrimitiveFloat", "Float", values, "", false, true, {number("value", 0, -kBig, kBig)}, {{"FLOAT", "FLOAT"}}});
  table.push_back({"PrimitiveBoolean", "Boolean", values, "", false, true, {boolean("value", false)}, {{"BOOLEAN", "BOOLEAN"}}});
  table.push_back({"PrimitiveString", "String", values, "", false, true, {text("value", "")}, {{"STRING", "STRING"}}});
  table.push_back({"PrimitiveStringMultiline", "String (Multiline)", values, "", false, true, {text("value", "")}, {{"STRING", "STRING"}}});
  table.push_back({"ResolutionSelector",
                   "Resolution Selector",
                   "utilities",
                   "",
                   false,
                   true,
                   {choice("aspect_ratio",
                           {"1:1 (Square)", "3:2 (Photo)", "4:3 (Standard)", "16:9 (Widescreen)", "21:9 (Ultrawide)",
                            "2:3 (Portrait Photo)", "3:4 (Portrait Standard)", "9:16 (Portrait Widescreen)"},
                           "1:1 (Square)"),
                    number("megapixels", 1.0, 0.1, 16, 0.1), integer("multiple", 8, 8, 128, 4)},
                   {{"INT", "width"}, {"INT", "height"}}});
  table.push_back({"ComfyMathExpression",
                   "Math Expression",
                   "utilities",
                   "",
                   false,
                   true,
                   {text("expression", "a + b"), series("values", "", 26, "FLOAT,INT,BOOLEAN")},
                   {{"FLOAT", "FLOAT"}, {"INT", "INT"}, {"BOOLEAN", "BOOL"}}});
  table.push_back({"ComfySwitchNode",
                   "Switch",
                   "logic",
                   "",
                   false,
                   true,
                   {boolean("switch", false), optional(link("on_false", "*")), optional(link("on_true", "*"))},
                   {{"*", "output"}}});
}

}  // namespace tritium::server::comfy
