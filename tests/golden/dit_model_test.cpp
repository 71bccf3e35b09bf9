// golden/dit: single evaluations in every layout, the intermediates of the main case.
#include "support/dit_golden.h"
#include "unit/temp_folder.h"
#include "weights/convert/convert.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>
#include <map>

namespace tritium {
namespace {

constexpr double kTolerance = 3e-5;  // golden/dit/README.md

std::vector<Modality> modalities(const std::vector<std::int64_t>& tags) {
  std::vector<Modality> out;
  for (const std::int64_t tag : tags) out.push_back(static_cast<Modality>(tag));
  return out;
}

RetakeMask mask_of(const golden::Tensors& file, const std::string& key) {
  RetakeMask mask;
  if (file.has(key))
    for (const float v : file.f32(key)) mask.push_back(v != 0 ? 1 : 0);
  return mask;
}

// x where the mask says regenerate, the clean source elsewhere; `stride` consecutive values belong to one entry of the mask.
std::vector<float> blend(std::vector<float> x, const std::vector<float>& clean, const RetakeMask& mask, std::size_t stride) {
  if (mask.empty()) return x;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (mask[i / stride % mask.size()] == 0) x[i] = clean[i];
  return x;
}

struct Case {
  PackedLayout layout;
  DitRows conditions, x;
  RowTimesteps timesteps;
  std::vector<float> text;
  AudioLatentShape audio;
};

std::vector<float> optional_rows(const golden::Tensors& file, std::initializer_list<std::string> keys) {
  for (const std::string& key : keys)
    if (file.has(key)) return file.f32(key);
  return {};
}

Case read_case(const golden::Tensors& file, const std::string& name, const nlohmann::json& description) {
  Case c;
  const std::string in = name + ".in.";
  const VideoLatentShape video = golden::video_shape(file.shape(in + "video_latents"));
  const auto audio_dims = file.shape(in + "audio_latents");
  c.audio = {static_cast<int>(audio_dims[1]), static_cast<int>(audio_dims[2])};
  auto layout = make_layout(golden::packing_request(description, video, c.audio.length, modalities(file.i64(in + "text_tags"))));
  EXPECT_TRUE(layout.ok()) << layout.error().text();
  c.layout = std::move(*layout);
  const RetakeMasks masks{mask_of(file, in + "denoise_mask_video"), mask_of(file, in + "denoise_mask_audio")};
  auto video_values = file.f32(in + "video_latents"), audio_values = file.f32(in + "audio_latents");
  if (!masks.video.empty())
    video_values = blend(std::move(video_values), file.f32(in + "input_latents_video"), masks.video,
                         static_cast<std::size_t>(video.height) * static_cast<std::size_t>(video.width));
  if (!masks.audio.empty()) audio_values = blend(std::move(audio_values), file.f32(in + "input_latents_audio"), masks.audio, 1);
  c.x = {*patchify_video(video, video_values), *patchify_audio(c.audio, audio_values)};
  c.conditions = {optional_rows(file, {in + "keyframe_cond_anchor", in + "ref_visual_anchor"}),
                  optional_rows(file, {in + "ref_audio_anchor"})};
  c.text = file.f32(in + "prompt_embeds");
  const auto time = [&](const char* key) { return static_cast<float>(1.0 - description[key].get<double>() / 1000.0); };
  auto timesteps = assign_timesteps(c.layout, time("timestep_video"), time("timestep_audio"), masks);
  EXPECT_TRUE(timesteps.ok());
  c.timesteps = std::move(*timesteps);
  return c;
}

std::vector<float> negated(std::vector<float> values) {
  for (float& v : values) v = -v;
  return values;
}

DitRows evaluate(const Dit& dit, const Case& c) {
  auto run = DitRun::begin(dit, c.layout, c.text, c.conditions, {c.timesteps});
  EXPECT_TRUE(run.ok()) << run.error().text();
  auto velocity = run->evaluate(0, c.x);
  EXPECT_TRUE(velocity.ok()) << velocity.error().text();
  return std::move(*velocity);
}

class GoldenDit : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto opened = Device::open("CPU", 2);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    device_ = std::move(*opened);
    device_->set_fast_kernels(GetParam());
  }
  std::unique_ptr<Device> device_;
};

TEST_P(GoldenDit, EveryCaseInEveryLayout) {
  const golden::Tensors file("dit/tiny_dit_cases.safetensors");
  const auto description = golden::json("dit/tiny_dit.json");
  for (const golden::DitFile& model : golden::dit_files()) {
    const auto dit = golden::load_dit(*device_, model);
    for (const auto& [name, about] : description["cases"].items()) {
      const Case c = read_case(file, name, about);
      const DitRows v = evaluate(*dit, c);
      const std::string out = name + (dit->config().pruned() ? ".out_pruned." : ".out.");
      golden::expect_within(model.stem + " " + name + " video",
                            golden::max_abs_diff(negated(*unpatchify_video(c.layout.video, v.video)), file.f32(out + "video")), kTolerance);
      golden::expect_within(model.stem + " " + name + " audio",
                            golden::max_abs_diff(negated(*unpatchify_audio(c.audio, v.audio)), file.f32(out + "audio")), kTolerance);
    }
  }
}

// GGUF holds the same names and values as ComfyUI's files; and a model pruned here is as good as the one pruned elsewhere.
TEST_P(GoldenDit, ConvertedFilesGiveTheSameOutputs) {
  const golden::Tensors file("dit/tiny_dit_cases.safetensors");
  const auto description = golden::json("dit/tiny_dit.json");
  const golden::DitFile official = golden::dit_files().front();
  const auto original = golden::load_dit(*device_, official);
  const auto source = golden::open_dit_part(official);
  const test::TempFolder folder;
  struct Target {
    std::string name;
    Container container;
    std::int64_t prune;
    double tolerance;
  };
  for (const Target& target :
       {Target{"plain.gguf", Container::gguf, 0, 1e-5}, Target{"plain.safetensors", Container::safetensors, 0, 1e-5},
        Target{"pruned.safetensors", Container::safetensors, 8, 1e-4}, Target{"pruned.gguf", Container::gguf, 8, 1e-4}}) {
    ConvertOptions options;
    options.container = target.container;
    options.prune_rank = target.prune;
    const auto report =
        convert_part({PartKind::dit, source, convertible_names(PartKind::dit, *source), {}}, folder.path() / target.name, options);
    ASSERT_TRUE(report.ok()) << report.error().text();
    const auto dit = golden::load_dit(*device_, {(folder.path() / target.name).string(), DitLayout::plain, ""});
    EXPECT_EQ(dit->config().pruned(), target.prune != 0);
    for (const auto& [name, about] : description["cases"].items()) {
      const Case c = read_case(file, name, about);
      const DitRows expected = evaluate(*original, c), got = evaluate(*dit, c);
      golden::expect_within(target.name + " " + name + " video", golden::max_abs_diff(got.video, expected.video), target.tolerance);
      golden::expect_within(target.name + " " + name + " audio", golden::max_abs_diff(got.audio, expected.audio), target.tolerance);
    }
  }
}

TEST_P(GoldenDit, IntermediatesOfTheMainCase) {
  if (!golden::has("dit/tiny_dit_mid.safetensors")) GTEST_SKIP() << "this tree holds no intermediates; the outputs above are what counts";
  const golden::Tensors mid("dit/tiny_dit_mid.safetensors"), file("dit/tiny_dit_cases.safetensors");
  const auto description = golden::json("dit/tiny_dit.json");
  const auto dit = golden::load_dit(*device_, golden::dit_files().front());
  const std::string case_name = mid.names().front().substr(0, mid.names().front().find(".mid."));
  const Case c = read_case(file, case_name, description["cases"][case_name]);
  std::map<std::string, std::vector<float>> seen;
  device_->set_observer([&](const std::string& name, std::span<const std::int64_t>, std::span<const float> values) {
    seen[name] = {values.begin(), values.end()};
  });
  evaluate(*dit, c);

  const auto rows = static_cast<std::size_t>(c.layout.rows());
  const auto check = [&](const std::string& golden_name, const std::string& ours, std::size_t first_row = 0) {
    auto expected = mid.f32(case_name + ".mid." + golden_name);
    const auto found = seen.find(ours);
    ASSERT_NE(found, seen.end()) << "no intermediate named " << ours;
    const auto golden_rows = static_cast<std::size_t>(mid.shape(case_name + ".mid." + golden_name)[0]);
    const std::size_t width = expected.size() / golden_rows;
    // Reference tensors over the packed sequence end with padding rows, which we do not have.
    const std::size_t keep = std::min(golden_rows - first_row, found->second.size() / width);
    expected = {expected.begin() + static_cast<std::ptrdiff_t>(first_row * width),
                expected.begin() + static_cast<std::ptrdiff_t>((first_row + keep) * width)};
    golden::expect_within(case_name + " " + golden_name, golden::max_abs_diff(found->second, expected), kTolerance);
  };
  check("t_emb", "dit.time.t_emb");
  check("text_proj", "dit.text.text_proj");
  check("text_refined", "dit.text.text_refined");
  check("video_embed", "dit.step0.embed.video_embed");
  check("audio_embed", "dit.step0.embed.audio_embed");
  check("block0.in", "dit.step0.embed.out");
  for (const char* name : {"attn_in", "q_rope", "k_rope", "v", "attn_heads", "attn_out", "after_attn", "mlp_in", "mlp_out"})
    check(std::string("block0.") + name, std::string("dit.step0.block0.") + name);
  for (int i = 0; i < dit->config().layers; ++i) check(fmt::format("block{}.out", i), fmt::format("dit.step0.block{}.out", i));
  check("final.adaln", "dit.modulation.final.adaln");
  // Heads are evaluated on their own rows only.
  check("final.audio_rows_all", "dit.step0.final.audio", static_cast<std::size_t>(c.layout.target_audio().first));
  check("final.video_rows_all", "dit.step0.final.video", static_cast<std::size_t>(c.layout.target_video().first));

  // One adaLN output of the reference is a row per timestep and modality; ours a row per timestep.
  golden::expect_within(case_name + " block0.adaln",
                        golden::max_abs_diff(seen["dit.modulation.block0.adaln"], mid.f32(case_name + ".mid.block0.adaln")), kTolerance);
  EXPECT_EQ(c.timesteps.values.size(), static_cast<std::size_t>(mid.shape(case_name + ".mid.unique_timesteps")[0]));
  const auto inverse = mid.i64(case_name + ".mid.inverse_indices");
  for (std::size_t row = 0; row < rows; ++row) EXPECT_EQ(c.timesteps.index[row], inverse[row]) << "row " << row;
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenDit, ::testing::Bool(), [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

}  // namespace
}  // namespace tritium
