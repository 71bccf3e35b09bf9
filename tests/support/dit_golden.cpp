#include "support/dit_golden.h"

#include <cstdio>
#include <cstdlib>

namespace tritium::golden {

std::vector<DitFile> dit_files() {
  std::vector<DitFile> files{{"tiny_dit", DitLayout::interleaved, json("dit/tiny_dit.json")["config"].dump()}};
  if (has("dit/tiny_dit_comfy.safetensors")) files.push_back({"tiny_dit_comfy", DitLayout::plain, ""});
  if (has("dit/tiny_dit_diffusers.safetensors"))
    files.push_back({"tiny_dit_diffusers", DitLayout::diffusers, json("dit/tiny_dit_diffusers.json").dump()});
  if (has("dit/tiny_dit_pruned.safetensors")) files.push_back({"tiny_dit_pruned", DitLayout::plain, ""});
  return files;
}

std::shared_ptr<const WeightPart> open_dit_part(const DitFile& file) {
  const auto take = [&](auto result) {
    if (result.ok()) return std::move(result).value();
    std::fprintf(stderr, "golden %s: %s\n", file.stem.c_str(), result.error().text().c_str());
    std::exit(1);
  };
  const bool elsewhere = std::filesystem::path(file.stem).is_absolute();
  auto checkpoint = std::make_shared<const Checkpoint>(take(
      Checkpoint::open(elsewhere ? std::filesystem::path(file.stem) : std::filesystem::path(path("dit/" + file.stem + ".safetensors")))));
  auto tensors = take(LogicalTensors::open(*checkpoint));
  Naming naming = dit_naming(tensors, file.layout);
  return WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
}

std::unique_ptr<Dit> load_dit(Device& device, const DitFile& file) {
  const auto part = open_dit_part(file);
  const auto fail = [&](const Error& e) {
    std::fprintf(stderr, "golden %s: %s\n", file.stem.c_str(), e.text().c_str());
    std::exit(1);
  };
  const auto config = read_dit_config(*part, file.config_json);
  if (!config.ok()) fail(config.error());
  auto dit = Dit::load(device, part, *config, MatrixPrecision::f32);
  if (!dit.ok()) fail(dit.error());
  return std::move(*dit);
}

VideoLatentShape video_shape(const std::vector<std::int64_t>& dims) {
  const auto at = [&](std::size_t from_end) { return static_cast<int>(dims[dims.size() - from_end]); };
  return {at(4), at(3), at(2), at(1)};
}

PackingRequest packing_request(const nlohmann::json& description, const VideoLatentShape& video, int audio_latents,
                               std::vector<Modality> text_tags) {
  PackingRequest request;
  request.text_tags = std::move(text_tags);
  request.video = video;
  request.audio_latents = audio_latents;
  if (const auto keyframes = description.find("keyframe_indices"); keyframes != description.end() && !keyframes->is_null())
    request.keyframes = keyframes->get<std::vector<int>>();
  if (const auto refs = description.find("refs"); refs != description.end() && !refs->is_null())
    for (const auto& ref : *refs) {
      const std::string kind = ref["kind"];
      request.references.push_back({kind == "image"   ? ReferenceKind::image
                                    : kind == "audio" ? ReferenceKind::audio
                                                      : ReferenceKind::video,
                                    {video.channels, ref.value("latent_t", 0), ref.value("latent_h", 0), ref.value("latent_w", 0)},
                                    ref.value("ref_audio_t", 0)});
    }
  return request;
}

}  // namespace tritium::golden
