// Names of what the server has, under the folders of ComfyUI.
#pragma once

#include "job/service.h"

#include <optional>

namespace tritium::server::comfy {

// "diffusion_models", "text_encoders", "vae": the names of the files that the server's model consists of; "loras": what lies in folders of
// that name beside the model; "embeddings" and others that clients ask for: empty.
std::map<std::string, std::vector<std::string>> model_names(const JobService& service);

// A LoRA by its name in that list, also without ".safetensors".
std::optional<std::filesystem::path> find_lora_file(const ServiceOptions& options, const std::string& name);

}  // namespace tritium::server::comfy
