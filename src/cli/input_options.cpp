#include "cli/input_options.h"

#include "base/try.h"
#include "cli/common.h"

#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include <map>

namespace tritium::cli {
namespace {

Error usage(std::string field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

// "A:B" with A < B.
template <class Number>
Result<std::array<Number, 2>> parse_range(const std::string& text, const char* field) {
  std::array<Number, 2> range{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto [next, code] = std::from_chars(at, end, range[i]);
    const bool ended = i == 0 ? next != end && *next == ':' : next == end;
    if (code != std::errc() || !ended) return usage(field, fmt::format("'{}' is not a range", text), "write A:B, the end not included");
    at = next + 1;
  }
  if (!(range[0] >= 0 && range[0] < range[1]) || !std::isfinite(static_cast<double>(range[1])))
    return usage(field, fmt::format("'{}' is empty or starts before 0", text), "write A:B with 0 <= A < B");
  return range;
}

// The references in the order in which the options stand on the command line; a sound for a video belongs to the video before it.
Result<std::vector<ReferenceInput>> read_references(const InputOptions& o) {
  using Kind = ReferenceInput::Kind;
  std::vector<ReferenceInput> out;
  std::map<const CLI::Option*, std::size_t> next;
  for (const CLI::Option* option : o.app->parse_order()) {
    const std::string name = option->get_single_name();
    const bool sound_of_video = name == "ref-video-sound";
    if (name != "ref-image" && name != "ref-video" && name != "ref-audio" && !sound_of_video) continue;
    const std::string& value = option->results().at(next[option]++);
    if (!sound_of_video) {
      out.push_back({name == "ref-image" ? Kind::image : name == "ref-video" ? Kind::video : Kind::audio, value, {}, false});
      continue;
    }
    if (out.empty() || out.back().kind != Kind::video)
      return usage("ref-video-sound", "does not follow a --ref-video", "give it directly behind the video it belongs to");
    if (value == "none")
      out.back().silent = true;
    else
      out.back().sound = value;
  }
  return out;
}

}  // namespace

void add_input_options(CLI::App& app, InputOptions& o) {
  o.app = &app;
  const char* group = "Pictures, videos and sounds";
  const auto option = [&](const char* name, auto& target, const char* help) { return app.add_option(name, target, help)->group(group); };
  const auto file = [&](const char* name, auto& target, const char* help) { return option(name, target, help)->check(not_empty()); };
  file("--first-frame", o.first_frame, "Picture the clip starts with");
  file("--last-frame", o.last_frame, "Picture the clip ends with");
  file("--ref-image", o.images, "Picture to refer to as <Picture N> (Ref2VA model); repeatable")->take_all()->expected(1);
  file("--ref-video", o.videos, "Video to refer to as <Video N>, its sound as <Audio N>; repeatable")->take_all()->expected(1);
  file("--ref-video-sound", o.video_sounds, "Sound in place of that of the --ref-video before it; none = silent")->take_all()->expected(1);
  file("--ref-audio", o.sounds, "Sound to refer to as <Audio N>; repeatable")->take_all()->expected(1);
  option("--ref-size", o.reference_size,
         "References at most as large as the clip (match), or scaled as the official pipelines do (official)")
      ->check(CLI::IsMember({"match", "official"}));
  file("--retake", o.retake, "Clip of which parts are made anew");
  option("--retake-frames", o.retake_frames, "Pictures to make anew, A:B at 24 per second; repeatable")->take_all()->expected(1);
  option("--retake-seconds", o.retake_seconds, "Sound to make anew, A:B in seconds; repeatable")->take_all()->expected(1);
  file("--sound-for", o.sound_for, "Video to keep and to make sound for");
  file("--video-for", o.video_for, "Sound to keep and to make a video for");
  option("--fit", o.fit, "How a picture of another shape fills the clip: cover, contain or stretch")
      ->check(CLI::IsMember({"cover", "contain", "stretch"}));
  option("--aspect", o.aspect, "Shape of the clip, W:H; auto = that of the first picture or clip (the default where there is one)");
}

Result<void> read_input_options(const InputOptions& o, Request& r) {
  r.first_frame = o.first_frame;
  r.last_frame = o.last_frame;
  r.retake.video = o.retake;
  r.sound_for = o.sound_for;
  r.video_for = o.video_for;
  r.fit = o.fit == "contain" ? Fit::contain : o.fit == "stretch" ? Fit::stretch : Fit::cover;
  r.aspect = o.aspect;
  r.official_reference_size = o.reference_size == "official";
  TRITIUM_TRY_ASSIGN(r.references, read_references(o));
  for (const std::string& text : o.retake_frames) {
    TRITIUM_TRY_ASSIGN(const auto range, parse_range<std::int64_t>(text, "retake-frames"));
    r.retake.frames.push_back(range);
  }
  for (const std::string& text : o.retake_seconds) {
    TRITIUM_TRY_ASSIGN(const auto range, parse_range<double>(text, "retake-seconds"));
    r.retake.seconds.push_back(range);
  }
  return {};
}

}  // namespace tritium::cli
