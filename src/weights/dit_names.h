// How files name the transformer's tensors and order their rows (spec/weights.md §1.2, §1.3; spec/dit.md §2).
#pragma once

#include "weights/part.h"

namespace tritium {

// Official and plain files have the same names and shapes and differ in the order of the qkv rows only.
enum class DitLayout {
  interleaved,  // official shards: qkv rows per head [heads, 3, head_dim]
  plain,        // single-file repacks: [3, heads, head_dim]
  diffusers,    // separate to_q, to_k, to_v; the halves of the first MLP matrix swapped
};
const char* layout_name(DitLayout layout);

// The rule of spec/weights.md §1.2. `official_config`: a config.json of the original repository lies beside the file.
// Error code model: not a transformer.
Result<DitLayout> detect_dit_layout(const LogicalTensors& tensors, bool official_config);

// The diffusers name of an official one; attn.q, attn.k and attn.v stand for the three parts of attn.qkv_proj.
std::string diffusers_dit_name(std::string official);

// Places of official names. Heads and their width are read from the tensors; they are only needed for interleaved files.
Naming dit_naming(const LogicalTensors& tensors, DitLayout layout);

// Opens the transformer of a file with its layout. Errors: WeightPart::open's, detect_dit_layout's.
struct DitPart {
  std::shared_ptr<const WeightPart> part;
  DitLayout layout = DitLayout::plain;
};
Result<DitPart> open_dit(std::shared_ptr<const Checkpoint> checkpoint, bool official_config);

}  // namespace tritium
