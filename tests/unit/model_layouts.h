// The demonstration model written anew in the layouts other programs use.
#pragma once

#include "unit/quant_file.h"

#include <nlohmann/json.hpp>

namespace tritium::test {

// Tensors and metadata of a safetensors file. Fails the test if it cannot be read.
QuantFile read_tensors(const std::filesystem::path& path);
void write_tensors(const QuantFile& file, const std::filesystem::path& path);  // makes its folder

std::filesystem::path demo_part(const std::string& relative);  // below models/demo/FL2VA
nlohmann::json demo_json(const std::string& relative);

// Every part of the demonstration model in other layouts; configurations are in the metadata, as our converter writes them.
QuantFile plain_dit();            // qkv rows [q; k; v]
QuantFile diffusers_dit();        // diffusers names
QuantFile repacked_text();        // "model.layers...", "visual..."
QuantFile prefixed_video_vae();   // "first_stage_model."
QuantFile diffusers_video_vae();  // diffusers names
QuantFile diffsynth_video_vae();  // ".weight" appended to bare parameters
QuantFile audio_vae();            // as it is

// FOLDER/{diffusion_models,text_encoders,vae,tokenizer}; the transformer's name says `partition`.
void make_comfy_folder(const std::filesystem::path& folder, const std::string& partition = "fl2va");

}  // namespace tritium::test
