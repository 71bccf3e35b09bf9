#include "server/native/translate.h"

#include "base/try.h"
#include "media/picture.h"
#include "media/reader.h"
#include "model/geometry/clip_length.h"
#include "pipeline/modes.h"
#include "server/native/acceleration.h"
#include "server/native/body.h"
#include "server/native/loras.h"
#include "server/native/media_fields.h"
#include "server/native/refusals.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::server::native {

using nlohmann::json;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 53;  // what JSON carries exactly; the engine says what it takes
constexpr std::size_t kMaxPromptCharacters = 7000;     // of the model's own service
constexpr double kShortest = 4, kLongest = 15;         // seconds, of "duration"

// What the clip takes its shape from; empty: nothing.
std::filesystem::path shaping_input(const Request& r) {
  for (const auto* file : {&r.first_frame, &r.last_frame, &r.retake.video, &r.sound_for})
    if (!file->empty()) return *file;
  return {};
}

Result<Size> size_of_input(const std::filesystem::path& file) {
  if (kind_of_file(file) == ReferenceInput::Kind::image) {
    TRITIUM_TRY_ASSIGN(const Picture picture, load_picture(file));
    return Size{picture.width, picture.height};
  }
  TRITIUM_TRY_ASSIGN(const MediaInfo info, probe_media(file));
  if (!info.video || info.video->width < 1 || info.video->height < 1) return Error{ErrorCode::usage, "the clip has no pictures", "", ""};
  return Size{info.video->width, info.video->height};
}

std::int64_t shorter_square(Size size) {
  const std::int64_t side = std::min(size.width, size.height);
  return side * side;
}

class Translator {
 public:
  Translator(const Sources& sources, Body body) : sources_(sources), fields_(std::move(body.object), body.text) {}

  Result<Translated> translate() {
    read_target();
    read_prompt();
    read_model();
    read_size();
    read_length();
    read_sampling();
    read_task();
    read_inputs();
    read_job();
    refuse_what_cannot_be(fields_, out_.asked.adjustments, out_.asked.warnings);
    decide_shape();
    if (!fields_.ok()) return *fields_.error();
    for (const std::string& sentence : fields_.unknown()) out_.asked.warnings.push_back(sentence);
    out_.spec.dialect = "videos";
    return std::move(out_);
  }

 private:
  void adjust(const std::string& field, const std::string& from, const std::string& to, const std::string& reason) {
    out_.asked.adjustments.push_back({field, from, to, reason});
  }
  void name(const char* request_field, Names names) { out_.names[request_field] = fields_.given_as(names); }

  void read_target() {
    const std::optional<json> target = fields_.object({"target"});
    if (!target) return;
    Fields t(*target, false, "target");
    target_edge_ = t.whole({"short_edge"}, 1, kHuge);
    target_aspect_ = t.text({"aspect_ratio"});
    target_seconds_ = t.number_or_text({"duration_seconds", "duration"});
    if (!t.ok()) fields_.fail(*t.error());
    for (const std::string& sentence : t.unknown()) out_.asked.warnings.push_back(sentence);
  }

  void read_prompt() {
    const auto prompt = fields_.text({"prompt"});
    if (!prompt) return fields_.refuse("prompt", "is missing", "say what to show and to hear");
    if (prompt->find_first_not_of(" \t\r\n") == std::string::npos)
      return fields_.refuse("prompt", "is empty", "say what to show and to hear");
    const auto length =
        static_cast<std::size_t>(std::count_if(prompt->begin(), prompt->end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
    if (length > kMaxPromptCharacters)
      return fields_.refuse("prompt", fmt::format("has {} characters; allowed are {}", length, kMaxPromptCharacters), "make it shorter");
    out_.spec.request.prompt = *prompt;
  }

  // Programs name the model they were written for; there is only one here.
  void read_model() {
    const auto model = fields_.text({"model"});
    if (!model || model->empty() || *model == sources_.model || *model == "MiniMax-H3" || *model == "MiniMaxAI/MiniMax-H3") return;
    adjust("model", shown(*model), sources_.model, "this server runs one model");
  }

  // "1280x720"
  void read_size_text(const std::string& text) {
    const std::size_t cross = text.find_first_of("xX*");
    const auto number = [](const std::string& digits) -> std::optional<std::int64_t> {
      if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
      return std::stoll(digits);
    };
    const auto width = cross == std::string::npos ? std::nullopt : number(text.substr(0, cross));
    const auto height = cross == std::string::npos ? std::nullopt : number(text.substr(cross + 1));
    if (!width || !height) return fields_.refuse("size", fmt::format("'{}' is not WIDTHxHEIGHT", shown(text)), "write e.g. 1344x768");
    Request& r = out_.spec.request;
    if ((r.width && *r.width != *width) || (r.height && *r.height != *height))
      return fields_.refuse("size", fmt::format("'{}' contradicts width and height", text), "give one of them");
    r.width = width;
    r.height = height;
    out_.names["width"] = out_.names["height"] = "size";
  }

  void read_size() {
    Request& r = out_.spec.request;
    r.width = fields_.whole({"width"}, -kHuge, kHuge);
    r.height = fields_.whole({"height"}, -kHuge, kHuge);
    if (const auto size = fields_.text({"size"}); size && *size != "auto") read_size_text(*size);
    if (fields_.ok() && r.width.has_value() != r.height.has_value())
      fields_.refuse(r.width ? "height" : "width", "is missing; a size has both", "give both, or aspect_ratio");
    short_edge_ = fields_.whole({"short_edge"}, 1, kHuge);
    name("short_edge", {"short_edge"});
    if (target_edge_) {
      if (short_edge_ && *short_edge_ != *target_edge_) fields_.refuse("target.short_edge", "contradicts short_edge", "give one of them");
      short_edge_ = target_edge_;
      out_.names["short_edge"] = "target.short_edge";
    }
    const Names kAspect = {"aspect_ratio", "aspect", "ratio"};
    auto aspect = fields_.text(kAspect);
    name("aspect", kAspect);
    if (target_aspect_) {
      if (aspect && *aspect != *target_aspect_) fields_.refuse("target.aspect_ratio", "contradicts aspect_ratio", "give one of them");
      aspect = target_aspect_;
      out_.names["aspect"] = "target.aspect_ratio";
    }
    r.aspect = aspect.value_or("");
    if (r.aspect == "adaptive") r.aspect = "auto";
  }

  // The inputs decide what "auto" means, so this comes last.
  void decide_shape() {
    if (!fields_.ok()) return;
    check_aspect();
    if (fields_.ok() && short_edge_) use_short_edge();
  }

  // A shape that comes with a size must be the same one, to within what rounding to multiples of 32 does.
  void check_aspect() {
    Request& r = out_.spec.request;
    if (r.aspect.empty()) return;
    const std::string field = out_.names["aspect"];
    if (r.aspect == "auto") return check_auto(field);
    const auto ratio = parse_aspect(r.aspect);
    if (!ratio.ok()) return fields_.fail({ErrorCode::usage, ratio.error().message, field, ratio.error().hint});
    if (!r.width) return;
    const auto width = static_cast<double>(*r.width), height = static_cast<double>(*r.height);
    if (std::abs(width - height * *ratio) >= kSizeStep && std::abs(height - width / *ratio) >= kSizeStep)
      return fields_.refuse(field, fmt::format("{} contradicts the size {}x{}", r.aspect, *r.width, *r.height), "give one of them");
    r.aspect.clear();
  }

  void check_auto(const std::string& field) {
    Request& r = out_.spec.request;
    const bool shaped = !shaping_input(r).empty();
    if (!r.width && !shaped && r.references.empty())
      return fields_.refuse(field, "'auto' takes the shape from a first or last frame; there is none",
                            "allowed are 21:9, 16:9, 4:3, 1:1, 3:4, 9:16 and others from 1:4 to 4:1");
    if (r.width) adjust(field, "auto", fmt::format("{}x{}", *r.width, *r.height), "a size is given");
    if (!r.width && !shaped) adjust(field, "auto", "the model's own", "references do not shape the clip");
    if (r.width || !shaped) r.aspect.clear();
  }

  // The size follows from the shorter side and the shape; the largest area changes with the square of that side.
  void use_short_edge() {
    Request& r = out_.spec.request;
    const std::string field = out_.names["short_edge"];
    const std::int64_t edge = *short_edge_;
    if (r.width) {
      if (std::min(*r.width, *r.height) != edge)
        fields_.refuse(field, fmt::format("{} contradicts the size {}x{}", edge, *r.width, *r.height), "give one of them");
      return;
    }
    if (edge < kSizeStep || edge > kMaxSide / 4)
      return fields_.refuse(field, fmt::format("{} is out of range; allowed are {} to {}", edge, kSizeStep, kMaxSide / 4));
    const Size own = sources_.default_size;
    // As the released model's canvas, whose longer side is 7/4 of the shorter one, also where the model's own is square.
    const std::int64_t area =
        std::max(edge * edge * kCanvasMaxArea / (kCanvasShortEdge * kCanvasShortEdge), edge * edge * own.area() / shorter_square(own));
    if (edge == std::min(own.width, own.height) && area == own.area()) return;  // as without it
    Size shape = own;
    if (!r.aspect.empty() && r.aspect != "auto") {
      constexpr int kFine = 100000;
      shape = {static_cast<int>(std::lround(*parse_aspect(r.aspect) * kFine)), kFine};
    } else if (const std::filesystem::path input = shaping_input(r); !input.empty()) {
      const auto size = size_of_input(input);
      if (!size.ok()) return fields_.fail({ErrorCode::usage, size.error().message, field, size.error().hint});
      shape = *size;
    }
    const double ratio = std::clamp(static_cast<double>(shape.width) / shape.height, 1 / kMaxAspectRatio, kMaxAspectRatio);
    const Size canvas = canvas_within(ratio, 1, static_cast<int>(edge), area);
    r.width = canvas.width;
    r.height = canvas.height;
    r.aspect.clear();
  }

  void read_length() {
    Request& r = out_.spec.request;
    const Names kFrames = {"num_frames", "frames"};
    const auto seconds = fields_.number_or_text({"seconds"});
    if (const json* asked = fields_.find({"seconds"})) out_.asked.seconds = asked->is_string() ? asked->get<std::string>() : asked->dump();
    const auto duration = fields_.number_or_text({"duration", "duration_seconds"});
    if (fields_.ok() && duration && !(*duration >= kShortest && *duration <= kLongest))
      fields_.refuse("duration", fmt::format("{:g} is out of range; allowed are {:g} to {:g} seconds", *duration, kShortest, kLongest),
                     "'seconds' and 'num_frames' take other lengths, too");
    r.frames = fields_.whole(kFrames, -kHuge, kHuge);
    name("frames", kFrames);
    if (!fields_.ok()) return;
    // The more particular one counts: "seconds" has a default in some clients.
    if (target_seconds_) {
      if (duration && *duration != *target_seconds_)
        return fields_.refuse("target.duration_seconds", "contradicts duration", "give one of them");
      r.seconds = target_seconds_;
      out_.names["seconds"] = "target.duration_seconds";
    } else if (duration) {
      r.seconds = duration;
      out_.names["seconds"] = fields_.given_as({"duration", "duration_seconds"});
    }
    if (seconds && r.seconds && *seconds != *r.seconds)
      adjust("seconds", fmt::format("{:g}", *seconds), fmt::format("{:g}", *r.seconds), out_.names["seconds"] + " says so");
    if (seconds && !r.seconds) r.seconds = seconds;
    if (r.frames && r.seconds) compare_lengths();
  }

  void compare_lengths() {
    Request& r = out_.spec.request;
    const auto of_frames = clip_length_from_frames(*r.frames), of_seconds = clip_length_from_seconds(*r.seconds);
    if (of_frames.ok() && of_seconds.ok() && of_frames->frames != of_seconds->frames)
      return fields_.refuse(
          out_.names["frames"],
          fmt::format("{} contradicts {:g} seconds, which are {} frames at 24 per second", *r.frames, *r.seconds, of_seconds->frames),
          "give one of them");
    if (of_frames.ok()) r.seconds.reset();  // else the engine refuses the frames
  }

  void read_sampling() {
    Request& r = out_.spec.request;
    const Names kSteps = {"num_inference_steps", "steps"}, kShift = {"flow_shift", "video_shift"},
                kAudioShift = {"audio_flow_shift", "audio_shift"};
    r.steps = fields_.whole(kSteps, -kHuge, kHuge);
    r.video_shift = fields_.number(kShift);
    r.audio_shift = fields_.number(kAudioShift);
    name("steps", kSteps);
    name("video_shift", kShift);
    name("audio_shift", kAudioShift);
    r.seed = fields_.seed({"seed"});
    if (const auto noise = fields_.choice({"noise"}, {"diffsynth", "sglang", "comfyui"})) r.noise = *noise;
    r.force = fields_.flag({"force"}).value_or(false);
    r.acceleration = read_acceleration(fields_, out_.asked.warnings);
    for (const auto& [field, name] : kAccelerationNames) out_.names[field] = name;
    read_loras(fields_, sources_.service.options().engine, r.loras, out_.asked.adjustments);
  }

  void read_task() {
    intent_.task = fields_.choice({"task"}, {"t2va", "fl2va", "ref2va"}).value_or("");
    const std::vector<json> indices = fields_.list({"frame_indices"});
    if (indices.empty()) return;
    std::vector<int> places;
    for (json index : indices) {
      if (index.is_string()) index = json::parse(index.get<std::string>(), nullptr, false);
      if (index != 0 && index != -1)
        return fields_.refuse("frame_indices", fmt::format("{} is not 0 or -1", shown(index)), "allowed are [0], [-1] and [0, -1]");
      places.push_back(index == 0 ? 0 : -1);
    }
    intent_.keyframes = places;
  }

  void read_inputs() {
    if (!fields_.ok()) return;
    Request& r = out_.spec.request;
    read_media(sources_, fields_, intent_, r);
    const auto fit = fields_.choice({"fit"}, {"cover", "contain", "stretch"}).value_or("cover");
    r.fit = fit == "contain" ? Fit::contain : fit == "stretch" ? Fit::stretch : Fit::cover;
    r.official_reference_size = fields_.choice({"reference_size"}, {"match", "official"}).value_or("match") == "official";
    if (!fields_.ok()) return;
    const auto mode = decide_mode(r);
    if (!mode.ok()) return fields_.fail(mode.error());
    const std::string made = mode_name(*mode);
    if (intent_.task.empty() || intent_.task == made) return;
    const char* needs = intent_.task == "t2va"    ? "takes no pictures, videos or sounds"
                        : intent_.task == "fl2va" ? "needs a first or last frame, and nothing else"
                                                  : "needs references, and nothing else";
    fields_.refuse("task", fmt::format("'{}' {}; this request is one for '{}'", intent_.task, needs, made),
                   "leave it out, or change the inputs");
  }

  void read_job() {
    JobSpec& spec = out_.spec;
    spec.outputs = static_cast<int>(fields_.whole({"num_outputs_per_prompt", "n", "num_outputs"}, 1, 10).value_or(1));
    spec.priority = static_cast<int>(fields_.whole({"priority"}, -100, 100).value_or(0));
    spec.deadline_seconds = fields_.number({"deadline_seconds"});
    if (spec.deadline_seconds && *spec.deadline_seconds <= 0) fields_.refuse("deadline_seconds", "is not above 0");
    spec.id = fields_.text({"id"}).value_or("");
    const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
    if (spec.id.size() > 64 || !std::all_of(spec.id.begin(), spec.id.end(), allowed))
      fields_.refuse("id", fmt::format("'{}' is not 1 to 64 letters, digits, '_' and '-'", shown(spec.id)),
                     "leave it out for one made here");
    out_.asked.user = fields_.text({"user"}).value_or("");
    spec.owner = sources_.request.owner;
    spec.idempotency_key = sources_.request.header("idempotency-key");
    if (spec.idempotency_key.size() > 255) fields_.fail({ErrorCode::usage, "is longer than 255 bytes", "Idempotency-Key", ""});
  }

  const Sources& sources_;
  Fields fields_;
  MediaIntent intent_;
  Translated out_;
  std::optional<std::int64_t> short_edge_, target_edge_;
  std::optional<std::string> target_aspect_;
  std::optional<double> target_seconds_;
};

}  // namespace

Error Translated::in_clients_words(Error error) const {
  if (const auto at = names.find(error.field); at != names.end()) error.field = at->second;
  return error;
}

Result<Translated> translate(const Sources& sources) {
  TRITIUM_TRY_ASSIGN(Body body, read_body(sources.request));
  return Translator(sources, std::move(body)).translate();
}

}  // namespace tritium::server::native
