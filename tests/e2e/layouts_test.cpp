// One set of weights in the official layout, ComfyUI's, diffusers' and as GGUF: the same latents, bit for bit.
#include "base/files.h"
#include "support/tritium_program.h"
#include "unit/gguf_file.h"
#include "unit/model_layouts.h"
#include "weights/text_names.h"

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kGgufF32 = 0, kGgufBf16 = 30;

void write_gguf(const QuantFile& file, const fs::path& path) {
  GgufFile out;
  for (const auto& [key, value] : file.metadata) out.text(key, value);
  for (const auto& [name, tensor] : file.tensors) {
    const std::vector<std::uint64_t> ne(tensor.shape.rbegin(), tensor.shape.rend());
    out.tensor(name, ne, tensor.dtype == "F32" ? kGgufF32 : kGgufBf16, out.data.size());
    out.data += tensor.bytes;
    out.data.resize((out.data.size() + 31) / 32 * 32, '\0');
  }
  fs::create_directories(path.parent_path());
  const std::string bytes = out.bytes();
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The language model alone, as llama.cpp names it.
QuantFile llama_text() {
  QuantFile out;
  for (const auto& [name, tensor] : read_tensors(demo_part("text_encoder/model.safetensors")).tensors)
    if (name.starts_with("model.language_model.")) out.tensors[llama_text_name(name)] = tensor;
  out.metadata["general.architecture"] = "qwen3vl";
  out.metadata["tritium.config"] = demo_json("text_encoder/config.json").dump();
  return out;
}

class Layouts : public TritiumProgram {
 protected:
  [[nodiscard]] std::map<std::string, StoredTensor> latents(const Arguments& model) const {
    // The size is given: tritium.json, which has the default, is not part of other layouts.
    Arguments arguments{"generate",  "a red circle moves to the right",
                        "--seed",    "7",
                        "--width",   "96",
                        "--height",  "96",
                        "--frames",  "5",
                        "--steps",   "2",
                        "-o",        "out.mp4",
                        "--latents", "out.safetensors"};
    arguments.insert(arguments.end(), model.begin(), model.end());
    (void)succeed(arguments);
    return read_tensors(path("out.safetensors")).tensors;
  }
  void expect_same(const Arguments& model, const std::string& what) const {
    const auto expected = latents({"-m", demo_part("..").string()}), found = latents(model);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_EQ(found.at(name).shape, tensor.shape);
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(found.at(name).bytes == tensor.bytes) << what << ": " << name;
  }
};

TEST_F(Layouts, ComfyUI) {
  const TempFolder folder;
  make_comfy_folder(folder.path());
  expect_same({"-m", folder.path().string()}, "ComfyUI");
}

TEST_F(Layouts, Diffusers) {
  const TempFolder folder;
  make_comfy_folder(folder.path());
  write_tensors(diffusers_dit(), folder.path() / "transformer/h3_fl2va.safetensors");
  write_tensors(diffusers_video_vae(), folder.path() / "diffusers_vae/vae.safetensors");
  expect_same({"-m", folder.path().string(), "--dit", (folder.path() / "transformer").string(), "--video-vae",
               (folder.path() / "diffusers_vae").string()},
              "diffusers");
}

TEST_F(Layouts, Gguf) {
  const TempFolder folder;
  write_gguf(plain_dit(), folder.path() / "h3_fl2va_bf16.gguf");
  write_gguf(llama_text(), folder.path() / "qwen.gguf");
  write_tensors(prefixed_video_vae(), folder.path() / "video.safetensors");
  write_tensors(audio_vae(), folder.path() / "audio.safetensors");
  expect_same({"-m", folder.path().string(), "--tokenizer", demo_part("tokenizer").string()}, "GGUF");
}

}  // namespace
}  // namespace tritium::test
