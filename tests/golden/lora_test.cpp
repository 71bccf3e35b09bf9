// golden/dit/lora_*: one adapter in every dialect, on the full model and on a pruned one.
#include "model/dit/lora.h"
#include "support/dit_golden.h"
#include "unit/temp_folder.h"
#include "weights/convert/prune.h"
#include "weights/safetensors_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

using Floats = std::vector<float>;

constexpr double kTolerance = 5e-5;        // golden/dit/README.md
constexpr double kPrunedTolerance = 1e-4;  // the same, for projected adaLN pairs
constexpr const char* kModel = "tiny128_dit";

struct LoadedDit {
  std::shared_ptr<const WeightPart> part;
  std::unique_ptr<Dit> dit;
};

template <class T>
T require(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "golden lora: %s\n", result.error().text().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

// Official names and interleaved rows.
LoadedDit load(Device& device, const std::filesystem::path& path, const std::string& config_json) {
  const auto checkpoint = std::make_shared<const Checkpoint>(require(Checkpoint::open(path)));
  LogicalTensors tensors = require(LogicalTensors::open(*checkpoint));
  const Naming naming = dit_naming(tensors, DitLayout::interleaved);
  LoadedDit out;
  out.part = WeightPart::wrap(checkpoint, std::move(tensors), naming);
  out.dit = require(Dit::load(device, out.part, require(read_dit_config(*out.part, config_json)), MatrixPrecision::f32));
  return out;
}

// "lora_turbo_diffusers", ...: the adapters of the tree.
std::vector<std::string> lora_files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden::path("dit"))) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".safetensors" && name.starts_with("lora_") && name != "lora_expected") out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

class GoldenLora : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!golden::has("dit/lora_expected.safetensors")) GTEST_SKIP() << "this tree holds no adapters";
    device_ = require(Device::open("CPU", 2));
    expected_.emplace("dit/lora_expected.safetensors");
    about_ = golden::json("dit/lora.json");
    full_ = load(*device_, model_path(), about_["config"].dump());
  }

  static std::filesystem::path model_path() { return golden::path(fmt::format("dit/{}.safetensors", kModel)); }

  // [video, audio], noise-ward as the golden values are.
  [[nodiscard]] std::array<Floats, 2> evaluate(const Dit& dit) const {
    const VideoLatentShape video = golden::video_shape(expected_->shape("in.video_latents"));
    const auto dims = expected_->shape("in.audio_latents");
    const AudioLatentShape audio{static_cast<int>(dims[1]), static_cast<int>(dims[2])};
    std::vector<Modality> tags;
    for (const std::int64_t tag : expected_->i64("in.text_tags")) tags.push_back(static_cast<Modality>(tag));
    PackedLayout layout = require(make_layout(golden::packing_request(nlohmann::json::object(), video, audio.length, tags)));
    const auto time = [&](const char* key) { return static_cast<float>(1.0 - about_[key].get<double>() / 1000.0); };
    const RowTimesteps steps = require(assign_timesteps(layout, time("timestep_video"), time("timestep_audio"), {}));
    const DitRows x{require(patchify_video(video, expected_->f32("in.video_latents"))),
                    require(patchify_audio(audio, expected_->f32("in.audio_latents")))};
    DitRun run = require(DitRun::begin(dit, layout, expected_->f32("in.prompt_embeds"), {}, {steps}));
    const DitRows v = require(run.evaluate(0, x));
    std::array<Floats, 2> out{require(unpatchify_video(video, v.video)), require(unpatchify_audio(audio, v.audio))};
    for (Floats& each : out)
      for (float& value : each) value = -value;
    return out;
  }

  [[nodiscard]] std::shared_ptr<const LoraMatch> match(const LoadedDit& model, const std::string& stem,
                                                       const LoraMatchOptions& options = {}) const {
    const auto file = require(LoraFile::open(golden::path("dit/" + stem + ".safetensors")));
    LoraMatch found = require(match_lora(file, dit_lora_targets(model.dit->config()), options));
    EXPECT_TRUE(drop_not_finite(found).ok());
    return std::make_shared<const LoraMatch>(std::move(found));
  }

  // The name of the expected outputs: the file's own, or those of the adapter that most files hold.
  [[nodiscard]] std::string expected_name(const std::string& stem) const {
    const std::string own = stem.substr(5);
    return expected_->has(own + ".scale1.0.out.video") ? own : "turbo";
  }
  [[nodiscard]] bool has_expected(const std::string& name, double scale) const {
    return expected_->has(fmt::format("{}.scale{:.1f}.out.video", name, scale)) && std::abs(scale * 10 - std::round(scale * 10)) < 1e-9;
  }
  [[nodiscard]] double error(const std::array<Floats, 2>& out, const std::string& name, double scale) const {
    const std::string key = fmt::format("{}.scale{:.1f}.out.", name, scale);
    return std::max(golden::max_abs_diff(out[0], expected_->f32(key + "video")),
                    golden::max_abs_diff(out[1], expected_->f32(key + "audio")));
  }

  // Every strength whose outcome is known; the number of comparisons.
  int compare(const LoadedDit& model, const std::string& title, const std::shared_ptr<const LoraMatch>& lora, const std::string& name,
              double tolerance) const {
    EXPECT_EQ(lora->report.matched, lora->report.pairs) << title;
    const bool own = name != "turbo";
    int compared = 0;
    for (const double strength : {1.0, 0.5}) {
      // Files of the common adapter with an alpha of their own are that adapter at another strength.
      const double scale = own ? strength : strength * lora->report.scales.front().value;
      if (!has_expected(name, scale)) continue;
      const LoraUse uses[] = {{lora, strength}};
      const DitAdapters adapters = require(DitAdapters::attach(*model.dit, uses));
      golden::expect_within(fmt::format("{} strength {}", title, strength), error(evaluate(*model.dit), name, scale), tolerance);
      ++compared;
    }
    return compared;
  }

  std::unique_ptr<Device> device_;
  std::optional<golden::Tensors> expected_;
  nlohmann::json about_;
  LoadedDit full_;
};

TEST_F(GoldenLora, B9_B13_EveryFileAtEveryStrength) {
  const auto base = evaluate(*full_.dit);
  golden::expect_within("lora base",
                        std::max(golden::max_abs_diff(base[0], expected_->f32("base.out.video")),
                                 golden::max_abs_diff(base[1], expected_->f32("base.out.audio"))),
                        kTolerance);
  const auto files = lora_files();
  ASSERT_FALSE(files.empty());
  for (const std::string& stem : files) {
    const auto lora = match(full_, stem);
    EXPECT_GT(compare(full_, stem, lora, expected_name(stem), kTolerance), 0) << stem;
    // Detached: the base again, bit for bit; strength 0 as well.
    EXPECT_EQ(evaluate(*full_.dit), base) << stem;
    const LoraUse none[] = {{lora, 0.0}};
    const DitAdapters adapters = require(DitAdapters::attach(*full_.dit, none));
    EXPECT_EQ(evaluate(*full_.dit), base) << stem;
    if (lora->file->metadata("alpha") == nullptr) continue;
    // The other reading: as if the metadata said nothing.
    LoraMatchOptions options;
    options.alpha = static_cast<double>(lora->report.scales.front().rank);
    EXPECT_GT(compare(full_, stem + " without its alpha", match(full_, stem, options), expected_name(stem), kTolerance), 0);
  }
}

// Two halves of one adapter add up to the whole; attaching twice is refused.
TEST_F(GoldenLora, SeveralAtOnceAddUp) {
  const auto files = lora_files();
  const auto find = [&](const char* stem) { return std::find(files.begin(), files.end(), stem) != files.end(); };
  if (!find("lora_comfy") || !find("lora_diffsynth")) GTEST_SKIP() << "this tree lacks the two dialects";
  const LoraUse uses[] = {{match(full_, "lora_comfy"), 0.5}, {match(full_, "lora_diffsynth"), 0.5}};
  const DitAdapters adapters = require(DitAdapters::attach(*full_.dit, uses));
  EXPECT_FALSE(DitAdapters::attach(*full_.dit, uses).ok());
  golden::expect_within("lora two halves", error(evaluate(*full_.dit), "turbo", 1.0), kTolerance);
}

// Interleaved rows read as plain ones change the outcome visibly (spec/dit.md §18.1).
TEST_F(GoldenLora, InterleavedReadAsPlainDiffers) {
  const test::TempFolder folder;
  int tried = 0;
  for (const std::string& stem : lora_files()) {
    const golden::Tensors file("dit/" + stem + ".safetensors");
    std::vector<Floats> values;
    std::vector<NamedTensor> tensors;
    for (const std::string& name : file.names()) {
      const auto at = name.find(".default");
      if (at == std::string::npos || name.find("qkv_proj") == std::string::npos) continue;
      values.push_back(file.f32(name));
      tensors.push_back({name.substr(0, at) + name.substr(at + 8), file.shape(name), {}});
    }
    if (tensors.empty()) continue;
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].values = values[i];
    ASSERT_TRUE(write_safetensors(folder.path() / "plain.safetensors", tensors).ok());
    const auto wrong =
        require(match_lora(require(LoraFile::open(folder.path() / "plain.safetensors")), dit_lora_targets(full_.dit->config())));
    const LoraUse uses[] = {{std::make_shared<const LoraMatch>(wrong), 1.0}};
    const DitAdapters adapters = require(DitAdapters::attach(*full_.dit, uses));
    EXPECT_GT(error(evaluate(*full_.dit), expected_name(stem), 1.0), 0.1) << stem;
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

// The golden model with its time embedder replaced by a curve table (spec/dit.md §3). Returns the rank.
std::int64_t prune(const std::filesystem::path& to, bool keep_basis) {
  const Checkpoint full = require(Checkpoint::open(golden::path(fmt::format("dit/{}.safetensors", kModel))));
  const TimeNetwork embedder = *require(read_time_network(full));
  const std::int64_t width = embedder.width(), rank = std::min(kCurveRank, width);
  const std::vector<double> curve = require(embedder.curve(equally_spaced(kCurvePoints), 1, nullptr));
  const Floats g(curve.begin(), curve.end());
  const RightVectors v = right_singular_vectors(curve, width, rank);
  // Rows of `a` [., width] times V.
  const auto narrow = [&](const Floats& a) {
    Floats out;
    for (std::size_t row = 0; row < a.size() / static_cast<std::size_t>(width); ++row)
      for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
        double sum = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
          sum += static_cast<double>(a[row * static_cast<std::size_t>(width) + i]) * v.vectors[k * static_cast<std::size_t>(width) + i];
        out.push_back(static_cast<float>(sum));
      }
    return out;
  };
  std::vector<std::pair<std::vector<std::int64_t>, Floats>> content;
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, Floats values) {
    names.push_back(name);
    content.emplace_back(std::move(shape), std::move(values));
  };
  for (const std::string& name : full.names()) {
    if (name.starts_with("time_embedder.")) continue;
    auto shape = full.find(name)->shape;
    Floats values = require(full.read_f32(name));
    if (name.ends_with("adaln_proj.linear.weight")) {
      values = narrow(values);
      shape[1] = rank;
    }
    add(name, shape, std::move(values));
  }
  add("adaln_t_table", {kCurvePoints, rank}, narrow(g));
  if (keep_basis) add("adaln_basis", {rank, width}, Floats(v.vectors.begin(), v.vectors.end()));
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < names.size(); ++i) tensors.push_back({names[i], content[i].first, content[i].second});
  EXPECT_TRUE(write_safetensors(to, tensors).ok());
  return rank;
}

TEST_F(GoldenLora, B10_ModulationPairsOnAPrunedModel) {
  const test::TempFolder folder;
  const Checkpoint full = require(Checkpoint::open(model_path()));
  for (const bool keep_basis : {true, false}) {
    const auto path = folder.path() / fmt::format("pruned{}.safetensors", keep_basis ? 1 : 0);
    const std::int64_t rank = prune(path, keep_basis);
    const LoadedDit pruned = load(*device_, path, "");
    ASSERT_TRUE(pruned.dit->config().pruned());
    ASSERT_EQ(pruned.dit->config().time_dim, rank);
    const auto base = evaluate(*pruned.dit);
    golden::expect_within("lora pruned base",
                          std::max(golden::max_abs_diff(base[0], expected_->f32("base.out.video")),
                                   golden::max_abs_diff(base[1], expected_->f32("base.out.audio"))),
                          kPrunedTolerance);
    LoraMatchOptions options;
    options.basis = require(dit_adaln_basis(*pruned.part, pruned.dit->config(), keep_basis ? nullptr : &full));
    ASSERT_NE(options.basis, nullptr);
    int with_modulation = 0;
    for (const std::string& stem : lora_files()) {
      const auto lora = match(pruned, stem, options);
      with_modulation += lora->report.projected > 0;
      EXPECT_GT(compare(pruned, fmt::format("{} pruned, basis {}", stem, keep_basis ? "stored" : "fitted"), lora, expected_name(stem),
                        kPrunedTolerance),
                0)
          << stem;
      if (lora->report.projected == 0) continue;
      const auto without = match(pruned, stem);  // no basis: these pairs are skipped and said so
      EXPECT_EQ(without->report.matched + lora->report.projected, lora->report.pairs);
      EXPECT_EQ(without->report.skipped.size(), lora->report.projected);
    }
    EXPECT_GT(with_modulation, 0);
  }
  const LoadedDit plain = load(*device_, folder.path() / "pruned0.safetensors", "");
  EXPECT_EQ(require(dit_adaln_basis(*plain.part, plain.dit->config(), nullptr)), nullptr);
}

}  // namespace
}  // namespace tritium
