#include "pipeline/model_json.h"

#include "base/system.h"
#include "base/try.h"
#include "pipeline/model_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& json) { return json.dump(2, ' ', false, ordered_json::error_handler_t::replace); }

ordered_json part_json(const ChosenPart& chosen, const WeightPart& part) {
  ordered_json out = checkpoint_json(part.checkpoint());
  out["path"] = chosen.file.path.string();
  out["chosen_because"] = chosen.why;
  out["alternatives"] = chosen.alternatives;
  out.update(identity_json(chosen.file.identity));
  return out;
}

std::string sum_text(const Checkpoint& checkpoint) {
  return fmt::format("{} tensors, {} in {} file{} ({})", checkpoint.names().size(), format_bytes(checkpoint.tensor_bytes()),
                     checkpoint.files().size(), checkpoint.files().size() == 1 ? "" : "s", dtypes_text(checkpoint));
}

std::string part_text(const ChosenPart& chosen, const WeightPart& part, const std::string& dimensions) {
  std::string out =
      fmt::format("{:<22} {}\n{:<22} {}\n", role_name(chosen.file.identity.role), sum_text(part.checkpoint()), "", dimensions);
  out += fmt::format("  {:<10} {} ({})\n", "file", chosen.file.path.string(), chosen.why);
  for (const std::string& other : chosen.alternatives) out += fmt::format("  {:<10} {}\n", "or", other);
  return out + identity_text(chosen.file.identity);
}

}  // namespace

std::string describe_model_json(const ModelInfo& m) {
  const DitConfig& d = m.dit_config;
  ordered_json dit = part_json(m.files.dit, *m.dit);
  dit["config"] = {{"hidden", d.hidden},    {"layers", d.layers},     {"refiner_layers", d.refiner_layers},
                   {"heads", d.heads},      {"head_dim", d.head_dim}, {"ffn", d.ffn},
                   {"text_dim", d.text_dim}};
  ordered_json text = part_json(m.files.text_encoder, *m.text);
  text["config"] = {{"hidden", m.text_config.hidden},
                    {"layers", m.text_config.layers},
                    {"heads", m.text_config.heads},
                    {"kv_heads", m.text_config.kv_heads},
                    {"vocabulary", m.text_config.vocabulary}};
  ordered_json out{{"name", m.name},
                   {"root", m.root.string()},
                   {"family", "MiniMax-H3"},
                   {"partition", partition_name(m.partition)},
                   {"partition_reason", m.files.partition_reason},
                   {"tokenizer", m.tokenizer().string()}};
  out["defaults"] = {{"width", m.defaults.width}, {"height", m.defaults.height},           {"frames", m.defaults.frames},
                     {"steps", m.defaults.steps}, {"video_shift", m.defaults.video_shift}, {"audio_shift", m.defaults.audio_shift}};
  out["parts"] = {{"diffusion_transformer", dit},
                  {"text_encoder", text},
                  {"video_vae", part_json(m.files.video_vae, *m.video_vae)},
                  {"audio_vae", part_json(m.files.audio_vae, *m.audio_vae)}};
  out["notes"] = m.files.notes;
  return dump(out);
}

std::string describe_model_text(const ModelInfo& m) {
  const DitConfig& d = m.dit_config;
  std::string out = fmt::format("{}: MiniMax-H3, {} ({})\n  {:<10} {}\n", m.name, partition_name(m.partition), m.root.string(), "because",
                                m.files.partition_reason);
  out += part_text(m.files.dit, *m.dit,
                   fmt::format("{}, {}: {} layers, hidden {}, {}x{} heads, ffn {}", d.pruned() ? "pruned" : "full",
                               layout_name(m.dit_layout), d.layers, d.hidden, d.heads, d.head_dim, d.ffn));
  out += part_text(
      m.files.text_encoder, *m.text,
      fmt::format("{} of its layers used, hidden {}, vocabulary {}", m.text_config.layers, m.text_config.hidden, m.text_config.vocabulary));
  out += part_text(m.files.video_vae, *m.video_vae,
                   fmt::format("decoder {} layers, hidden {}; tiles of {} pixels", m.video_vae_config.layers, m.video_vae_config.hidden(),
                               m.video_vae_config.tile_size));
  out += part_text(m.files.audio_vae, *m.audio_vae,
                   fmt::format("decoder {} channels, {} Hz", m.audio_vae_config.decoder_dim, m.audio_vae_config.sampling_rate));
  out += fmt::format("{:<22} {}\n", "tokenizer", m.tokenizer().string());
  for (const std::string& note : m.files.notes) out += fmt::format("note: {}\n", note);
  out += fmt::format("defaults: {}x{}, {} frames, {} steps, shifts {:g}/{:g}\n", m.defaults.width, m.defaults.height, m.defaults.frames,
                     m.defaults.steps, m.defaults.video_shift, m.defaults.audio_shift);
  return out;
}

Result<FileDescription> describe_file(const std::filesystem::path& path, std::optional<DitLayout> order) {
  TRITIUM_TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  TRITIUM_TRY_ASSIGN(const Identity identity, identify(path, order));
  TRITIUM_TRY(check_stated_order(identity, path));
  ordered_json tensors = ordered_json::array();
  std::string text = fmt::format("{}: {}\n{}", path.string(), sum_text(checkpoint), identity_text(identity));
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& tensor = *checkpoint.find(name);
    tensors.push_back({{"name", name}, {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
    text += fmt::format("  {:<8} {:<24} {}\n", dtype_name(tensor.dtype), shape_text(tensor.shape), name);
  }
  ordered_json out = checkpoint_json(checkpoint);
  out.update(identity_json(identity));
  out["tensor_list"] = std::move(tensors);
  return FileDescription{std::move(text), dump(out)};
}

FileDescription describe_folder(const ModelFolder& folder) {
  ordered_json files = ordered_json::array(), unusable = ordered_json::array();
  std::string text;
  for (const PartCandidate& candidate : folder.candidates) {
    ordered_json file{{"path", candidate.path.string()}, {"bytes", candidate.identity.bytes}};
    file.update(identity_json(candidate.identity));
    files.push_back(std::move(file));
    text += fmt::format("{}: {}\n{}", candidate.path.string(), format_bytes(candidate.identity.bytes), identity_text(candidate.identity));
  }
  for (const UnusableFile& file : folder.unusable) {
    unusable.push_back({{"path", file.path.string()}, {"error", file.error.text()}});
    text += fmt::format("not usable: {}\n", file.error.text());
  }
  for (const std::string& note : folder.notes) text += fmt::format("note: {}\n", note);
  return {std::move(text), dump({{"root", folder.root.string()}, {"files", files}, {"unusable", unusable}, {"notes", folder.notes}})};
}

}  // namespace tritium
