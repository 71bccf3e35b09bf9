// Conversions of whole files: what each format makes of each tensor, pruning, continuing, refusing.
#include "base/files.h"
#include "unit/convert_support.h"
#include "weights/convert/part_file.h"
#include "weights/dit_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

class Convert : public ::testing::Test {
 protected:
  void SetUp() override { small_transformer().write(source_path()); }
  [[nodiscard]] fs::path source_path() const { return folder_.path() / "source.safetensors"; }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }

  static std::string content(const fs::path& file) {
    auto text = read_file(file);
    EXPECT_TRUE(text.ok()) << text.error().text();
    return text.ok() ? *text : "";
  }
  static Checkpoint open(const fs::path& file) {
    auto out = Checkpoint::open(file);
    if (!out.ok()) {
      ADD_FAILURE() << out.error().text();
      std::abort();
    }
    return std::move(*out);
  }

  TempFolder folder_;
};

struct Wanted {
  std::string format, block, refiner, modulation, condition;  // formats in the file
  double error;                                               // of any tensor
};

TEST_F(Convert, EveryFormatChoosesAsThePublishedFilesDo) {
  const std::vector<Wanted> all = {{"bf16", "BF16", "BF16", "BF16", "BF16", 0.003}, {"f16", "F16", "F16", "F16", "F16", 0.0005},
                                   {"f32", "F32", "F32", "F32", "F32", 0},          {"fp8", "fp8_e4m3", "F32", "fp8_e4m3", "F32", 0.03},
                                   {"int8", "int8", "F32", "int8", "F32", 0.01},    {"int8-convrot", "int8", "F32", "int8", "F32", 0.01},
                                   {"w4a8", "w4a8", "F32", "int8", "F32", 0.075},   {"nf4", "nf4", "nf4", "nf4", "F32", 0.1},
                                   {"q8_0", "Q8_0", "Q8_0", "Q8_0", "Q8_0", 0.006}, {"q4_0", "Q4_0", "Q4_0", "Q4_0", "Q4_0", 0.12},
                                   {"q4_k", "Q4_K", "Q4_K", "Q5_0", "Q5_0", 0.1},   {"keep", "F32", "F32", "F32", "F32", 0}};
  const ConvertSource source = open_source(source_path());
  for (const Wanted& w : all) {
    const ConvertOptions options = convert_to(w.format);
    const fs::path target = path(w.format + (options.container == Container::gguf ? ".gguf" : ".safetensors"));
    const auto report = convert_part(source, target, options);
    ASSERT_TRUE(report.ok()) << w.format << ": " << report.error().text();
    const Checkpoint file = open(target);
    EXPECT_EQ(report->bytes, fs::file_size(target));
    EXPECT_EQ(report->tensors.size(), source.names.size());
    EXPECT_FALSE(fs::exists(PartFile::part_path(target)) || fs::exists(PartFile::journal_path(target)));
    const auto part = open_dit(std::make_shared<const Checkpoint>(open(target)), false);
    ASSERT_TRUE(part.ok()) << part.error().text();
    const auto is = [&](const char* name) { return std::string(part->part->tensors().find(name)->format_name()); };
    EXPECT_EQ(is("blocks.1.mlp.fc1.weight"), w.block) << w.format;
    EXPECT_EQ(is("token_refiner.blocks.0.attn.qkv_proj.weight"), w.refiner) << w.format;
    EXPECT_EQ(is("blocks.0.adaln_proj.linear.weight"), w.modulation) << w.format;
    EXPECT_EQ(is("condition_proj.weight"), w.condition) << w.format;
    EXPECT_EQ(is("final_layer.video_out.weight"), "F32") << w.format;
    EXPECT_EQ(is("blocks.0.norm1.weight"), "F32") << w.format;
    double most = 0;
    for (const ConvertedTensor& tensor : report->tensors) {
      const auto before = source.part->read_f32(tensor.official), after = part->part->read_f32(tensor.official);
      ASSERT_TRUE(before.ok() && after.ok()) << tensor.official;
      const double error = relative_error(*after, *before);
      EXPECT_NEAR(error, tensor.error, 1e-6 + tensor.error * 1e-3) << w.format << " " << tensor.official;
      most = std::max(most, error);
    }
    EXPECT_LE(most, w.error) << w.format;
    fmt::print("{}: {} bytes, largest error {:.5f}\n", w.format, report->bytes, most);
  }
}

TEST_F(Convert, MetadataTellsWhereItCameFrom) {
  ConvertSource source = open_source(source_path());
  source.metadata.emplace_back("tritium.config", "{\"a\": 1}");
  const auto report = convert_part(source, path("t.safetensors"), convert_to("int8-convrot"));
  ASSERT_TRUE(report.ok()) << report.error().text();
  const auto metadata = open(path("t.safetensors")).files().front().header().metadata;
  EXPECT_EQ(metadata.at("tritium.config"), "{\"a\": 1}");
  EXPECT_EQ(metadata.at("tritium.format"), "int8-convrot");
  EXPECT_EQ(nlohmann::json::parse(metadata.at("tritium.source"))[0]["file"], "source.safetensors");
  const auto errors = nlohmann::json::parse(metadata.at(kErrorKey));
  const double mean = errors.at("blocks.N.mlp.fc2").at("mean").is_null() ? 0 : errors.at("blocks.N.mlp.fc2").at("mean").get<double>();
  EXPECT_GT(mean, 0.001);
  EXPECT_LT(mean, 0.01);
}

TEST_F(Convert, PrunedModelComputesTheSameModulation) {
  const ConvertSource source = open_source(source_path());
  ConvertOptions options = convert_to("keep");
  options.prune_rank = 12;
  const auto report = convert_part(source, path("pruned.safetensors"), options);
  ASSERT_TRUE(report.ok()) << report.error().text();
  ASSERT_TRUE(report->curve);
  const ConvertSource pruned = open_source(path("pruned.safetensors"));
  EXPECT_EQ(*pruned.part->shape("adaln_t_table"), (std::vector<std::int64_t>{1025, 12}));
  EXPECT_EQ(*pruned.part->shape("adaln_basis"), (std::vector<std::int64_t>{12, 64}));
  EXPECT_FALSE(pruned.part->has("time_embedder.proj_in.weight"));
  // W8 = W·Vᵀ
  const auto w = source.part->read_f32("blocks.1.adaln_proj.linear.weight"),
             w8 = pruned.part->read_f32("blocks.1.adaln_proj.linear.weight");
  ASSERT_TRUE(w.ok() && w8.ok());
  ASSERT_EQ(w8->size(), w->size() / 64 * 12);
  double most = 0;
  for (std::size_t r = 0; r < w->size() / 64; ++r)
    for (std::size_t j = 0; j < 12; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 64; ++k) sum += static_cast<double>((*w)[r * 64 + k]) * (*report->curve->basis)[j * 64 + k];
      most = std::max(most, std::fabs(sum - static_cast<double>((*w8)[r * 12 + j])));
    }
  EXPECT_LT(most, 1e-6);
  // Twice is once too often.
  const auto again = convert_part(pruned, path("again.safetensors"), options);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::usage);
  options.prune_rank = 65;
  EXPECT_FALSE(convert_part(source, path("again.safetensors"), options).ok());
}

// DiffSynth's full NF4 files are interleaved, pruned ones plain: read back, both are the same.
TEST_F(Convert, Nf4RowsAreInTheOrderOfTheirKind) {
  const ConvertSource source = open_source(source_path());
  ConvertOptions options = convert_to("nf4");
  ASSERT_TRUE(convert_part(source, path("full.safetensors"), options).ok());
  options.prune_rank = 8;
  ASSERT_TRUE(convert_part(source, path("pruned.safetensors"), options).ok());
  const auto wanted = source.part->read_f32("blocks.0.attn.qkv_proj.weight");
  for (const char* name : {"full.safetensors", "pruned.safetensors"}) {
    const auto part = open_dit(std::make_shared<const Checkpoint>(open(path(name))), false);
    ASSERT_TRUE(part.ok());
    EXPECT_EQ(part->layout, std::string(name) == "full.safetensors" ? DitLayout::interleaved : DitLayout::plain);
    EXPECT_EQ(open(path(name)).files().front().header().metadata.at("tritium.qkv_order"),
              part->layout == DitLayout::interleaved ? "interleaved" : "plain");
    const auto got = part->part->read_f32("blocks.0.attn.qkv_proj.weight");
    ASSERT_TRUE(got.ok());
    EXPECT_LT(relative_error(*got, *wanted), 0.1) << name;
  }
}

TEST_F(Convert, KeepRulesWin) {
  ConvertOptions options = convert_to("w4a8");
  options.keep = {{"blocks.0.*.fc2.weight", *target_format("bf16")}, {"condition_proj.weight", *target_format("int8")}};
  ASSERT_TRUE(convert_part(open_source(source_path()), path("t.safetensors"), options).ok());
  const auto part = open_source(path("t.safetensors")).part;
  EXPECT_EQ(part->tensors().find("blocks.0.mlp.fc2.weight")->format_name(), "BF16");
  EXPECT_EQ(part->tensors().find("blocks.1.mlp.fc2.weight")->format_name(), "w4a8");
  EXPECT_EQ(part->tensors().find("condition_proj.weight")->format_name(), "int8");
  options.keep = {{"*norm1.weight", *target_format("nf4")}};
  const auto refused = convert_part(open_source(source_path()), path("u.safetensors"), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
}

TEST_F(Convert, ThreadsDoNotChangeAByte) {
  for (const char* format : {"w4a8", "nf4", "fp8", "int8-convrot"}) {
    const ConvertSource source = open_source(source_path());
    ASSERT_TRUE(convert_part(source, path(std::string(format) + "1.safetensors"), convert_to(format, 1)).ok());
    ASSERT_TRUE(convert_part(source, path(std::string(format) + "5.safetensors"), convert_to(format, 5)).ok());
    EXPECT_EQ(content(path(std::string(format) + "1.safetensors")), content(path(std::string(format) + "5.safetensors"))) << format;
  }
}

TEST_F(Convert, ContinuesAfterAnInterruptionWithTheSameBytes) {
  const ConvertSource source = open_source(source_path());
  const ConvertOptions options = convert_to("int8-convrot", 1);
  ASSERT_TRUE(convert_part(source, path("whole.safetensors"), options).ok());
  for (const int stop_after : {0, 1, 7, 20, 40}) {
    const fs::path target = path("cut.safetensors");
    CancelToken cancel;
    int seen = 0;
    std::string last;
    ConvertHooks hooks;
    hooks.progress = [&](const ConvertProgress& p) {
      if (p.tensor != last && seen++ == stop_after) cancel.cancel();
      last = p.tensor;
    };
    const auto cut = convert_part(source, target, options, hooks, &cancel);
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.error().code, ErrorCode::interrupted);
    EXPECT_FALSE(fs::exists(target));
    EXPECT_TRUE(fs::exists(PartFile::part_path(target)));
    const auto whole = convert_part(source, target, options);
    ASSERT_TRUE(whole.ok()) << whole.error().text();
    EXPECT_EQ(whole->resumed, static_cast<std::size_t>(stop_after));
    EXPECT_EQ(content(target), content(path("whole.safetensors"))) << stop_after;
    fs::remove(target);
  }
}

TEST_F(Convert, StartsOverWhenSourceOrOptionsChange) {
  const fs::path target = path("t.safetensors");
  const auto interrupt = [&](const char* format) {
    CancelToken cancel;
    int seen = 0;
    ConvertHooks hooks;
    hooks.progress = [&](const ConvertProgress&) {
      if (seen++ == 12) cancel.cancel();
    };
    EXPECT_FALSE(convert_part(open_source(source_path()), target, convert_to(format, 1), hooks, &cancel).ok());
  };
  std::string said;
  ConvertHooks hooks;
  hooks.notice = [&](const std::string& text) { said += text + "\n"; };
  interrupt("int8");
  auto report = convert_part(open_source(source_path()), target, convert_to("bf16"), hooks);
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->resumed, 0u);
  EXPECT_NE(said.find("other options"), std::string::npos) << said;
  const std::string clean = content(target);
  fs::remove(target);

  interrupt("bf16");
  small_transformer(6).write(source_path());
  said.clear();
  report = convert_part(open_source(source_path()), target, convert_to("bf16"), hooks);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->resumed, 0u);
  EXPECT_NE(said.find("source has changed"), std::string::npos) << said;
  EXPECT_NE(content(target), clean);
}

// A journal with a torn last line, or none that can be read.
TEST_F(Convert, TornJournals) {
  const ConvertSource source = open_source(source_path());
  const ConvertOptions options = convert_to("nf4", 1);
  ASSERT_TRUE(convert_part(source, path("whole.safetensors"), options).ok());
  const fs::path target = path("t.safetensors");
  for (const std::string damage : {"torn", "garbage", "empty"}) {
    CancelToken cancel;
    int seen = 0;
    ConvertHooks hooks;
    hooks.progress = [&](const ConvertProgress&) {
      if (seen++ == 30) cancel.cancel();
    };
    ASSERT_FALSE(convert_part(source, target, options, hooks, &cancel).ok());
    const fs::path journal = PartFile::journal_path(target);
    std::string text = content(journal);
    if (damage == "torn") text.resize(text.size() - 9);
    if (damage == "garbage") text = "\x01\x02 no json\n" + text;
    if (damage == "empty") text.clear();
    ASSERT_TRUE(write_file_atomically(journal, text).ok());
    const auto report = convert_part(source, target, options);
    ASSERT_TRUE(report.ok()) << damage << ": " << report.error().text();
    EXPECT_EQ(report->resumed > 0, damage == "torn");
    EXPECT_EQ(content(target), content(path("whole.safetensors"))) << damage;
    fs::remove(target);
  }
}

TEST_F(Convert, RefusesWhatIsThereAndSecondWriters) {
  const ConvertSource source = open_source(source_path());
  ASSERT_TRUE(convert_part(source, path("t.safetensors"), convert_to("bf16")).ok());
  const auto there = convert_part(source, path("t.safetensors"), convert_to("bf16"));
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().code, ErrorCode::usage);
  EXPECT_NE(there.error().hint.find("--overwrite"), std::string::npos);
  ConvertOptions options = convert_to("f16");
  options.overwrite = true;
  EXPECT_TRUE(convert_part(source, path("t.safetensors"), options).ok());

  const int fd = ::open(PartFile::part_path(path("u.safetensors")).c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto busy = convert_part(source, path("u.safetensors"), convert_to("bf16"));
  ASSERT_FALSE(busy.ok());
  EXPECT_NE(busy.error().text().find("another process"), std::string::npos);
  ::close(fd);
  EXPECT_TRUE(convert_part(source, path("u.safetensors"), convert_to("bf16")).ok());
}

TEST_F(Convert, TooLittleRoomIsSaidBeforeAnythingIsWritten) {
  const auto file = PartFile::open(path("huge.safetensors"), std::uint64_t{1} << 55, {"", "", ""}, false);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::does_not_fit);
  EXPECT_NE(file.error().message.find("are free"), std::string::npos) << file.error().text();
}

class AddOne final : public WeightDelta {
 public:
  [[nodiscard]] bool touches(const std::string& official) const override { return official == "blocks.0.attn.qkv_proj.weight"; }
  Result<void> add(const std::string&, std::int64_t first, std::int64_t columns, std::span<float> rows) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += static_cast<float>(first + static_cast<std::int64_t>(i) / columns);
    return {};
  }
  [[nodiscard]] std::string description() const override { return "[\"one\"]"; }
};

TEST_F(Convert, DeltasAreAddedInTheEnginesRowOrder) {
  const ConvertSource source = open_source(source_path());
  ConvertOptions options = convert_to("keep");
  const AddOne one;
  options.delta = &one;
  ASSERT_TRUE(convert_part(source, path("t.safetensors"), options).ok());
  const auto merged = open_source(path("t.safetensors"));
  const auto before = source.part->read_f32("blocks.0.attn.qkv_proj.weight"),
             after = merged.part->read_f32("blocks.0.attn.qkv_proj.weight");
  ASSERT_TRUE(before.ok() && after.ok());
  for (std::size_t i = 0; i < before->size(); i += 131) EXPECT_EQ((*after)[i], (*before)[i] + static_cast<float>(i / 256));
  EXPECT_EQ(open(path("t.safetensors")).files().front().header().metadata.at("tritium.merged_loras"), "[\"one\"]");
}

TEST(ConvertNames, Globs) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("blocks.*.fc?.weight", "blocks.12.mlp.fc2.weight"));
  EXPECT_FALSE(glob_matches("blocks.*.fc?.weight", "blocks.12.mlp.fc2.bias"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(glob_matches("a", "ab"));
  EXPECT_EQ(layer_group("blocks.12.mlp.fc2.weight"), "blocks.N.mlp.fc2");
  EXPECT_EQ(comfy_name(PartKind::text, "model.language_model.layers.3.mlp.up_proj.weight"), "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(comfy_name(PartKind::text, "model.visual.patch_embed.proj.weight"), "visual.patch_embed.proj.weight");
  EXPECT_TRUE(target_format("INT8_CONVROT"));
  EXPECT_FALSE(target_format("int7"));
  EXPECT_FALSE(target_container(*target_format("q4_k"), "x.safetensors").ok());
  EXPECT_FALSE(target_container(*target_format("nf4"), "x.gguf").ok());
  EXPECT_FALSE(target_container(*target_format("bf16"), "x.bin").ok());
}

}  // namespace
}  // namespace tritium::test
