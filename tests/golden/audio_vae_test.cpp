// The audio decoder against the reference: whole decodes, every named stage, the alias-free activation, folded weights; and the
// demonstration model against its recorded clips.
#include "model/audio_vae/decoder.h"

#include "base/files.h"
#include "base/system.h"
#include "support/golden.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

namespace tritium::audio_vae {
namespace {

constexpr double kStageTolerance = 2e-4;  // golden/vae/README.md, "stage tensors"

template <class T>
T take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

std::unique_ptr<Device> open_device(bool fast, int threads = 0) {
  auto device = take(Device::open("", threads));
  device->set_fast_kernels(fast);
  return device;
}

// A model of the golden tree: its configuration and its weight file in one of the two naming schemes.
struct Model {
  Model(const std::string& name, const std::string& suffix)
      : config(take(AudioVaeConfig::parse(golden::json("vae/" + name + ".config.json").dump()))),
        part(take(WeightPart::open(golden::path("vae/" + name + suffix + ".safetensors")))) {}
  AudioVaeConfig config;
  std::shared_ptr<const WeightPart> part;
};

bool has_comfy_file(const std::string& model) { return std::filesystem::exists(golden::path("vae/" + model + "_comfy.safetensors")); }

nlohmann::json decode_cases() {
  nlohmann::json out = nlohmann::json::array();
  const auto document = golden::json("vae/cases.json");
  for (const auto& each : document["cases"])
    if (each["kind"] == "audio_decode") out.push_back(each);
  return out;
}

// The first `length` columns of [2, channels, stored length].
std::vector<float> case_latents(const nlohmann::json& each) {
  const golden::Tensors file("vae/" + each["latents"]["file"].get<std::string>());
  const std::string key = each["latents"]["key"];
  const std::int64_t stored = file.shape(key).back(), length = each["latents"]["length"];
  const std::vector<float> all = file.f32(key);
  std::vector<float> out;
  for (auto row = all.begin(); row != all.end(); row += stored) out.insert(out.end(), row, row + length);
  return out;
}

std::vector<float> joined(const StereoSound& sound) {
  std::vector<float> out = sound.channels[0];
  out.insert(out.end(), sound.channels[1].begin(), sound.channels[1].end());
  return out;
}

class GoldenAudioVae : public testing::TestWithParam<bool> {};

TEST_P(GoldenAudioVae, DecodesEveryCaseFromBothNamings) {
  const auto cases = decode_cases();
  ASSERT_FALSE(cases.empty());
  const auto device = open_device(GetParam());
  for (const auto& each : cases) {
    const std::string name = each["model"];
    for (const std::string suffix : {"", "_comfy"}) {
      if (!suffix.empty() && !has_comfy_file(name)) continue;
      const Model model(name, suffix);
      const AudioDecoder decoder = take(AudioDecoder::load(*device, *model.part, model.config));
      const std::vector<float> latents = case_latents(each);
      const StereoSound sound = take(decoder.decode({latents, each["latents"]["length"].get<std::int64_t>()}));
      EXPECT_EQ(sound.sampling_rate, model.config.sampling_rate);
      const golden::Tensors expected("vae/" + each["expect"]["file"].get<std::string>());
      golden::expect_within(each["name"].get<std::string>() + suffix + (GetParam() ? " fast" : " plain"),
                            golden::max_abs_diff(joined(sound), expected.f32(each["expect"]["key"])), each["expect"]["tolerance_abs"]);
    }
  }
}

// The decode that the stage file records: the case with the length of dec.z_denorm_<length> and a model of the recorded width.
nlohmann::json stage_case(const golden::Tensors& stages) {
  const auto cases = decode_cases();
  for (const std::string& key : stages.names()) {
    if (!key.starts_with("dec.z_denorm_")) continue;
    for (const auto& each : cases) {
      const Model model(each["model"], "");
      if (each["latents"]["length"] == stages.shape(key).back() && model.config.decoder_dim == stages.shape("dec.decoder.conv_pre")[1])
        return each;
    }
  }
  return {};
}

// The leading samples of every channel of `values` [channels, length].
std::vector<float> leading(const std::vector<float>& values, std::int64_t length, std::int64_t count) {
  std::vector<float> out;
  for (auto row = values.begin(); row != values.end(); row += length) out.insert(out.end(), row, row + std::min(count, length));
  return out;
}

TEST_P(GoldenAudioVae, EveryNamedStageAgrees) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const auto each = stage_case(stages);
  ASSERT_TRUE(each.is_object()) << "no decode case has the length of dec.z_denorm_* and the width of dec.decoder.conv_pre";
  const auto device = open_device(GetParam());
  const Model model(each["model"], "");
  const AudioDecoder decoder = take(AudioDecoder::load(*device, *model.part, model.config));

  struct Seen {
    std::int64_t length;
    std::vector<float> values;
  };
  std::map<std::string, Seen> seen;  // by the reference's module name, left channel
  std::vector<float> denormalized;   // both channels
  device->set_observer([&](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values) {
    if (name.ends_with(".z_denorm")) denormalized.insert(denormalized.end(), values.begin(), values.end());
    if (!name.starts_with("audio_vae.left.")) return;
    const std::string module = name.substr(name.find('.', std::string("audio_vae.left.").size()) + 1);
    seen[module] = {shape[0], {values.begin(), values.end()}};
  });
  const std::vector<float> latents = case_latents(each);
  take(decoder.decode({latents, each["latents"]["length"].get<std::int64_t>()}));

  int compared = 0;
  for (const std::string& key : stages.names()) {
    if (!key.starts_with("dec.")) continue;
    const std::string label = key + (GetParam() ? " fast" : " plain");
    ++compared;
    if (key.starts_with("dec.z_denorm_")) {
      golden::expect_within(label, golden::max_abs_diff(denormalized, stages.f32(key)), kStageTolerance);
      continue;
    }
    const std::size_t cut = key.find(".first");
    const auto found = seen.find(key.substr(4, cut == std::string::npos ? cut : cut - 4));
    ASSERT_NE(found, seen.end()) << key << " is no intermediate of the decoder";
    golden::expect_within(
        label, golden::max_abs_diff(leading(found->second.values, found->second.length, stages.shape(key).back()), stages.f32(key)),
        kStageTolerance);
  }
  EXPECT_GT(compared, 0);
}

TEST_P(GoldenAudioVae, AliasFreeActivation) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const auto each = stage_case(stages);
  ASSERT_TRUE(each.is_object());
  const Model model(each["model"], "");
  const auto device = open_device(GetParam());
  ParamLoader loader(*model.part, "audio VAE decoder", MatrixPrecision::f32);
  const DecoderWeights weights = declare_decoder(loader, *model.part, model.config);
  const TensorPool pool = take(loader.load(*device));
  const ops::AliasFreeSnake& layer = weights.stages.front().branches.front().front().first_activation;

  const auto shape = stages.shape("aliasfree.in");
  const std::vector<float> x = stages.f32("aliasfree.in");
  Graph graph(*device, "test");
  ggml_tensor* y = graph.output("y", ops::alias_free_snake(graph, layer, graph.input("x", x, {shape[2], shape[1]})));
  ASSERT_TRUE(graph.run().ok());
  golden::expect_within(std::string("aliasfree.out") + (GetParam() ? " fast" : " plain"),
                        golden::max_abs_diff(graph.read(y), stages.f32("aliasfree.out")), kStageTolerance);

  // The parameters themselves, through the reference's intermediates.
  const std::vector<float> phases = download(layer.up), frequency = download(layer.frequency), inverse = download(layer.inverse_magnitude);
  std::vector<float> upsampled, active;
  for (std::int64_t c = 0; c < shape[1]; ++c)
    for (std::int64_t i = 0; i < 2 * shape[2]; ++i) {
      double sum = 0;
      for (std::int64_t tap = 0; tap < 7; ++tap) {
        const std::int64_t at = std::clamp<std::int64_t>(i / 2 + tap - 3, 0, shape[2] - 1);
        sum += static_cast<double>(phases[static_cast<std::size_t>((i % 2) * 7 + tap)]) *
               static_cast<double>(x[static_cast<std::size_t>(c * shape[2] + at)]);
      }
      upsampled.push_back(static_cast<float>(sum));
      const auto channel = static_cast<std::size_t>(c);
      active.push_back(static_cast<float>(sum + std::pow(std::sin(static_cast<double>(frequency[channel]) * sum), 2) *
                                                    static_cast<double>(inverse[channel])));
    }
  golden::expect_within("aliasfree.upsampled", golden::max_abs_diff(upsampled, stages.f32("aliasfree.upsampled")), kStageTolerance);
  golden::expect_within("aliasfree.snakebeta", golden::max_abs_diff(active, stages.f32("aliasfree.snakebeta")), kStageTolerance);
}

INSTANTIATE_TEST_SUITE_P(Paths, GoldenAudioVae, testing::Bool(), [](const auto& path) { return path.param ? "Fast" : "Plain"; });

TEST(GoldenAudioVaeWeights, WeightNormIsFoldedAsInTheReferenceAndInTheComfyFile) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const auto each = stage_case(stages);
  ASSERT_TRUE(each.is_object());
  const golden::Tensors official("vae/" + each["model"].get<std::string>() + ".safetensors");
  int folded = 0;
  for (const std::string& key : stages.names()) {
    if (!key.starts_with("folded.")) continue;
    const std::string name = key.substr(7);
    const auto ours = fold_weight_norm(official.f32(name + ".weight_g"), official.f32(name + ".weight_v"));
    golden::expect_within(key, golden::max_abs_diff(ours, stages.f32(key)), 1e-6);
    ++folded;
  }
  EXPECT_GT(folded, 0);
  if (!has_comfy_file(each["model"])) return;
  const golden::Tensors comfy("vae/" + each["model"].get<std::string>() + "_comfy.safetensors");
  double worst = 0;
  for (const std::string& key : official.names())
    if (key.ends_with(".weight_g")) {
      const std::string name = key.substr(0, key.size() - 9);
      worst = std::max(
          worst, golden::max_abs_diff(fold_weight_norm(official.f32(key), official.f32(name + ".weight_v")), comfy.f32(name + ".weight")));
    }
  golden::expect_within("every folded weight of the comfy file", worst, 1e-6);
}

TEST(GoldenAudioVaeWeights, ModelsHoldTheDesignedFilters) {
  const golden::Tensors stages("vae/audio_stages.safetensors");
  const auto each = stage_case(stages);
  ASSERT_TRUE(each.is_object());
  const golden::Tensors model("vae/" + each["model"].get<std::string>() + ".safetensors");
  int filters = 0;
  for (const std::string& key : model.names()) {
    if (!key.ends_with(".filter")) continue;
    const bool up = key.ends_with("upsample.filter");
    EXPECT_LE(golden::max_abs_diff(model.f32(key), stages.f32(up ? "filter.upsample_x2_k12" : "filter.downsample_x2_k12")), 1e-7) << key;
    ++filters;
  }
  EXPECT_GT(filters, 0);
}

// The demonstration model that ships with the program.
class DemoAudioVae : public testing::Test {
 protected:
  static std::filesystem::path folder() { return std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo"; }
  AudioVaeConfig config = take(AudioVaeConfig::read(folder() / "FL2VA/audio_vae"));
  std::shared_ptr<const WeightPart> part = take(WeightPart::open(folder() / "FL2VA/audio_vae"));
};

TEST_F(DemoAudioVae, DecodesTheRecordedLatentsToTheRecordedSound) {
  int clips = 0;
  for (const bool fast : {true, false}) {
    const auto device = open_device(fast);
    const AudioDecoder decoder = take(AudioDecoder::load(*device, *part, config));
    for (const auto& entry : std::filesystem::directory_iterator(folder() / "eval/reference")) {
      if (entry.path().extension() != ".safetensors") continue;
      const Checkpoint reference = take(Checkpoint::open(entry.path()));
      const std::vector<float> latents = take(reference.read_f32("latents_audio")), waveform = take(reference.read_f32("waveform"));
      const double start = monotonic_seconds();
      const std::vector<float> ours = joined(take(decoder.decode({latents, reference.find("latents_audio")->shape.back()})));
      const double seconds = monotonic_seconds() - start, snr = -20 * std::log10(golden::rel_l2(ours, waveform));
      std::printf("demo clip %s %s: SNR %.1f dB (at least 40), largest difference %.3g, %.3f s\n", entry.path().stem().c_str(),
                  fast ? "fast" : "plain", snr, golden::max_abs_diff(ours, waveform), seconds);
      EXPECT_GE(snr, 40.0) << entry.path();
      ++clips;
    }
  }
  EXPECT_GT(clips, 0);
}

TEST_F(DemoAudioVae, ResultHasTheSameBitsForEveryNumberOfThreads) {
  const Checkpoint reference = take(Checkpoint::open(folder() / "eval/reference/0.safetensors"));
  const std::vector<float> latents = take(reference.read_f32("latents_audio"));
  for (const bool fast : {true, false}) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      const auto device = open_device(fast, threads);
      const AudioDecoder decoder = take(AudioDecoder::load(*device, *part, config));
      const auto ours = joined(take(decoder.decode({latents, reference.find("latents_audio")->shape.back()})));
      if (first.empty()) first = ours;
      EXPECT_EQ(ours, first) << threads << " threads, " << (fast ? "fast" : "plain");
    }
  }
}

}  // namespace
}  // namespace tritium::audio_vae
