// The layers of a model that low-rank adapters may change, as facts: nothing of the model itself is needed to read a LoRA.
#pragma once

#include <cstdint>
#include <string>

namespace tritium {

struct LoraTarget {
  enum class Rows {
    plain,    // one matrix
    qkv,      // [q; k; v], each [heads, head_dim]
    gate_up,  // [gate; up]
  };
  std::string name;  // official, without ".weight": "blocks.3.attn.qkv_proj"
  std::int64_t out = 0, in = 0;
  Rows rows = Rows::plain;
  std::int64_t heads = 0, head_dim = 0;  // of qkv
  bool modulation = false;               // adaLN: its input is narrow in pruned models (spec/dit.md §13.4)
};

}  // namespace tritium
