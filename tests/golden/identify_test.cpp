// Real headers, as sparse files, and the small models: each is recognised for what it is (spec/weights.md §7, §9.7).
#include "weights/identify.h"
#include "model/text/text_config.h"
#include "model/vision/vision_config.h"
#include "pipeline/model_config.h"
#include "support/golden.h"
#include "unit/temp_folder.h"
#include "weights/text_names.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <tuple>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The safetensors header of the golden file, for what the expectations are counted from.
json header_of(const std::string& bytes) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = (length << 8) | static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
  json out = json::parse(bytes.substr(8, length));
  out.erase("__metadata__");
  return out;
}

// What the markers say, counted by format name.
using Counts = std::map<std::string, int>;

class RealHeaders : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("weights/headers/index.json")) GTEST_SKIP() << "this tree holds no real headers";
    index_ = golden::json("weights/headers/index.json").at("files");
  }

  // The state of an NF4 matrix names its shape; n is 2 codes per byte, H the width of the model.
  static std::string nf4_state(const std::string& layer, std::int64_t codes, std::int64_t hidden, std::string text) {
    const bool hidden_rows = layer.ends_with("out_proj.weight") || layer.ends_with("fc2.weight");
    const std::int64_t rows = hidden_rows ? hidden : codes / hidden, columns = hidden_rows ? codes / hidden : hidden;
    text = text.substr(0, text.find("} with") + 1);
    const std::string shape = "[N, K]";
    return text.replace(text.find(shape), shape.size(), "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
  }

  static std::string format_of(const std::string& marker) {
    const json options = json::parse(marker);
    const std::string format = options.at("format");
    const std::string name = format == "int8_tensorwise" ? "int8" : format == "float8_e4m3fn" ? "fp8_e4m3" : format;
    return options.value("convrot", false) ? name + " convrot " + std::to_string(options.at("convrot_groupsize").get<int>()) : name;
  }

  fs::path make(const std::string& name, const json& facts, const fs::path& path, Counts& expected) const {
    const std::string head = bytes_of(golden::path("weights/headers/" + facts.at("hdr").get<std::string>()));
    std::ofstream(path, std::ios::binary).write(head.data(), static_cast<std::streamsize>(head.size()));
    fs::resize_file(path, facts.at("sparse_file_size").get<std::uint64_t>());
    if (!facts.contains("patch")) return path;
    const json header = header_of(head);
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    for (const json& patch : facts.at("patch"))
      for (const auto& [tensor, info] : header.items()) {
        const std::string suffix = patch.at("suffix");
        const std::uint64_t begin = info.at("data_offsets").at(0), end = info.at("data_offsets").at(1);
        if (!tensor.ends_with(suffix) || (!patch.at("length").is_null() && patch.at("length") != end - begin)) continue;
        std::string text = patch.at("text");
        if (suffix == ".comfy_quant") {
          ++expected[format_of(text)];
        } else {
          const std::string layer = tensor.substr(0, tensor.size() - suffix.size());
          const json& codes = header.at(layer).at("shape");
          const std::int64_t hidden = header.at("blocks.0.norm1.weight").at("shape").at(0);
          text = nf4_state(layer, 2 * codes.at(0).get<std::int64_t>(), hidden, text);
          ++expected["nf4"];
        }
        EXPECT_EQ(text.size(), end - begin) << name << ": " << tensor;
        out.seekp(static_cast<std::streamoff>(8 + length_of(head) + begin));
        out << text;
      }
    return path;
  }
  static std::uint64_t length_of(const std::string& head) {
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = (length << 8) | static_cast<std::uint8_t>(head[static_cast<std::size_t>(i)]);
    return length;
  }

  json index_;
  test::TempFolder folder_;
};

TEST_F(RealHeaders, AreIdentified) {
  for (const auto& [name, facts] : index_.items()) {
    SCOPED_TRACE(name);
    Counts expected;
    const bool gguf = name.ends_with(".gguf");
    const fs::path path = make(name, facts, folder_.path() / (gguf ? name : name + ".safetensors"), expected);
    const auto identity = identify(path);
    ASSERT_TRUE(identity.ok()) << identity.error().text();
    EXPECT_EQ(identity->role, name.starts_with("te_") ? PartRole::text_encoder : PartRole::dit) << identity->reason;
    EXPECT_EQ(identity->pruned, name.find("pruned") != std::string::npos);
    EXPECT_EQ(identity->layers, 50);
    EXPECT_EQ(identity->dit_layout, DitLayout::plain) << identity->layout_reason;
    EXPECT_FALSE(identity->order_doubtful);
    EXPECT_EQ(identity->missing, std::vector<std::string>{});
    EXPECT_EQ(identity->unexpected, std::vector<std::string>{});
    EXPECT_EQ(identity->warnings, std::vector<std::string>{});
    EXPECT_FALSE(identity->partition.verdict()) << identity->partition.text();

    std::uint64_t bytes = 0;
    Counts counted;
    int tensors = 0;
    for (const FormatShare& share : identity->formats) {
      bytes += share.bytes;
      tensors += share.tensors;
      if (expected.contains(share.format)) counted[share.format] += share.tensors;
    }
    EXPECT_EQ(counted, expected);
    EXPECT_EQ(bytes, identity->bytes);
    EXPECT_EQ(tensors, identity->tensors);
    if (gguf) {
      EXPECT_EQ(identity->main_format, "Q4_K");
      continue;
    }
    EXPECT_EQ(identity->signature, facts.at("name_shape_md5").get<std::string>());
    EXPECT_EQ(identity->bytes + 8 + facts.at("header_bytes").get<std::uint64_t>(), facts.at("sparse_file_size").get<std::uint64_t>());
    Counts dtypes;
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok());
    for (const std::string& tensor : checkpoint->names()) ++dtypes[std::string(dtype_name(checkpoint->find(tensor)->dtype))];
    EXPECT_EQ(json(dtypes), facts.at("dtype_counts"));
  }
}

TEST_F(RealHeaders, B7_AContradictingNameIsAWarning) {
  for (const auto& [name, facts] : index_.items()) {
    if (!name.ends_with("int8_convrot")) continue;
    Counts ignored;
    const auto identity = identify(make(name, facts, folder_.path() / (name + "_really_nvfp4.safetensors"), ignored));
    ASSERT_TRUE(identity.ok());
    EXPECT_EQ(identity->warnings.size(), 0u) << "int8 is named too";
    const auto misnamed = identify(make(name, facts, folder_.path() / "minimax_h3_fl2va_pruned_bf16.safetensors", ignored));
    ASSERT_TRUE(misnamed.ok());
    ASSERT_FALSE(misnamed->warnings.empty());
    EXPECT_NE(misnamed->warnings.front().find("says bf16"), std::string::npos);
    EXPECT_NE(misnamed->warnings.front().find("int8"), std::string::npos);
    EXPECT_EQ(misnamed->partition.verdict(), Partition::fl2va);
    EXPECT_NE(misnamed->known_as.find("int8_convrot"), std::string::npos) << misnamed->known_as;
  }
}

// A text encoder without any configuration: the released one, by its shapes.
TEST_F(RealHeaders, ATextEncoderNeedsNoConfiguration) {
  for (const auto& [name, facts] : index_.items()) {
    if (!name.starts_with("te_")) continue;
    Counts ignored;
    const fs::path path = make(name, facts, folder_.path() / (name + ".safetensors"), ignored);
    const auto candidate = part_candidate(path, std::nullopt);
    ASSERT_TRUE(candidate.ok()) << candidate.error().text();
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok());
    const auto part = open_text_encoder(std::make_shared<const Checkpoint>(std::move(*checkpoint)));
    ASSERT_TRUE(part.ok()) << part.error().text();
    const auto text = text_config_text(*candidate, **part);
    ASSERT_TRUE(text.ok()) << text.error().text();
    const auto config = parse_text_config(*text), official = parse_text_config(golden::json("text/qwen/text_encoder_config.json").dump());
    ASSERT_TRUE(config.ok() && official.ok());
    EXPECT_EQ(std::tie(config->hidden, config->heads, config->kv_heads, config->head_dim, config->ffn, config->vocabulary),
              std::tie(official->hidden, official->heads, official->kv_heads, official->head_dim, official->ffn, official->vocabulary));
    EXPECT_EQ(config->layers, official->layers);
    EXPECT_EQ(config->mrope_section, official->mrope_section);
    EXPECT_EQ(config->rope_theta, official->rope_theta);
    const auto vision = parse_vision_config(*text), wanted = parse_vision_config(golden::json("text/qwen/text_encoder_config.json").dump());
    ASSERT_TRUE(vision.ok() && wanted.ok());
    EXPECT_EQ(std::tie(vision->depth, vision->hidden, vision->heads, vision->ffn, vision->table_side, vision->deepstack_blocks),
              std::tie(wanted->depth, wanted->hidden, wanted->heads, wanted->ffn, wanted->table_side, wanted->deepstack_blocks));
    EXPECT_EQ(candidate->identity.vision_layers, vision->depth);
  }
}

// One transformer in three layouts: every official tensor has the same values in the same rows.
TEST(GoldenLayouts, OneTransformerInThreeLayouts) {
  if (!golden::has("dit/tiny_dit_comfy.safetensors")) GTEST_SKIP() << "this tree holds one layout only";
  const test::TempFolder folder;
  // The official form is recognised by its index and configuration.
  const golden::Tensors official_file("dit/tiny_dit.safetensors");
  json map;
  for (const std::string& name : official_file.names()) map[name] = "model.safetensors";
  fs::create_symlink(fs::absolute(golden::path("dit/tiny_dit.safetensors")), folder.path() / "model.safetensors");
  folder.write("model.safetensors.index.json", json{{"metadata", json::object()}, {"weight_map", map}}.dump());
  const auto doubtful = identify(folder.path() / "model.safetensors.index.json");
  ASSERT_TRUE(doubtful.ok()) << doubtful.error().text();
  EXPECT_TRUE(doubtful->order_doubtful) << "shards without configuration";
  folder.write("config.json", R"({"hidden_size": 64, "token_refiner_num_layers": 2})");

  const std::pair<fs::path, DitLayout> files[] = {{folder.path() / "model.safetensors.index.json", DitLayout::interleaved},
                                                  {golden::path("dit/tiny_dit_comfy.safetensors"), DitLayout::plain},
                                                  {golden::path("dit/tiny_dit_diffusers.safetensors"), DitLayout::diffusers}};
  std::vector<std::shared_ptr<const WeightPart>> parts;
  for (const auto& [path, layout] : files) {
    SCOPED_TRACE(path);
    const auto identity = identify(path);
    ASSERT_TRUE(identity.ok()) << identity.error().text();
    EXPECT_EQ(identity->role, PartRole::dit);
    EXPECT_EQ(identity->dit_layout, layout) << identity->layout_reason;
    EXPECT_FALSE(identity->order_doubtful);
    EXPECT_FALSE(identity->pruned);
    EXPECT_EQ(identity->missing, std::vector<std::string>{});
    EXPECT_EQ(identity->unexpected, std::vector<std::string>{});
    EXPECT_EQ(identity->layers, doubtful->layers);
    EXPECT_EQ(identity->refiner_layers, doubtful->refiner_layers);
    auto opened = WeightPart::open(path);
    ASSERT_TRUE(opened.ok());
    Naming naming = dit_naming((*opened)->tensors(), layout);
    opened = WeightPart::open(path, std::move(naming));
    ASSERT_TRUE(opened.ok());
    parts.push_back(*opened);
  }
  for (const std::string& name : official_file.names()) {
    if (name == "rope.inv_freq") continue;
    const auto expected = parts[0]->read_f32(name);
    ASSERT_TRUE(expected.ok()) << expected.error().text();
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const auto values = parts[i]->read_f32(name);
      ASSERT_TRUE(values.ok()) << values.error().text();
      EXPECT_TRUE(*values == *expected) << name << " differs in " << files[i].first;
    }
  }
  const auto pruned = identify(golden::path("dit/tiny_dit_pruned.safetensors"));
  ASSERT_TRUE(pruned.ok());
  EXPECT_TRUE(pruned->pruned);
  EXPECT_EQ(pruned->dit_layout, DitLayout::plain);
  EXPECT_EQ(pruned->missing, std::vector<std::string>{});
}

TEST(GoldenLayouts, TheOtherParts) {
  const std::pair<const char*, PartRole> files[] = {{"vae/tiny_video_vae.safetensors", PartRole::video_vae},
                                                    {"vae/tiny_audio_vae.safetensors", PartRole::audio_vae},
                                                    {"vae/tiny_audio_vae_comfy.safetensors", PartRole::audio_vae},
                                                    {"text/tiny_qwen3vl.safetensors", PartRole::text_encoder},
                                                    {"dit/lora_comfy.safetensors", PartRole::lora},
                                                    {"dit/lora_kohya_halfalpha.safetensors", PartRole::lora},
                                                    {"dit/rng.safetensors", PartRole::unknown}};
  for (const auto& [file, role] : files) {
    if (!golden::has(file)) continue;
    const auto identity = identify(golden::path(file));
    ASSERT_TRUE(identity.ok()) << identity.error().text();
    EXPECT_EQ(identity->role, role) << file << ": " << identity->reason;
    EXPECT_EQ(identity->missing, std::vector<std::string>{}) << file;
    EXPECT_EQ(identity->unexpected, std::vector<std::string>{}) << file;
  }
}

}  // namespace
}  // namespace tritium
