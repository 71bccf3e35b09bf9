// The audio encoder against the reference: whole encodes from both namings, every named stage, folded weights; and the resampler.
#include "media/audio_resample.h"
#include "model/audio_vae/encoder.h"
#include "model/audio_vae/weights.h"
#include "support/golden.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <map>

namespace tritium::audio_vae {
namespace {

// golden/vae/README.md: "stage tensors" and "resampled audio".
constexpr double kStageTolerance = 2e-4;
constexpr double kStageRelativeTolerance = 1e-3;
constexpr double kResampleTolerance = 5e-5;

template <class T>
T take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

std::unique_ptr<Device> open_device(bool fast) {
  auto device = take(Device::open("", 2));
  device->set_fast_kernels(fast);
  return device;
}

std::string in_vae(const std::string& file) { return "vae/" + file; }

// A model of the golden tree: its configuration and its weight file in one of the two naming schemes.
struct Model {
  Model(const std::string& name, const std::string& suffix)
      : config(take(AudioVaeConfig::parse(golden::json(in_vae(name + ".config.json")).dump()))),
        part(take(WeightPart::open(golden::path(in_vae(name + suffix + ".safetensors"))))) {}
  AudioVaeConfig config;
  std::shared_ptr<const WeightPart> part;
};

bool has_comfy_file(const std::string& model) { return std::filesystem::exists(golden::path(in_vae(model + "_comfy.safetensors"))); }

std::vector<nlohmann::json> encode_cases() {
  std::vector<nlohmann::json> out;
  const auto document = golden::json("vae/cases.json");
  for (const auto& each : document["cases"])
    if (each["kind"] == "audio_encode") out.push_back(each);
  return out;
}

// The first samples of a stored signal [2, length]; "mono" takes the left one twice.
struct Wave {
  explicit Wave(const nlohmann::json& source) {
    const golden::Tensors file(in_vae(source["file"]));
    const std::string key = source["key"];
    const auto all = file.f32(key);
    const auto stored = static_cast<std::ptrdiff_t>(file.shape(key).back()), used = source["samples"].get<std::ptrdiff_t>();
    left.assign(all.begin(), all.begin() + used);
    right.assign(all.begin() + stored, all.begin() + stored + used);
    if (source.value("mono", false)) right = left;
  }
  std::vector<float> left, right;
};

std::vector<float> expected_latents(const nlohmann::json& entry) {
  return golden::Tensors(in_vae(entry["expect"]["file"])).f32(entry["expect"]["key"]);
}

class GoldenAudioEncoder : public testing::TestWithParam<bool> {
 protected:
  static std::string label(const std::string& name) { return name + (GetParam() ? " (kernels)" : " (plain)"); }
};

TEST_P(GoldenAudioEncoder, EveryEncodeCaseFromBothNamings) {
  const auto cases = encode_cases();
  ASSERT_FALSE(cases.empty());
  const auto device = open_device(GetParam());
  for (const auto& entry : cases)
    for (const std::string suffix : {"", "_comfy"}) {
      if (!suffix.empty() && !has_comfy_file(entry["model"])) continue;
      const Model model(entry["model"], suffix);
      const AudioEncoder encoder = take(AudioEncoder::load(*device, *model.part, model.config));
      const Wave wave(entry["wave"]);
      const EncodedAudio ours = take(encoder.encode(wave.left, wave.right));
      const golden::Tensors file(in_vae(entry["expect"]["file"]));
      EXPECT_EQ(file.shape(entry["expect"]["key"]), (std::vector<std::int64_t>{kChannels, model.config.latent_channels, ours.length}));
      golden::expect_within(label(entry["name"].get<std::string>() + suffix), golden::max_abs_diff(ours.values, expected_latents(entry)),
                            entry["expect"]["tolerance_abs"]);
    }
}

// --- intermediates ----------------------------------------------------------------------------------------------------------------

// "enc<run>.<stage>" -> run; empty for other keys.
std::string run_of(const std::string& key) { return key.starts_with("enc") ? key.substr(0, key.find('.')) : ""; }

// The case whose latents of the left channel follow from the recorded last stage.
const nlohmann::json* case_of_run(const std::vector<nlohmann::json>& cases, const golden::Tensors& stages, const std::string& run) {
  const std::vector<float> mean = stages.f32(run + ".mean_proj");
  for (const auto& entry : cases) {
    const Model model(entry["model"], "");
    std::vector<float> expected = expected_latents(entry);
    expected.resize(expected.size() / kChannels);
    if (expected.size() != mean.size()) continue;
    const std::size_t length = mean.size() / static_cast<std::size_t>(model.config.latent_channels);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = expected[i] * model.config.latents_std[i / length] + model.config.latents_mean[i / length];
    if (golden::max_abs_diff(expected, mean) < kStageTolerance) return &entry;
  }
  return nullptr;
}

// The leading values of every row of `values` [rows, length].
std::vector<float> leading(const std::vector<float>& values, std::int64_t length, std::int64_t count) {
  std::vector<float> out;
  for (auto row = values.begin(); row != values.end(); row += length) out.insert(out.end(), row, row + std::min(count, length));
  return out;
}

struct Seen {
  std::int64_t length;  // innermost
  std::vector<float> values;
};

// What the encoder computes for the left channel, by the reference's module name.
std::map<std::string, Seen> record(Device& device, const AudioEncoder& encoder, const Wave& wave) {
  const std::string prefix = "audio_vae.encoder.left.";
  std::map<std::string, Seen> seen;
  device.set_observer([&](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values) {
    if (name.starts_with(prefix)) seen[name.substr(name.find('.', prefix.size()) + 1)] = {shape[0], {values.begin(), values.end()}};
  });
  take(encoder.encode(wave.left, wave.right));
  device.set_observer({});
  return seen;
}

TEST_P(GoldenAudioEncoder, EveryNamedStageAgrees) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const auto cases = encode_cases();
  const auto device = open_device(GetParam());
  std::map<std::string, std::vector<std::string>> runs;
  for (const std::string& key : stages.names())
    if (!run_of(key).empty()) runs[run_of(key)].push_back(key);
  if (runs.empty()) GTEST_SKIP() << "this tree holds no intermediates of the encoder (the repository's own choice may leave them out)";
  for (const auto& [run, keys] : runs) {
    const auto* entry = case_of_run(cases, stages, run);
    ASSERT_NE(entry, nullptr) << "no audio_encode case has the latents of " << run;
    const Model model((*entry)["model"], "");
    const AudioEncoder encoder = take(AudioEncoder::load(*device, *model.part, model.config));
    const auto seen = record(*device, encoder, Wave((*entry)["wave"]));
    for (const std::string& key : keys) {
      const std::size_t start = run.size() + 1, cut = key.find(".first");
      const auto found = seen.find(key.substr(start, cut == std::string::npos ? cut : cut - start));
      ASSERT_NE(found, seen.end()) << key << " is no intermediate of the encoder";
      const auto actual = leading(found->second.values, found->second.length, stages.shape(key).back());
      const auto expected = stages.f32(key);
      golden::expect_within(label(key), golden::max_abs_diff(actual, expected), kStageTolerance);
      golden::expect_within(label(key) + " relative", golden::rel_l2(actual, expected), kStageRelativeTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, GoldenAudioEncoder, testing::Bool(), [](const auto& path) { return path.param ? "Fast" : "Plain"; });

TEST(GoldenAudioEncoderWeights, FoldedConvolutions) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const golden::Tensors model(in_vae(encode_cases().front()["model"].get<std::string>() + ".safetensors"));
  int folded = 0;
  for (const std::string& key : stages.names()) {
    if (!key.starts_with("folded.encoder.")) continue;
    const std::string name = key.substr(7);
    golden::expect_within(
        key, golden::max_abs_diff(fold_weight_norm(model.f32(name + ".weight_g"), model.f32(name + ".weight_v")), stages.f32(key)), 1e-6);
    ++folded;
  }
  EXPECT_GT(folded, 0);
}

// "resample.out_<from>_to_<to>" from "resample.in_<from>", both [channels, samples].
TEST(GoldenAudioResample, EveryRatePair) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const std::string prefix = "resample.out_";
  int compared = 0;
  for (const std::string& key : stages.names()) {
    if (!key.starts_with(prefix)) continue;
    const std::size_t middle = key.find("_to_");
    const std::string from = key.substr(prefix.size(), middle - prefix.size()), to = key.substr(middle + 4);
    const auto input = stages.f32("resample.in_" + from);
    const auto length = static_cast<std::size_t>(stages.shape("resample.in_" + from).back());
    std::vector<float> ours;
    for (std::size_t at = 0; at < input.size(); at += length) {
      const auto channel = take(resample_audio(std::span(input).subspan(at, length), std::stoi(from), std::stoi(to)));
      ours.insert(ours.end(), channel.begin(), channel.end());
    }
    golden::expect_within(key, golden::max_abs_diff(ours, stages.f32(key)), kResampleTolerance);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace tritium::audio_vae
