#include "pipeline/model_json.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using nlohmann::ordered_json;

std::map<std::string, std::uint64_t> bytes_by_dtype(const Checkpoint& checkpoint) {
  std::map<std::string, std::uint64_t> out;
  for (const SafetensorsFile& file : checkpoint.files())
    for (const auto& [name, tensor] : file.header().tensors) out[std::string(dtype_name(tensor.dtype))] += tensor.bytes;
  return out;
}

ordered_json part_json(const Checkpoint& checkpoint) {
  ordered_json files = ordered_json::array();
  for (const SafetensorsFile& file : checkpoint.files())
    files.push_back({{"path", file.path().string()}, {"bytes", file.file_bytes()}, {"metadata", file.header().metadata}});
  return {{"tensors", checkpoint.names().size()},
          {"bytes", checkpoint.tensor_bytes()},
          {"dtypes", bytes_by_dtype(checkpoint)},
          {"files", files}};
}

std::string part_text(const char* name, const Checkpoint& checkpoint, const std::string& dimensions) {
  std::string dtypes;
  for (const auto& [dtype, bytes] : bytes_by_dtype(checkpoint))
    dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", dtype, format_bytes(bytes));
  return fmt::format("{:<22} {} tensors, {} in {} file{} ({})\n{:<22} {}\n", name, checkpoint.names().size(),
                     format_bytes(checkpoint.tensor_bytes()), checkpoint.files().size(), checkpoint.files().size() == 1 ? "" : "s", dtypes,
                     "", dimensions);
}

const char* partition_name(Partition partition) { return partition == Partition::fl2va ? "FL2VA" : "Ref2VA"; }

}  // namespace

std::string describe_model_json(const ModelInfo& m) {
  const DitConfig& d = m.dit_config;
  ordered_json dit = part_json(*m.dit);
  dit["layout"] = layout_name(m.dit_layout);
  dit["variant"] = d.pruned() ? "pruned" : "full";
  dit["config"] = {{"hidden", d.hidden},    {"layers", d.layers},     {"refiner_layers", d.refiner_layers},
                   {"heads", d.heads},      {"head_dim", d.head_dim}, {"ffn", d.ffn},
                   {"text_dim", d.text_dim}};
  ordered_json text = part_json(*m.text);
  text["config"] = {{"hidden", m.text_config.hidden},
                    {"layers", m.text_config.layers},
                    {"heads", m.text_config.heads},
                    {"kv_heads", m.text_config.kv_heads},
                    {"vocabulary", m.text_config.vocabulary}};
  ordered_json out{{"name", m.name}, {"root", m.root.string()}, {"family", "MiniMax-H3"}, {"partition", partition_name(m.partition)}};
  out["defaults"] = {{"width", m.defaults.width}, {"height", m.defaults.height},           {"frames", m.defaults.frames},
                     {"steps", m.defaults.steps}, {"video_shift", m.defaults.video_shift}, {"audio_shift", m.defaults.audio_shift}};
  out["parts"] = {{"diffusion_transformer", dit},
                  {"text_encoder", text},
                  {"video_vae", part_json(*m.video_vae)},
                  {"audio_vae", part_json(*m.audio_vae)}};
  return out.dump(2);
}

std::string describe_model_text(const ModelInfo& m) {
  const DitConfig& d = m.dit_config;
  std::string out = fmt::format("{}: MiniMax-H3, {} ({})\n", m.name, partition_name(m.partition), m.root.string());
  out += part_text("diffusion transformer", *m.dit,
                   fmt::format("{}, {}: {} layers, hidden {}, {}x{} heads, ffn {}", d.pruned() ? "pruned" : "full",
                               layout_name(m.dit_layout), d.layers, d.hidden, d.heads, d.head_dim, d.ffn));
  out += part_text(
      "text encoder", *m.text,
      fmt::format("{} of its layers used, hidden {}, vocabulary {}", m.text_config.layers, m.text_config.hidden, m.text_config.vocabulary));
  out += part_text("video VAE", *m.video_vae,
                   fmt::format("decoder {} layers, hidden {}; tiles of {} pixels", m.video_vae_config.layers, m.video_vae_config.hidden(),
                               m.video_vae_config.tile_size));
  out += part_text("audio VAE", *m.audio_vae,
                   fmt::format("decoder {} channels, {} Hz", m.audio_vae_config.decoder_dim, m.audio_vae_config.sampling_rate));
  out += fmt::format("defaults: {}x{}, {} frames, {} steps, shifts {:g}/{:g}\n", m.defaults.width, m.defaults.height, m.defaults.frames,
                     m.defaults.steps, m.defaults.video_shift, m.defaults.audio_shift);
  return out;
}

Result<FileDescription> describe_file(const std::filesystem::path& path) {
  TRITIUM_TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  ordered_json tensors = ordered_json::array();
  std::string text = part_text(path.filename().string().c_str(), checkpoint, "");
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& tensor = *checkpoint.find(name);
    tensors.push_back({{"name", name}, {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
    text += fmt::format("  {:<8} {:<24} {}\n", dtype_name(tensor.dtype), shape_text(tensor.shape), name);
  }
  ordered_json out = part_json(checkpoint);
  out["tensor_list"] = std::move(tensors);
  return FileDescription{std::move(text), out.dump(2, ' ', false, ordered_json::error_handler_t::replace)};
}

}  // namespace tritium
