// Synthetic models as a whole: the released dimensions, what a folder opens as, and wishes that are refused.
#include "pipeline/synth_model.h"
#include "pipeline/model_info.h"
#include "pipeline/released_model.h"
#include "pipeline/synth_tensors.h"
#include "unit/temp_folder.h"
#include "weights/convert/plan.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <set>

namespace tritium {
namespace {

namespace fs = std::filesystem;

std::uint64_t natural_bytes(const std::vector<SynthTensor>& tensors) {
  std::uint64_t sum = 0;
  for (const SynthTensor& t : tensors) sum += *stored_bytes(t.natural, t.shape);
  return sum;
}

bool all_different(const std::vector<SynthTensor>& tensors) {
  std::set<std::string> names;
  for (const SynthTensor& t : tensors) names.insert(t.name);
  return names.size() == tensors.size();
}

SynthModelOptions options_of(const std::string& preset, const std::string& format) {
  SynthModelOptions out;
  out.preset = preset;
  out.demo = TRITIUM_SOURCE_DIR "/models/demo";
  out.format = *target_format(format);
  out.threads = 2;
  return out;
}

// Sums published with the official files: spec/dit.md §2.1, §3, spec/weights.md §1.
TEST(SynthModel, ReleasedDimensionsGiveThePublishedSizes) {
  DitConfig c;
  c.hidden = c.time_hidden = 5376;
  c.heads = 56;
  c.head_dim = 128;
  c.ffn = 14336;
  c.text_dim = 5120;
  c.video_features = 96;
  c.audio_features = 32;
  c.time_input = 256;
  c.time_dim = 2688;
  c.rope_frequencies = 16;
  c.layers = 50;
  c.refiner_layers = 2;
  const std::vector<SynthTensor> full = synth_dit(c);
  EXPECT_EQ(full.size(), 535u);
  EXPECT_EQ(natural_bytes(full), 66'280'430'144u);
  c.time_dim = 8;
  c.curve_points = 1025;
  EXPECT_EQ(synth_dit(c).size(), 532u);

  const auto text = parse_text_config(released_text_config());
  const auto vision = parse_vision_config(released_text_config());
  ASSERT_TRUE(text.ok() && vision.ok());
  EXPECT_EQ(synth_text(*text, *vision).size(), 902u);

  const auto video = video_vae::VideoVaeConfig::parse(released_video_vae_config(), released_video_vae_source());
  const auto audio = audio_vae::AudioVaeConfig::parse(released_audio_vae_config());
  ASSERT_TRUE(video.ok() && audio.ok());
  EXPECT_EQ(synth_video_vae(*video).size(), 560u);
  EXPECT_EQ(synth_audio_vae(*audio).size(), 1087u);
  for (const auto& tensors : {full, synth_text(*text, *vision), synth_video_vae(*video), synth_audio_vae(*audio)})
    EXPECT_TRUE(all_different(tensors));
}

// Names and shapes are those of a real checkpoint, here the demonstration model's.
TEST(SynthModel, TheDemoPresetHasTheDemoModelsTensors) {
  const test::TempFolder folder;
  const SynthModelOptions options = options_of("demo", "bf16");
  const auto files = write_synthetic_model(folder.path(), options);
  ASSERT_TRUE(files.ok()) << files.error().text();
  ASSERT_EQ(files->size(), 4u);
  const auto made = open_model(folder.path()), demo = open_model(options.demo);
  ASSERT_TRUE(made.ok()) << made.error().text();
  ASSERT_TRUE(demo.ok()) << demo.error().text();
  EXPECT_EQ(made->name, "Synthetic");
  using Part = std::shared_ptr<const WeightPart> ModelInfo::*;
  for (const Part part : {&ModelInfo::dit, &ModelInfo::text, &ModelInfo::video_vae, &ModelInfo::audio_vae}) {
    const PartKind kind = part == &ModelInfo::text ? PartKind::text : PartKind::dit;
    for (const std::string& name : convertible_names(kind, *((*demo).*part))) {
      const auto shape = ((*made).*part)->shape(name);
      ASSERT_TRUE(shape) << name;
      EXPECT_EQ(shape_text(*shape), shape_text(*((*demo).*part)->shape(name))) << name;
    }
  }
}

TEST(SynthModel, DimensionsCanBeChanged) {
  const test::TempFolder folder;
  SynthModelOptions options = options_of("tiny", "int8-convrot");
  options.set = {{"dit.num_layers", "3"}, {"dit.hidden_size", "128"}, {"text.text_config.hidden_size", "96"}};
  options.prune_rank = 4;
  options.vocabulary = 1000;
  const auto files = write_synthetic_model(folder.path(), options);
  ASSERT_TRUE(files.ok()) << files.error().text();
  const auto made = open_model(folder.path());
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->dit_config.layers, 3);
  EXPECT_EQ(made->dit_config.hidden, 128);
  EXPECT_EQ(made->dit_config.text_dim, 96);
  EXPECT_EQ(made->dit_config.time_dim, 4);
  EXPECT_TRUE(made->dit_config.pruned());
  EXPECT_EQ(made->text_config.vocabulary, 1000);
}

TEST(SynthModel, RefusesWhatItDoesNotKnow) {
  const test::TempFolder folder;
  const auto refused = [&](const std::string& field, auto change) {
    SynthModelOptions options = options_of("tiny", "bf16");
    change(options);
    const auto files = write_synthetic_model(folder.path() / "model", options);
    ASSERT_FALSE(files.ok());
    EXPECT_EQ(files.error().code, ErrorCode::usage);
    EXPECT_EQ(files.error().field, field);
  };
  refused("preset", [](SynthModelOptions& o) { o.preset = "huge"; });
  refused("set", [](SynthModelOptions& o) { o.set = {{"dit.layers", "3"}}; });
  refused("set", [](SynthModelOptions& o) { o.set = {{"num_layers", "3"}}; });
  refused("set", [](SynthModelOptions& o) { o.set = {{"dit.num_layers", "three"}}; });
  refused("set", [](SynthModelOptions& o) { o.set = {{"dit.num_layers", "\"3\""}}; });
  refused("set", [](SynthModelOptions& o) { o.set = {{"dit.num_layers", "0"}}; });
  refused("vocabulary", [](SynthModelOptions& o) { o.vocabulary = 5; });
}

}  // namespace
}  // namespace tritium
