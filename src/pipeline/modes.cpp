#include "pipeline/modes.h"

#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include <vector>

namespace tritium {
namespace {

Error usage(std::string field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

// A whole positive number with nothing behind it.
bool parse_positive(std::string_view text, double& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && end == text.data() + text.size() && std::isfinite(out) && out > 0;
}

}  // namespace

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::t2va:
      return "t2va";
    case Mode::fl2va:
      return "fl2va";
    case Mode::ref2va:
      return "ref2va";
    case Mode::retake:
      return "retake";
    case Mode::sound_for_video:
      return "sound_for_video";
    case Mode::video_for_sound:
      return "video_for_sound";
  }
  return "?";
}

Result<Mode> decide_mode(const Request& r) {
  struct Given {
    const char* field;
    Mode mode;
  };
  std::vector<Given> given;
  if (!r.first_frame.empty()) given.push_back({"first_frame", Mode::fl2va});
  if (!r.last_frame.empty()) given.push_back({"last_frame", Mode::fl2va});
  if (!r.references.empty()) given.push_back({"references", Mode::ref2va});
  if (!r.retake.video.empty()) given.push_back({"retake", Mode::retake});
  if (!r.sound_for.empty()) given.push_back({"sound_for", Mode::sound_for_video});
  if (!r.video_for.empty()) given.push_back({"video_for", Mode::video_for_sound});
  if (r.retake.video.empty() && (!r.retake.frames.empty() || !r.retake.seconds.empty()))
    return usage(r.retake.frames.empty() ? "retake_seconds" : "retake_frames", "needs the clip to retake", "name it with --retake VIDEO");
  if (!r.retake.video.empty() && r.retake.frames.empty() && r.retake.seconds.empty())
    return usage("retake", "nothing to regenerate", "give --retake-frames A:B for the pictures or --retake-seconds A:B for the sound");
  for (const Given& each : given)
    if (each.mode != given.front().mode)
      return usage(each.field, fmt::format("cannot be combined with {}", given.front().field), "ask for one of them");
  for (const ReferenceInput& reference : r.references) {
    if (reference.file.empty()) return usage("references", "a reference without a file");
    if (reference.kind != ReferenceInput::Kind::video && (!reference.sound.empty() || reference.silent))
      return usage("references", fmt::format("'{}' is not a video: a sound cannot be given for it", reference.file.string()));
    if (reference.silent && !reference.sound.empty())
      return usage("references", fmt::format("'{}' is to be silent and to have another sound", reference.file.string()));
  }
  return given.empty() ? Mode::t2va : given.front().mode;
}

Result<void> check_partition(Mode mode, Partition partition) {
  const Partition needed = mode == Mode::ref2va ? Partition::ref2va : Partition::fl2va;
  if (partition == needed) return {};
  const char* name = needed == Partition::ref2va ? "Ref2VA" : "FL2VA";
  const char* other = needed == Partition::ref2va ? "FL2VA" : "Ref2VA";
  return Error{ErrorCode::model,
               fmt::format("this is the {} model; {} the {} model", other,
                           needed == Partition::ref2va ? "references need" : "this request needs", name),
               "model", fmt::format("name the {} model with -m or --dit", name)};
}

Result<double> parse_aspect(const std::string& text) {
  const std::size_t colon = text.find(':');
  double width = 0, height = 1;
  const bool valid = colon == std::string::npos ? parse_positive(text, width)
                                                : parse_positive(std::string_view(text).substr(0, colon), width) &&
                                                      parse_positive(std::string_view(text).substr(colon + 1), height);
  const double ratio = width / height;
  if (!valid || !std::isfinite(ratio) || ratio > 4 || ratio < 0.25)
    return usage("aspect", fmt::format("'{}' is not a ratio between 1:4 and 4:1", text), "write e.g. 16:9, 1:1 or auto");
  return ratio;
}

}  // namespace tritium
