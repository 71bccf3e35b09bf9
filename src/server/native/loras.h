// LoRAs that clients may name: files in folders "loras" beside or above the model. Paths of a client are never followed.
#pragma once

#include "server/native/fields.h"

#include <tritium/engine.h>

namespace tritium::server::native {

// Names without ".safetensors", sorted.
std::vector<std::string> lora_names(const EngineOptions& engine);

// "lora" and "loras": {"name", "scale", "alpha"}, a list of these, or "NAME" and "NAME:SCALE". Of a "path", as vLLM-Omni's recipes have
// it, the name of the file counts. Errors go to `fields` and list what is there.
void read_loras(Fields& fields, const EngineOptions& engine, std::vector<LoraInput>& out, std::vector<Adjustment>& adjustments);

}  // namespace tritium::server::native
