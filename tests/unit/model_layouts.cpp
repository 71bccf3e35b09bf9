#include "unit/model_layouts.h"

#include "base/files.h"
#include "weights/dit_names.h"
#include "weights/vae_names.h"

namespace tritium::test {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string rows_of(const StoredTensor& tensor, const RowOrder& order) {
  const std::size_t width = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
  std::string out;
  for (const RowRun& run : order)
    out += tensor.bytes.substr(static_cast<std::size_t>(run.first) * width, static_cast<std::size_t>(run.count) * width);
  return out;
}

StoredTensor taken(const StoredTensor& tensor, const RowOrder& order) {
  StoredTensor out = tensor;
  out.bytes = rows_of(tensor, order);
  out.shape[0] = 0;
  for (const RowRun& run : order) out.shape[0] += run.count;
  return out;
}

bool ends_with(const std::string& name, const char* end) { return name.ends_with(end); }

// Rows of the parts of official interleaved rows: of q for part 0, of k for 1, of v for 2.
RowOrder part_rows(std::int64_t heads, std::int64_t head_dim, std::int64_t part) {
  RowOrder out;
  for (std::int64_t head = 0; head < heads; ++head) out.push_back({(3 * head + part) * head_dim, head_dim});
  return out;
}

template <class Rename>
QuantFile renamed(const QuantFile& file, Rename rename) {
  QuantFile out;
  out.metadata = file.metadata;
  for (const auto& [name, tensor] : file.tensors) out.tensors[rename(name)] = tensor;
  return out;
}

void keep_video_config(QuantFile& file) {
  file.metadata["tritium.config"] =
      json{{"config", demo_json("video_vae/config.json")}, {"source", demo_json("video_vae/source/config.json")}}.dump();
}

}  // namespace

QuantFile read_tensors(const fs::path& path) {
  QuantFile out;
  const auto opened = TensorFile::open(path);
  if (!opened.ok()) {
    ADD_FAILURE() << opened.error().text();
    return out;
  }
  for (const auto& [name, info] : opened->header().tensors) {
    std::string bytes(info.bytes, '\0');
    EXPECT_TRUE(opened->read(info, std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size())).ok());
    out.add(name, std::string(dtype_name(info.dtype)), info.shape, std::move(bytes));
  }
  return out;
}

void write_tensors(const QuantFile& file, const fs::path& path) {
  fs::create_directories(path.parent_path());
  const std::string bytes = file.bytes();
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) ADD_FAILURE() << "cannot write " << path;
}

fs::path demo_part(const std::string& relative) { return fs::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA" / relative; }

json demo_json(const std::string& relative) {
  const auto text = read_file(demo_part(relative));
  if (!text.ok()) ADD_FAILURE() << text.error().text();
  return text.ok() ? json::parse(*text) : json();
}

QuantFile plain_dit() {
  const json config = demo_json("transformer/config.json");
  QuantFile file = read_tensors(demo_part("transformer/model.safetensors"));
  for (auto& [name, tensor] : file.tensors)
    if (ends_with(name, "attn.qkv_proj.weight"))
      tensor = taken(tensor, deinterleaved_qkv(config.at("num_attention_heads"), config.at("attention_head_dim")));
  file.metadata["tritium.config"] = config.dump();
  return file;
}

QuantFile diffusers_dit() {
  const json config = demo_json("transformer/config.json");
  const std::int64_t heads = config.at("num_attention_heads"), head_dim = config.at("attention_head_dim");
  const QuantFile file = read_tensors(demo_part("transformer/model.safetensors"));
  QuantFile out;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "rope.inv_freq") continue;
    if (const std::size_t at = name.find("attn.qkv_proj.weight"); at != std::string::npos) {
      const char* parts[] = {"attn.q.weight", "attn.k.weight", "attn.v.weight"};
      for (std::int64_t part = 0; part < 3; ++part)
        out.tensors[diffusers_dit_name(name.substr(0, at) + parts[part])] = taken(tensor, part_rows(heads, head_dim, part));
      continue;
    }
    out.tensors[diffusers_dit_name(name)] = ends_with(name, "mlp.fc1.weight") ? taken(tensor, swapped_halves(tensor.shape[0])) : tensor;
  }
  out.metadata["tritium.config"] = config.dump();
  return out;
}

QuantFile repacked_text() {
  QuantFile file = renamed(read_tensors(demo_part("text_encoder/model.safetensors")), [](const std::string& name) {
    if (name.starts_with("model.language_model.")) return "model." + name.substr(21);
    return name.starts_with("model.visual.") ? name.substr(6) : name;
  });
  file.metadata["tritium.config"] = demo_json("text_encoder/config.json").dump();
  return file;
}

QuantFile prefixed_video_vae() {
  QuantFile file = renamed(read_tensors(demo_part("video_vae/source/model.safetensors")),
                           [](const std::string& name) { return "first_stage_model." + name; });
  keep_video_config(file);
  return file;
}

QuantFile diffsynth_video_vae() {
  QuantFile file = renamed(read_tensors(demo_part("video_vae/source/model.safetensors")), [](const std::string& name) {
    const bool bare = ends_with(name, ".scale1") || ends_with(name, ".scale2") || ends_with(name, "register_tokens");
    return bare ? name + ".weight" : name;
  });
  keep_video_config(file);
  return file;
}

QuantFile diffusers_video_vae() {
  const json vit = demo_json("video_vae/source/config.json").at("vit_decoder_kwargs");
  const std::int64_t heads = vit.at("heads"), head_dim = vit.at("dim_head");
  QuantFile out;
  for (const auto& [name, tensor] : read_tensors(demo_part("video_vae/source/model.safetensors")).tensors) {
    if (const std::size_t at = name.find("attn.to_qkv."); at != std::string::npos) {
      const char* parts[] = {"attn.to_q.", "attn.to_k.", "attn.to_v."};
      for (std::int64_t part = 0; part < 3; ++part)
        out.tensors[name.substr(0, at) + parts[part] + name.substr(at + 12)] = taken(tensor, part_rows(heads, head_dim, part));
    } else if (name != "decoder.mask_token") {
      const bool gate_up = name.find("ff.w1.") != std::string::npos;
      out.tensors[diffusers_video_vae_name(name)] = gate_up ? taken(tensor, swapped_halves(tensor.shape[0])) : tensor;
    }
  }
  keep_video_config(out);
  return out;
}

QuantFile audio_vae() {
  QuantFile file = read_tensors(demo_part("audio_vae/model.safetensors"));
  file.metadata["tritium.config"] =
      json{{"config", demo_json("audio_vae/config.json")}, {"metadata", demo_json("audio_vae/metadata.json")}}.dump();
  return file;
}

void make_comfy_folder(const fs::path& folder, const std::string& partition) {
  write_tensors(plain_dit(), folder / "diffusion_models" / ("h3_" + partition + "_bf16.safetensors"));
  write_tensors(repacked_text(), folder / "text_encoders/qwen.safetensors");
  write_tensors(prefixed_video_vae(), folder / "vae/video.safetensors");
  write_tensors(audio_vae(), folder / "vae/audio.safetensors");
  fs::create_directories(folder / "tokenizer");
  fs::copy(demo_part("tokenizer"), folder / "tokenizer", fs::copy_options::recursive);
}

}  // namespace tritium::test
