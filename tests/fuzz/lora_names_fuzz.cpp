// Any text as a list of keys, one a line: never a crash, and no key ever means two layers.
#include "require.h"
#include "weights/lora/names.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace {

using namespace tritium;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty() && out.size() < 64) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<LoraTarget> model() {
  using Rows = LoraTarget::Rows;
  std::vector<LoraTarget> out;
  for (const char* block : {"blocks.0.", "blocks.1.", "blocks.10.", "token_refiner.blocks.0."}) {
    const std::string prefix = block;
    out.push_back({prefix + "attn.qkv_proj", 24, 6, Rows::qkv, 2, 4, false});
    out.push_back({prefix + "attn.out_proj", 6, 8, Rows::plain, 0, 0, false});
    out.push_back({prefix + "mlp.fc1", 10, 6, Rows::gate_up, 0, 0, false});
    out.push_back({prefix + "mlp.fc2", 6, 5, Rows::plain, 0, 0, false});
    out.push_back({prefix + "adaln_proj.linear", 6, 5, Rows::plain, 0, 0, true});
  }
  out.push_back({"final_layer.video_out", 4, 6, Rows::plain, 0, 0, false});
  out.push_back({"condition_proj", 4, 6, Rows::plain, 0, 0, false});
  return out;
}

// What is found for the whole list is found for a model that has only that layer: no other layer takes the key away or shares it.
void check_alone(const std::vector<LoraTarget>& targets, const LoraKey& key, const LoraPlace& place) {
  FUZZ_REQUIRE(place.target < targets.size());
  int claims = 0;
  for (const LoraTarget& target : targets) {
    const LoraNames alone(std::span(&target, 1));
    const auto found = alone.find(key);
    claims += found.has_value();
    if (&target != &targets[place.target]) continue;
    FUZZ_REQUIRE(found && found->slice == place.slice && found->dialect == place.dialect);
  }
  FUZZ_REQUIRE(claims == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<LoraTarget> fixed = model();
  static const LoraNames fixed_names(fixed);
  const std::vector<std::string> lines = lines_of({reinterpret_cast<const char*>(data), size});

  // The lines as keys of a file, on a model as it is.
  for (const std::string& line : lines) {
    foreign_adapter(line);
    const auto key = split_lora_key(line);
    if (!key) continue;
    FUZZ_REQUIRE(!key->layer.empty() && key->layer.size() < line.size());
    if (const auto place = fixed_names.find(*key)) check_alone(fixed, *key, *place);
  }

  // The lines as layers of a model: whatever they are called, each finds itself or nobody.
  std::vector<LoraTarget> odd;
  for (const std::string& line : lines)
    if (!line.empty())
      odd.push_back({line, 24, 6, line.ends_with("qkv_proj") ? LoraTarget::Rows::qkv : LoraTarget::Rows::plain, 2, 4, false});
  const LoraNames names(odd);
  for (const LoraTarget& target : odd)
    for (const bool infix : {false, true})
      if (const auto place = names.find({target.name, LoraRole::down, infix})) {
        FUZZ_REQUIRE(place->target < odd.size());
        if (place->slice == LoraSlice::whole && place->dialect != LoraDialect::diffusers)
          FUZZ_REQUIRE(odd[place->target].name == target.name);
      }
  return 0;
}
