// Steps of identify(): each fills in some of the identity.
#pragma once

#include "weights/identify.h"

namespace tritium {

// Role from tensor names; `reason` says which tensor told.
PartRole find_role(const LogicalTensors& tensors, std::string& reason);

// Layout, dimensions and official names of a file of known role. Precondition: role is dit, text_encoder, video_vae or audio_vae.
Result<Naming> find_layout(const LogicalTensors& tensors, const FileSurroundings& surroundings, Identity& identity);

// Tensors that a complete part has and this one lacks, and those that belong to no part; both shortened to what is readable.
void compare_names(const LogicalTensors& tensors, const Naming& naming, Identity& identity);

// Formats per group, the main one, and what the file's name says otherwise.
void sum_formats(const LogicalTensors& tensors, Identity& identity);
void compare_with_file_name(const std::string& file_name, Identity& identity);

// Formats known by name that are not supported (spec/weights.md §4.10).
Result<void> refuse_unsupported(const Checkpoint& checkpoint, const std::string& file_name);

}  // namespace tritium
