// Loaders, and the nodes that make conditioning.
#include "server/comfy/evaluator.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

using Kind = ReferenceInput::Kind;
using Values = std::vector<Value>;
constexpr std::size_t kMaxPrompt = 40000;  // bytes

// Whatever a workflow calls its model, there is only the server's own.
void note_model_name(NodeInputs& in, const std::string& input, const std::string& folder) {
  const std::string given = in.text(input);
  const auto known = in.evaluator().environment().names.find(folder);
  if (known == in.evaluator().environment().names.end() || known->second.empty()) return;
  if (std::find(known->second.begin(), known->second.end(), given) != known->second.end()) return;
  in.note(input, given, fmt::format("{}", fmt::join(known->second, ", ")), "the server uses the model it was started with");
}

std::optional<Values> load_file(NodeInputs& in, const std::string& input, Kind kind) {
  const std::string name = in.text(input);
  if (in.failed()) return std::nullopt;
  auto found = in.evaluator().environment().find_input(name);
  if (!found.ok()) {
    in.refuse(input, found.error().text());
    return std::nullopt;
  }
  Values out{FileValue{kind, *found, in.node().id}};
  if (kind == Kind::image) out.emplace_back(std::string());  // MASK: nothing here takes one
  return out;
}

void check_prompt(NodeInputs& in, const std::string& input, const std::string& prompt) {
  if (prompt.size() > kMaxPrompt) in.refuse(input, fmt::format("{} bytes of text; allowed are {}", prompt.size(), kMaxPrompt));
  if (prompt.find("embedding:") != std::string::npos)
    in.refuse(input, "'embedding:' names a file of prompt embeddings, which are not offered; write the words instead");
}

std::optional<std::filesystem::path> still_picture(NodeInputs& in, const std::string& input, const std::optional<Value>& value) {
  if (!value) return std::nullopt;
  if (const auto* file = std::get_if<FileValue>(&*value); file != nullptr && file->kind == Kind::image) return file->file;
  in.refuse(input, fmt::format("needs a picture from LoadImage, not {}", std::holds_alternative<TrackValue>(*value)
                                                                             ? "a video's pictures"
                                                                             : "the " + type_name(*value) + " of another node"));
  return std::nullopt;
}

LatentValue empty_latent(NodeInputs& in) {
  LatentValue out;
  out.node = in.node().id;
  out.width = in.integer("width");
  out.height = in.integer("height");
  out.length = in.integer("length");
  return out;
}

ConditioningValue begin_conditioning(NodeInputs& in, const LatentValue& latent) {
  ConditioningValue out;
  out.node = in.node().id;
  out.prompt = in.text("prompt");
  check_prompt(in, "prompt", out.prompt);
  in.link<ClipValue>("clip");
  out.width = latent.width;
  out.height = latent.height;
  out.length = latent.length;
  return out;
}

std::optional<Values> image_to_video(NodeInputs& in) {
  LatentValue latent = empty_latent(in);
  ConditioningValue out = begin_conditioning(in, latent);
  in.link<VaeValue>("vae");
  if (in.node().input("first_frame") != nullptr) {
    out.first_frame = still_picture(in, "first_frame", in.linked("first_frame", false)).value_or("");
    out.first_is_stretched = true;
  }
  if (in.node().input("last_frame") != nullptr)
    out.last_frame = still_picture(in, "last_frame", in.linked("last_frame", false)).value_or("");
  return Values{std::move(out), std::move(latent)};
}

void add_images(NodeInputs& in, bool has_vae, ConditioningValue& out) {
  for (const std::string& name : in.series("ref_images")) {
    const auto picture = still_picture(in, name, in.linked(name, true));
    if (picture && !has_vae) in.refuse(name, "needs the input 'vae': references go to the text encoder and to the diffusion model");
    if (picture) out.references.push_back({Kind::image, *picture, {}, false});
  }
}

// The sound that belongs to a reference video, by its number.
void add_videos(NodeInputs& in, bool has_vae, bool has_audio_vae, ConditioningValue& out) {
  const auto number_of = [](const std::string& name) { return name.substr(name.rfind('_') + 1); };
  std::map<std::string, std::string> sounds;
  for (const std::string& name : in.series("ref_video_audios")) sounds[number_of(name)] = name;
  for (const std::string& name : in.series("ref_videos")) {
    const auto value = in.linked(name, true);
    if (!value) continue;
    const auto* track = std::get_if<TrackValue>(&*value);
    if (track == nullptr || track->video.kind != Kind::video) {
      in.refuse(name, "needs the pictures of a video: LoadVideo, then GetVideoComponents");
      continue;
    }
    if (!has_vae) in.refuse(name, "needs the input 'vae': references go to the text encoder and to the diffusion model");
    ReferenceInput video{Kind::video, track->video.file, {}, true};
    if (const auto sound = sounds.find(number_of(name)); sound != sounds.end()) {
      if (!has_audio_vae)
        in.refuse(sound->second, "needs the input 'audio_vae': references go to the text encoder and to the diffusion model");
      const auto given = in.linked(sound->second, true);
      if (const auto* own = given ? std::get_if<TrackValue>(&*given) : nullptr; own != nullptr && own->video.node == track->video.node) {
        video.silent = false;
      } else if (const auto* file = given ? std::get_if<FileValue>(&*given) : nullptr; file != nullptr && file->kind == Kind::audio) {
        video.silent = false;
        video.sound = file->file;
      } else if (given) {
        in.refuse(sound->second, "needs the sound of the same video, or of LoadAudio");
      }
      sounds.erase(sound);
    }
    out.references.push_back(std::move(video));
  }
  for (const auto& [number, name] : sounds) in.refuse(name, fmt::format("there is no ref_video_{} that it belongs to", number));
}

void add_sounds(NodeInputs& in, bool has_audio_vae, ConditioningValue& out) {
  for (const std::string& name : in.series("ref_audios")) {
    const auto value = in.linked(name, true);
    if (!value) continue;
    const auto* file = std::get_if<FileValue>(&*value);
    if (file == nullptr || file->kind != Kind::audio) {
      in.refuse(name, "needs a sound from LoadAudio");
      continue;
    }
    if (!has_audio_vae) in.refuse(name, "needs the input 'audio_vae': references go to the text encoder and to the diffusion model");
    out.references.push_back({Kind::audio, file->file, {}, false});
  }
}

std::optional<Values> reference_to_video(NodeInputs& in) {
  LatentValue latent = empty_latent(in);
  ConditioningValue out = begin_conditioning(in, latent);
  const bool has_vae = in.link_if<VaeValue>("vae").has_value();
  const bool has_audio_vae = in.link_if<VaeValue>("audio_vae").has_value();
  out.official_reference_size = in.text("ref_image_size") == "max";
  add_images(in, has_vae, out);
  add_videos(in, has_vae, has_audio_vae, out);
  add_sounds(in, has_audio_vae, out);
  if (out.references.empty() && !in.failed())
    in.refuse("ref_images", "no reference is linked; use MiniMaxH3ImageToVideo to make a clip from text or keyframes");
  if (out.official_reference_size)
    in.note("ref_image_size", "max", "a short edge of 2048 pixels",
            "smaller pictures are enlarged to it too; ComfyUI leaves those as they are");
  return Values{std::move(out), std::move(latent)};
}

std::optional<Values> add_guide(NodeInputs& in) {
  auto out = in.link<ConditioningValue>("positive");
  const auto latent = in.link<LatentValue>("latent");
  const std::int64_t at = in.integer("frame_idx");
  if (in.node().input("audio") != nullptr) in.refuse("audio", "sounds cannot be anchored; give them as a reference");
  if (in.node().input("image") == nullptr) in.refuse("image", "needs a picture to anchor");
  const auto picture = in.node().input("image") != nullptr ? still_picture(in, "image", in.linked("image", true)) : std::nullopt;
  if (picture) in.link<VaeValue>("vae");
  if (!out || !latent || in.failed()) return std::nullopt;
  std::int64_t frames = std::max<std::int64_t>(latent->length, 5);
  while (frames % 17 != 5) ++frames;
  const bool first = at == 0, last = at == -1 || at == frames - 1;
  if (!first && !last)
    in.refuse("frame_idx", fmt::format("{} is not offered; allowed are 0 (first frame) and -1 or {} (last frame)", at, frames - 1));
  auto& place = first ? out->first_frame : out->last_frame;
  if (!place.empty()) in.refuse("frame_idx", fmt::format("the {} frame is already given", first ? "first" : "last"));
  if (out->width && (*out->width != latent->width || *out->height != latent->height || *out->length != latent->length))
    in.refuse("latent", "is of another size than the conditioning");
  place = *picture;
  out->width = latent->width;
  out->height = latent->height;
  out->length = latent->length;
  in.note("image", "shown to the diffusion model", "shown to the text encoder too", "the model was trained with keyframes that both see");
  return Values{std::move(*out)};
}

std::optional<Values> load_lora(NodeInputs& in) {
  auto model = in.link<ModelValue>("model");
  const std::string name = in.text("lora_name");
  const double strength = in.number("strength_model");
  if (!model || in.failed()) return std::nullopt;
  if (strength == 0) return Values{std::move(*model)};
  const auto file = in.evaluator().environment().find_lora(name);
  if (!file) {
    const auto& names = in.evaluator().environment().names;
    const auto known = names.find("loras");
    in.refuse("lora_name",
              known == names.end() || known->second.empty()
                  ? fmt::format("'{}' is not here: the server has no LoRAs; put them into a folder 'loras' beside its model", name)
                  : fmt::format("'{}' not in ['{}']", name, fmt::join(known->second, "', '")));
    return std::nullopt;
  }
  model->loras.push_back({*file, strength, std::nullopt});
  return Values{std::move(*model)};
}

std::optional<Values> shift_sigmas(NodeInputs& in) {
  auto model = in.link<ModelValue>("model");
  const double video = in.number("shift_video"), audio = in.number("shift_audio");
  if (!model) return std::nullopt;
  model->video_shift = video;
  model->audio_shift = audio;
  return Values{std::move(*model)};
}

std::optional<Values> easy_cache(NodeInputs& in) {
  auto model = in.link<ModelValue>("model");
  const double threshold = in.number("reuse_threshold"), start = in.number("start_percent"), end = in.number("end_percent");
  in.boolean("verbose");
  if (!model) return std::nullopt;
  Acceleration& a = model->acceleration;
  a.easycache = threshold;
  a.easycache_start = start;
  a.easycache_end = end;
  model->accelerator = in.node().id;
  return Values{std::move(*model)};
}

}  // namespace

std::optional<Values> run_loader(NodeInputs& in) {
  const std::string& type = in.node().class_type;
  if (type == "LoadImage") return load_file(in, "image", Kind::image);
  if (type == "LoadVideo") return load_file(in, "file", Kind::video);
  if (type == "LoadAudio") return load_file(in, "audio", Kind::audio);
  if (type == "LoraLoaderModelOnly") return load_lora(in);
  if (type == "UNETLoader") {
    note_model_name(in, "unet_name", "diffusion_models");
    if (const std::string dtype = in.text("weight_dtype"); dtype != "default" && !in.failed())
      in.note("weight_dtype", dtype, "default", "weights are used as they are stored");
    return Values{ModelValue{in.node().id, {}, {}, {}}};
  }
  if (type == "CLIPLoader") {
    note_model_name(in, "clip_name", "text_encoders");
    in.text("type");
    in.text("device");
    return Values{ClipValue{in.node().id}};
  }
  note_model_name(in, "vae_name", "vae");
  in.text("device");
  return Values{VaeValue{in.node().id}};
}

std::optional<Values> run_h3(NodeInputs& in) {
  const std::string& type = in.node().class_type;
  if (type == "EmptyMiniMaxH3LatentAV") return Values{empty_latent(in)};
  if (type == "MiniMaxH3ImageToVideo") return image_to_video(in);
  if (type == "MiniMaxH3ReferenceToVideo") return reference_to_video(in);
  if (type == "MiniMaxH3AddGuide") return add_guide(in);
  if (type == "MiniMaxH3SigmaShift") return shift_sigmas(in);
  if (type == "EasyCache") return easy_cache(in);
  if (type == "MiniMaxH3TextEncoderOnlyReference") {
    in.refuse("image", "not offered: references go to the text encoder and to the diffusion model; link the picture itself to ref_images");
    return std::nullopt;
  }
  if (type == "ConditioningZeroOut") {
    auto out = in.link<ConditioningValue>("conditioning");
    if (!out) return std::nullopt;
    out->zeroed = true;
    return Values{std::move(*out)};
  }
  ConditioningValue out;  // CLIPTextEncode
  out.node = in.node().id;
  out.prompt_input = "text";
  out.prompt = in.text("text");
  check_prompt(in, "text", out.prompt);
  in.link<ClipValue>("clip");
  return Values{std::move(out)};
}

}  // namespace tritium::server::comfy
