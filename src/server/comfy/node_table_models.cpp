// Loaders, and the nodes of the model itself.
#include "server/comfy/node_table.h"

namespace tritium::server::comfy {
namespace {

constexpr double kMaxSide = 16384;

InputSpec width() { return integer("width", 1344, 32, kMaxSide, 32); }
InputSpec height() { return integer("height", 768, 32, kMaxSide, 32); }
InputSpec length() {
  return tip(integer("length", 124, 5, 3600, 17), "Frames at 24 per second, raised to the next 17k+5; the model was trained on 107 to 362");
}

}  // namespace

void add_loader_nodes(std::vector<NodeSpec>& table) {
  table.push_back(
      {"UNETLoader",
       "Load Diffusion Model",
       "model/loaders",
       "The server's own model is used whatever name is given; other names are noted.",
       false,
       false,
       {file("unet_name", "diffusion_models"), choice("weight_dtype", {"default", "fp8_e4m3fn", "fp8_e4m3fn_fast", "fp8_e5m2"}, "default")},
       {{"MODEL", "MODEL"}}});
  table.push_back(
      {"CLIPLoader",
       "Load CLIP",
       "model/loaders",
       "The server's own text encoder is used whatever name is given; other names are noted.",
       false,
       false,
       {file("clip_name", "text_encoders"), choice("type", {"minimax"}, ""), optional(choice("device", {"default", "cpu"}, "default"))},
       {{"CLIP", "CLIP"}}});
  table.push_back({"VAELoader",
                   "Load VAE",
                   "model/loaders",
                   "The server's own VAEs are used whatever name is given; other names are noted.",
                   false,
                   false,
                   {file("vae_name", "vae"), optional(choice("device", {"default", "cpu"}, "default"))},
                   {{"VAE", "VAE"}}});
  table.push_back({"LoraLoaderModelOnly",
                   "Load LoRA (Model)",
                   "model/loaders",
                   "A LoRA of a folder \"loras\" beside the server's model.",
                   false,
                   false,
                   {link("model", "MODEL"), file("lora_name", "loras"), number("strength_model", 1.0, -100, 100)},
                   {{"MODEL", "MODEL"}}});
  table.push_back({"LoadImage",
                   "Load Image",
                   "image",
                   "A picture that was uploaded.",
                   false,
                   false,
                   {file("image", "images"), hidden(text("upload", ""))},
                   {{"IMAGE", "IMAGE"}, {"MASK", "MASK"}}});
  table.push_back(
      {"LoadVideo", "Load Video", "video", "A video that was uploaded.", false, true, {file("file", "videos")}, {{"VIDEO", "VIDEO"}}});
  table.push_back({"LoadAudio",
                   "Load Audio",
                   "audio",
                   "A sound that was uploaded.",
                   false,
                   true,
                   {file("audio", "sounds"), hidden(text("audioUI", "")), hidden(text("upload", ""))},
                   {{"AUDIO", "AUDIO"}}});
  table.push_back({"GetVideoComponents",
                   "Get Video Components",
                   "video",
                   "Pictures and sound of a video. The pictures are taken at 24 per second by their times.",
                   false,
                   true,
                   {link("video", "VIDEO")},
                   {{"IMAGE", "images"}, {"AUDIO", "audio"}, {"FLOAT", "fps"}, {"COMBO", "bit_depth"}, {"COMBO", "color_space"}}});
}

void add_h3_nodes(std::vector<NodeSpec>& table) {
  const std::string conditioning = "model/conditioning/minimax";
  table.push_back({"CLIPTextEncode",
                   "CLIP Text Encode (Prompt)",
                   "model/conditioning",
                   "",
                   false,
                   false,
                   {text("text"), link("clip", "CLIP")},
                   {{"CONDITIONING", "CONDITIONING"}}});
  table.push_back({"ConditioningZeroOut",
                   "ConditioningZeroOut",
                   "model/conditioning",
                   "Only as the negative of a sampler with cfg 1, where it has no effect.",
                   false,
                   false,
                   {link("conditioning", "CONDITIONING")},
                   {{"CONDITIONING", "CONDITIONING"}}});
  table.push_back({"EmptyMiniMaxH3LatentAV",
                   "Empty MiniMax H3 AV Latent",
                   "model/latent/minimax",
                   "",
                   false,
                   true,
                   {width(), height(), length()},
                   {{"LATENT", "LATENT"}}});
  table.push_back({"MiniMaxH3ImageToVideo",
                   "MiniMax H3 Image to Video",
                   conditioning,
                   "",
                   false,
                   true,
                   {link("clip", "CLIP"), link("vae", "VAE"), text("prompt"), width(), height(), length(),
                    optional(tip(link("first_frame", "IMAGE"), "Stretched to the canvas")),
                    optional(tip(link("last_frame", "IMAGE"), "Scaled to cover the canvas and cut evenly"))},
                   {{"CONDITIONING", "positive"}, {"LATENT", "LATENT"}}});
  table.push_back(
      {"MiniMaxH3ReferenceToVideo",
       "MiniMax H3 Reference to Video",
       conditioning,
       "The prompt names references <Picture i>, <Video k> and <Audio j>.",
       false,
       true,
       {link("clip", "CLIP"), optional(link("vae", "VAE")), optional(link("audio_vae", "VAE")), text("prompt"), width(), height(), length(),
        choice("ref_image_size", {"match", "max"}, "match"), series("ref_images", "ref_image_", 9, "IMAGE,MINIMAX_H3_REFERENCE_IMAGE"),
        series("ref_videos", "ref_video_", 3, "IMAGE"), series("ref_video_audios", "ref_video_audio_", 3, "AUDIO"),
        series("ref_audios", "ref_audio_", 3, "AUDIO")},
       {{"CONDITIONING", "positive"}, {"LATENT", "LATENT"}}});
  table.push_back(
      {"MiniMaxH3AddGuide",
       "Add Guide for MiniMax H3",
       conditioning,
       "A picture as the first or the last frame.",
       false,
       true,
       {link("positive", "CONDITIONING"), optional(link("vae", "VAE")), optional(link("audio_vae", "VAE")), link("latent", "LATENT"),
        optional(link("image", "IMAGE")), optional(link("audio", "AUDIO")), integer("frame_idx", 0, -9999, 9999)},
       {{"CONDITIONING", "positive"}}});
  table.push_back({"MiniMaxH3TextEncoderOnlyReference",
                   "MiniMax H3 Text Encoder Only Reference",
                   conditioning,
                   "Not offered: references go to the text encoder and to the diffusion model.",
                   false,
                   true,
                   {link("image", "IMAGE")},
                   {{"MINIMAX_H3_REFERENCE_IMAGE", "reference_image"}}});
  table.push_back({"MiniMaxH3SigmaShift",
                   "ModelSamplingMiniMaxH3",
                   "model/patch/minimax",
                   "",
                   false,
                   true,
                   {link("model", "MODEL"), number("shift_video", 12.0, 0.01, 100), number("shift_audio", 3.0, 0.01, 100)},
                   {{"MODEL", "MODEL"}}});
  table.push_back({"EasyCache",
                   "EasyCache",
                   "model/patch",
                   "Leaves steps out where the model's output is expected to change little. Of no use at 8 steps or fewer.",
                   false,
                   true,
                   {link("model", "MODEL"), number("reuse_threshold", 0.2, 0, 3), number("start_percent", 0.15, 0, 1),
                    number("end_percent", 0.95, 0, 1), optional(boolean("verbose", false))},
                   {{"MODEL", "MODEL"}}});
}

}  // namespace tritium::server::comfy
