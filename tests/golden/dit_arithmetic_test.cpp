// Exact arithmetic around the denoiser against golden/dit: schedules, shapes, packing, positions, timesteps.
// (Random numbers and what is made of them: dit_noise_test.cpp.)
#include "support/golden.h"

#include "model/dit/packing.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"
#include "sampler/schedule.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>

namespace tritium {
namespace {

using Json = nlohmann::json;

// The number that follows `word` in a key such as "steps4_shift12".
double number_after(const std::string& key, const std::string& word) {
  const auto at = key.find(word);
  EXPECT_NE(at, std::string::npos) << key << " has no '" << word << "'";
  return at == std::string::npos ? 0 : std::stod(key.substr(at + word.size()));
}

double ulps(float a, float b) {
  if (a == b) return 0;
  return std::abs(static_cast<double>(std::bit_cast<std::int32_t>(a)) - static_cast<double>(std::bit_cast<std::int32_t>(b)));
}

template <class A, class B>
double max_difference(const A& a, const B& b) {
  EXPECT_EQ(std::size(a), std::size(b));
  double worst = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(std::size(a), std::size(b)); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return worst;
}

Schedule schedule_or_fail(int steps, double shift, StepConvention convention) {
  auto made = make_schedule(steps, shift, convention);
  EXPECT_TRUE(made.ok()) << made.error().text();
  return made.ok() ? std::move(made).value() : Schedule{{0.0f}};
}

// ---- schedules -------------------------------------------------------------------------------------------------------------------

void expect_sigmas(const std::string& name, const Schedule& schedule, const Json& bits, std::size_t count) {
  ASSERT_EQ(bits.size(), count) << name;
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i)
    worst = std::max(worst, ulps(schedule.sigmas[i], std::bit_cast<float>(bits[i].get<std::uint32_t>())));
  golden::expect_within(name + " ulps", worst, 0);
}

TEST(GoldenSchedule, EvaluationsConvention) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, want] : file.at("diffsynth").items()) {
    const Schedule s =
        schedule_or_fail(static_cast<int>(number_after(key, "steps")), number_after(key, "shift"), StepConvention::evaluations);
    const auto count = static_cast<std::size_t>(s.evaluations());
    expect_sigmas("schedule diffsynth " + key, s, want.at("sigmas_bits"), count);
    double timestep = 0, time = 0, delta = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const int step = static_cast<int>(i);
      timestep = std::max(timestep, ulps(s.reported_timestep(step), want.at("timesteps")[i].get<float>()));
      time = std::max(time, std::abs(s.exact_time(step) - want.at("t")[i].get<double>()));
      delta = std::max(delta, ulps(s.next_sigma(step) - s.sigma(step), want.at("delta")[i].get<float>()));
    }
    golden::expect_within("schedule diffsynth " + key + " timestep ulps", timestep, 0);
    golden::expect_within("schedule diffsynth " + key + " t", time, 0);
    golden::expect_within("schedule diffsynth " + key + " delta ulps", delta, 0);
  }
}

TEST(GoldenSchedule, GridPointsConvention) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, want] : file.at("grid_points").items()) {
    const Schedule s =
        schedule_or_fail(static_cast<int>(number_after(key, "points")), number_after(key, "shift"), StepConvention::grid_points);
    EXPECT_EQ(s.evaluations(), want.at("evaluations").get<int>()) << key;
    expect_sigmas("schedule grid_points " + key, s, want.at("sigmas_bits"), s.sigmas.size());
  }
}

TEST(GoldenSchedule, ComfySimpleConvention) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, want] : file.at("comfy_simple").items()) {
    const Schedule s =
        schedule_or_fail(static_cast<int>(number_after(key, "steps")), number_after(key, "shift"), StepConvention::comfy_simple);
    golden::expect_within("schedule comfy_simple " + key, max_difference(s.sigmas, want.at("sigmas").get<std::vector<double>>()), 1e-7);
  }
}

TEST(GoldenSchedule, AudioFromVideo) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, want] : file.at("audio_from_video").items()) {
    const Schedule video = schedule_or_fail(static_cast<int>(number_after(key, "steps")), kVideoShift, StepConvention::evaluations);
    std::vector<double> audio;
    for (const float sigma : video.sigmas) audio.push_back(audio_sigma_of(sigma, kVideoShift, kAudioShift));
    golden::expect_within("schedule audio_from_video " + key, max_difference(audio, want.get<std::vector<double>>()), 1e-12);
  }
}

// The trap: multiplying by the slope of the audio level at the left end of a step moves the audio too far. Ours moves it by exactly 1.
TEST(GoldenSchedule, SlopeMethodOvershootsOursDoesNot) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, want] : file.at("sdcpp_slope_integral").items()) {
    const Schedule video = schedule_or_fail(static_cast<int>(number_after(key, "steps")), kVideoShift, StepConvention::evaluations);
    const Schedule audio = schedule_or_fail(video.evaluations(), kAudioShift, StepConvention::evaluations);
    double by_slope = 0, ours = 0;
    for (int i = 0; i < video.evaluations(); ++i) {
      const double sigma = video.sigma(i), below = kVideoShift - (kVideoShift - 1) * sigma, level = sigma / below;
      const double slope = kAudioShift / std::pow(1 + (kAudioShift - 1) * level, 2) * kVideoShift / (below * below);
      by_slope += slope * (sigma - static_cast<double>(video.next_sigma(i)));
      ours += static_cast<double>(audio.sigma(i)) - static_cast<double>(audio.next_sigma(i));
    }
    golden::expect_within("schedule slope integral " + key, std::abs(by_slope - want.get<double>()), 1e-5);
    golden::expect_within("schedule displacement " + key, std::abs(ours - 1), 1e-6);
  }
}

TEST(GoldenSchedule, NoUnknownParts) {
  const Json file = golden::json("dit/schedule.json");
  for (const auto& [key, value] : file.items()) {
    const bool known = key == "note" || key == "diffsynth" || key == "grid_points" || key == "comfy_simple" || key == "audio_from_video" ||
                       key == "sdcpp_slope_integral";
    EXPECT_TRUE(known) << key << " is not tested";
  }
}

// ---- shapes ----------------------------------------------------------------------------------------------------------------------

Size pair_size(const Json& width_height) { return {width_height[0].get<int>(), width_height[1].get<int>()}; }

void expect_frames(const Json& want) {
  const int requested = want.at("requested").get<int>();
  const auto clip = clip_length_from_frames(requested);
  ASSERT_TRUE(clip.ok()) << clip.error().text();
  const ClipLength expected{want.at("aligned").get<int>(), want.at("video_latents").get<int>(), want.at("audio_latents").get<int>()};
  EXPECT_EQ(*clip, expected) << requested << " frames";
  const auto back = clip_length_from_latents(expected.video_latents, expected.audio_latents);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(*back, expected);
  const auto timed = clip_length_from_seconds(clip->seconds());
  ASSERT_TRUE(timed.ok()) << timed.error().text();
  EXPECT_EQ(*timed, expected);
}

void expect_trim(const Json& want) {
  const auto frames = want.at("frames").get<std::int64_t>();
  const auto used = reference_video_frames(frames, kMaxFrames);
  if (want.at("used").is_null()) {
    EXPECT_FALSE(used.ok()) << frames;
  } else {
    ASSERT_TRUE(used.ok()) << used.error().text();
    EXPECT_EQ(*used, want.at("used").get<int>()) << frames;
  }
}

void expect_snap(const Json& want) {
  const auto size = snap_size_up(want.at("req")[1].get<int>(), want.at("req")[0].get<int>());
  const auto clip = clip_length_from_frames(want.at("frames").get<int>());
  ASSERT_TRUE(size.ok() && clip.ok());
  EXPECT_EQ((std::vector<int>{size->height, size->width, clip->frames}), want.at("out").get<std::vector<int>>());
}

int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

TEST(GoldenShapes, EveryEntry) {
  const Json file = golden::json("dit/shapes.json");
  for (const auto& [part, entries] : file.items()) {
    const int before = failures();
    ASSERT_FALSE(entries.empty()) << part;
    for (const Json& want : entries) {
      if (part == "frames") {
        expect_frames(want);
      } else if (part == "canvas") {
        const auto size = canvas_for_ratio(want.at("aspect_width").get<double>(), want.at("aspect_height").get<double>());
        ASSERT_TRUE(size.ok()) << size.error().text();
        EXPECT_EQ(*size, (Size{want.at("width").get<int>(), want.at("height").get<int>()})) << want;
      } else if (part.starts_with("ref_image_")) {
        EXPECT_EQ(scale_to_short_edge(pair_size(want.at("src")), static_cast<int>(number_after(part, "ref_image_"))),
                  pair_size(want.at("dst")))
            << want;
      } else if (part == "ref_video_trim") {
        expect_trim(want);
      } else if (part.starts_with("ref_video_")) {
        const int edge = static_cast<int>(number_after(part, "ref_video_"));
        EXPECT_EQ(scale_to_short_edge_within(pair_size(want.at("src")), edge, kCanvasMaxArea), pair_size(want.at("dst"))) << want;
      } else if (part == "snap_hw") {
        expect_snap(want);
      } else {
        ADD_FAILURE() << part << " is not tested";
      }
    }
    golden::expect_within("shapes " + part + " (" + std::to_string(entries.size()) + " entries) failed", failures() - before, 0);
  }
}

// Sizes that the text side records for the same pictures and clips.
TEST(GoldenShapes, TextSideAgrees) {
  const Json file = golden::json("text/shape_cases.json");
  const auto result = [](const Json& want) { return Size{want.at("result_width").get<int>(), want.at("result_height").get<int>()}; };
  int parts = 0;
  for (const auto& [part, entries] : file.items()) {
    const bool image = part.starts_with("reference_image_shape_short_edge_"), video = part.starts_with("reference_video_shape_");
    const bool trim = part.starts_with("reference_video_trim_"), canvas = part.starts_with("diffusers_canvas_");
    if (!image && !video && !trim && !canvas) continue;  // sizes for the vision tower
    ++parts;
    const int before = failures();
    const std::string numbers = part.substr(part.find_first_of("0123456789"));
    const int edge = std::stoi(numbers);
    const std::int64_t area = numbers.find('_') == std::string::npos || trim ? 0 : std::stoll(numbers.substr(numbers.find('_') + 1));
    for (const Json& want : entries) {
      if (trim) {
        expect_trim(want);
        continue;
      }
      const Size source{want.at("width").get<int>(), want.at("height").get<int>()};
      const Size size = image   ? scale_to_short_edge(source, edge)
                        : video ? scale_to_short_edge_within(source, edge, area)
                                : canvas_within(source.width, source.height, edge, area);
      EXPECT_EQ(size, result(want)) << part << " " << want;
    }
    golden::expect_within("text shapes " + part + " (" + std::to_string(entries.size()) + " entries) failed", failures() - before, 0);
  }
  EXPECT_GT(parts, 0);
}

// ---- packing ---------------------------------------------------------------------------------------------------------------------

Reference reference_of(const Json& json) {
  const std::string kind = json.at("kind").get<std::string>();
  Reference out;
  if (kind != "audio") {
    out.visual.frames = json.at("latent_t").get<int>();
    out.visual.height = json.at("latent_h").get<int>();
    out.visual.width = json.at("latent_w").get<int>();
  }
  if (kind == "image") return out;
  out.kind = kind == "audio" ? ReferenceKind::audio : ReferenceKind::video;
  EXPECT_TRUE(kind == "audio" || kind == "video" || kind == "video_audio") << kind;
  out.audio_latents = json.at("ref_audio_t").get<int>();
  return out;
}

void add_conditions(const Json& json, PackingRequest& request) {
  if (!json.at("keyframe_indices").is_null()) request.keyframes = json.at("keyframe_indices").get<std::vector<int>>();
  if (json.contains("refs") && !json.at("refs").is_null())
    for (const Json& reference : json.at("refs")) request.references.push_back(reference_of(reference));
}

PackingRequest request_of(const Json& json) {
  PackingRequest request;
  request.text_tags.assign(json.at("text_len").get<std::size_t>(), Modality::text);
  request.video.frames = json.at("latent_t").get<int>();
  request.video.height = json.at("latent_h").get<int>();
  request.video.width = json.at("latent_w").get<int>();
  request.audio_latents = json.at("audio_t").get<int>();
  add_conditions(json, request);
  return request;
}

PackedLayout layout_or_fail(const PackingRequest& request) {
  auto layout = make_layout(request);
  EXPECT_TRUE(layout.ok()) << layout.error().text();
  return layout.ok() ? std::move(layout).value() : PackedLayout{{Segment{}, Segment{}, Segment{}}, {}, {}, {}, 0};
}

// Number of values in which the used rows differ from the file, or in which its padding is not what padding is.
double count_position_errors(const std::vector<Position>& ours, const std::vector<float>& file) {
  double wrong = file.size() < ours.size() * 3 ? static_cast<double>(ours.size()) : 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const float want = i / 3 < ours.size() ? ours[i / 3][i % 3] : 0.0f;
    if (want != file[i]) ++wrong;
  }
  return wrong;
}

double count_tag_errors(const std::vector<Modality>& ours, const std::vector<std::int64_t>& file) {
  double wrong = file.size() < ours.size() ? static_cast<double>(ours.size()) : 0;
  for (std::size_t i = 0; i < file.size(); ++i)
    if (file[i] != (i < ours.size() ? static_cast<std::int64_t>(ours[i]) : -1)) ++wrong;
  return wrong;
}

std::vector<std::int64_t> widened(const std::vector<std::int32_t>& rows) { return {rows.begin(), rows.end()}; }

void expect_rows(const std::string& name, const PackedLayout& layout, const golden::Tensors& file, const std::string& prefix) {
  golden::expect_within(name + " positions", count_position_errors(layout.positions, file.f32(prefix + "position_ids")), 0);
  golden::expect_within(name + " tags", count_tag_errors(layout.tags, file.i64(prefix + "token_tags")), 0);
  EXPECT_EQ(widened(visual_rows(layout)), file.i64(prefix + "img_pos")) << name;
  EXPECT_EQ(widened(audio_rows(layout)), file.i64(prefix + "audio_pos")) << name;
}

void expect_counts(const std::string& name, const PackedLayout& layout, const Json& want) {
  constexpr int kPadding = 64;  // the references pad the sequence to a multiple of this
  EXPECT_EQ(layout.rows(), want.at("used").get<int>()) << name;
  EXPECT_EQ((layout.rows() + kPadding - 1) / kPadding * kPadding, want.at("seq_len").get<int>()) << name;
  const auto check = [&](const char* key, const auto& ours) {
    if (!want.contains(key)) return;
    EXPECT_EQ(ours, want.at(key).get<std::decay_t<decltype(ours)>>()) << name << " " << key;
  };
  check("cu_seqlens", std::vector<int>{0, layout.rows(), want.at("seq_len").get<int>()});
  check("n_img_rows", visual_rows(layout).size());
  check("n_audio_rows", audio_rows(layout).size());
  check("first_video_row", layout.target_video().first);
  check("first_audio_row", layout.target_audio().first);
}

// Real sizes: the file has the axes of the target and a few single rows instead of all positions.
void expect_summary(const std::string& name, const PackingRequest& request, const PackedLayout& layout, const Json& want) {
  constexpr double kExact64 = 1e-13;
  const auto rows = exact_positions(request);
  ASSERT_TRUE(rows.ok());
  const auto at = [&](int row) { return (*rows)[static_cast<std::size_t>(row)]; };
  const int first = layout.target_video().first, columns = request.video.width / kPatch;
  std::vector<double> t, h, w, keyframes;
  for (int k = 0; k < request.video.frames; ++k) t.push_back(at(first + k * request.video.rows_per_frame())[0]);
  for (int y = 0; y < request.video.height / kPatch; ++y) h.push_back(at(first + y * columns)[1]);
  for (int x = 0; x < columns; ++x) w.push_back(at(first + x)[2]);
  for (const Segment& segment : layout.segments)
    if (segment.role == RowRole::keyframe) keyframes.push_back(at(segment.first)[0]);
  const auto check = [&](const char* key, const auto& ours) {
    golden::expect_within(name + " " + key, max_difference(ours, want.at(key).get<std::vector<double>>()), kExact64);
  };
  check("video_t", t);
  check("h_axis", h);
  check("w_axis", w);
  if (want.contains("keyframe_t")) check("keyframe_t", keyframes);
  const int audio = layout.target_audio().first;
  check("audio_first", at(audio));
  check("audio_last", at(layout.target_audio().end() - 1));
  check("audio_ch1_first", at(audio + request.audio_latents));
}

void expect_full(const std::string& name, const PackingRequest& request, const PackedLayout& layout, const golden::Tensors& file) {
  const std::string prefix = name + ".";
  expect_rows("packing " + name, layout, file, prefix);
  EXPECT_EQ(widened(text_rows(layout)), file.i64(prefix + "text_pos")) << name;
  const auto ends = file.i64(prefix + "cu_seqlens");
  ASSERT_EQ(ends.size(), 3u) << name;
  EXPECT_EQ(ends[1], layout.rows()) << name;
  EXPECT_EQ(ends[2], file.shape(prefix + "position_ids")[0]) << name;
  const auto exact = exact_positions(request);
  ASSERT_TRUE(exact.ok());
  std::vector<double> flat;
  for (const auto& position : *exact) flat.insert(flat.end(), position.begin(), position.end());
  auto wide = file.f64(prefix + "position_ids_f64");
  flat.resize(wide.size(), 0.0);  // padding is at the origin
  golden::expect_within("packing " + name + " positions in double", max_difference(flat, wide), 1e-13);
}

TEST(GoldenPacking, EveryCase) {
  const Json cases = golden::json("dit/packing_cases.json");
  const golden::Tensors file("dit/packing_cases.safetensors");
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, want] : cases.items()) {
    const PackingRequest request = request_of(want);
    const auto clip = clip_length_from_frames(want.at("num_frames").get<int>());
    ASSERT_TRUE(clip.ok());
    EXPECT_EQ(clip->video_latents, request.video.frames) << name;
    EXPECT_EQ(clip->audio_latents, request.audio_latents) << name;
    const PackedLayout layout = layout_or_fail(request);
    expect_counts(name, layout, want);
    const bool full = file.has(name + ".position_ids"), summary = want.contains("video_t");
    EXPECT_TRUE(full || summary) << name << " has neither rows nor a summary";
    if (full) expect_full(name, request, layout, file);
    if (summary) expect_summary("packing " + name, request, layout, want);
  }
}

// The complete forward cases: text tags applied, retake masks, times.
PackingRequest request_of_forward(const std::string& name, const Json& want, const golden::Tensors& file) {
  PackingRequest request;
  for (const std::int64_t tag : file.i64(name + ".in.text_tags")) request.text_tags.push_back(static_cast<Modality>(tag));
  const auto video = file.shape(name + ".in.video_latents");
  request.video = {static_cast<int>(video[1]), static_cast<int>(video[2]), static_cast<int>(video[3]), static_cast<int>(video[4])};
  request.audio_latents = static_cast<int>(file.shape(name + ".in.audio_latents").back());
  add_conditions(want, request);
  return request;
}

TEST(GoldenPacking, ForwardCasesWithTextTags) {
  const Json cases = golden::json("dit/tiny_dit.json").at("cases");
  const golden::Tensors file("dit/tiny_dit_cases.safetensors");
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, want] : cases.items()) {
    const PackedLayout layout = layout_or_fail(request_of_forward(name, want, file));
    expect_counts(name, layout, want);
    expect_rows("forward case " + name, layout, file, name + ".pack.");
  }
}

// The captured intermediates name the distinct times and, per row, time and table row (time*3 + modality).
TEST(GoldenPacking, TimestepsOfTheCapturedCase) {
  if (!golden::has("dit/tiny_dit_mid.safetensors")) GTEST_SKIP() << "this tree holds no intermediates";
  const Json cases = golden::json("dit/tiny_dit.json").at("cases");
  const golden::Tensors inputs("dit/tiny_dit_cases.safetensors");
  const golden::Tensors mid("dit/tiny_dit_mid.safetensors");
  int captured = 0;
  for (const auto& [name, want] : cases.items()) {
    const std::string prefix = name + ".mid.";
    if (!mid.has(prefix + "unique_timesteps")) continue;
    ++captured;
    const PackedLayout layout = layout_or_fail(request_of_forward(name, want, inputs));
    const auto time = [&want](const char* key) { return static_cast<float>(1.0 - want.at(key).get<double>() / 1000.0); };
    const auto rows = assign_timesteps(layout, time("timestep_video"), time("timestep_audio"));
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    EXPECT_EQ(rows->values, mid.f32(prefix + "unique_timesteps")) << name;
    const auto index = mid.i64(prefix + "inverse_indices"), table = mid.i64(prefix + "combined_indices");
    double wrong = 0;
    for (std::size_t row = 0; row < rows->index.size(); ++row) wrong += rows->index[row] != index.at(row);
    for (const ModulationRun& run : rows->runs)
      for (int row = run.first; row < run.first + run.rows; ++row) wrong += run.table_row() != table.at(static_cast<std::size_t>(row));
    golden::expect_within("timesteps " + name + " rows wrong", wrong, 0);
  }
  EXPECT_GT(captured, 0);
}

}  // namespace
}  // namespace tritium
