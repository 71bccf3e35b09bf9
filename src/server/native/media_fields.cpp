#include "server/native/media_fields.h"

#include "base/try.h"
#include "server/native/body.h"

#include <fmt/format.h>
#include <array>
#include <fstream>

namespace tritium::server::native {
namespace fs = std::filesystem;

using nlohmann::json;
using Kind = ReferenceInput::Kind;

namespace {

Error usage(std::string field, std::string message, std::string hint = {}) {
  return {ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

// A file whose part is not said outright.
struct Loose {
  std::string uri, field;
  std::optional<Kind> kind;
};

// "..." or {"image_url": "..."}; an address may again be an object with "url".
std::optional<Loose> loose_of(Fields& fields, const json& value, const std::string& field, std::optional<Kind> kind) {
  if (value.is_string()) return Loose{value.get<std::string>(), field, kind};
  if (!value.is_object()) {
    fields.fail(usage(field, fmt::format("is {}, not an address or a file", kind_of(value)), "write {\"image_url\": \"data:...\"}"));
    return std::nullopt;
  }
  if (value.contains("file_id"))
    fields.fail(
        usage(field, "file_id names an upload of another service; there are none here", "send the file in a form, or as a data: URL"));
  const std::pair<const char*, std::optional<Kind>> keys[] = {
      {"image_url", Kind::image}, {"video_url", Kind::video}, {"audio_url", Kind::audio}, {"url", kind}, {"uri", kind}};
  for (const auto& [key, meant] : keys) {
    const auto at = value.find(key);
    if (at == value.end() || at->is_null()) continue;
    const json& address = at->is_object() && at->contains("url") ? (*at)["url"] : *at;
    if (address.is_string()) return Loose{address.get<std::string>(), field, meant};
    fields.fail(usage(field + "." + key, fmt::format("is {}, not a text", kind_of(address))));
    return std::nullopt;
  }
  fields.fail(usage(field, "has none of image_url, video_url, audio_url and url"));
  return std::nullopt;
}

class Reader {
 public:
  Reader(const Sources& sources, Fields& fields, const MediaIntent& intent, Request& request)
      : sources_(sources), fields_(fields), intent_(intent), request_(request) {}

  void read() {
    read_conditions();
    read_loose();
    read_named();
    if (intent_.keyframes && request_.first_frame.empty() && request_.last_frame.empty())
      fields_.refuse("frame_indices", "needs a picture for every frame", "give input_reference, or input_references twice");
  }

 private:
  fs::path file(const std::string& uri, const std::string& field) {
    if (!fields_.ok()) return {};
    // A part of the form that something points to was meant.
    if (uri.starts_with("form:")) fields_.known(uri.substr(5, uri.find_first_of("[#", 5) - 5));
    auto out = resolve(sources_, uri, field);
    if (out.ok()) return std::move(out).value();
    fields_.fail(out.error());
    return {};
  }

  void set_keyframe(int index, const std::string& uri, const std::string& field) {
    fs::path& target = index == 0 ? request_.first_frame : request_.last_frame;
    if (!target.empty()) return fields_.fail(usage(field, fmt::format("the {} frame is given twice", index == 0 ? "first" : "last")));
    target = file(uri, field);
  }

  void read_conditions() {
    const std::vector<json> conditions = fields_.list({"conditions"});
    for (std::size_t i = 0; i < conditions.size() && fields_.ok(); ++i) read_condition(conditions[i], fmt::format("conditions[{}]", i));
  }

  void read_condition(const json& value, const std::string& where) {
    if (!value.is_object()) return fields_.fail(usage(where, fmt::format("is {}, not an object", kind_of(value))));
    Fields c(value, false, where);
    const auto type = c.choice({"type"}, {"image", "video", "video_audio", "audio"});
    const auto uri = c.text({"uri", "url"});
    const auto role = c.choice({"role"}, {"keyframe", "reference"});
    const auto index = c.whole({"frame_index"}, -1, 0);
    if (c.number({"start_time_seconds"}).value_or(0) != 0)
      c.refuse("start_time_seconds", "inputs are used from their beginning; allowed is 0", "cut the file before sending it");
    if (!type) c.refuse("type", "is missing; allowed are image, video, video_audio and audio");
    if (!uri) c.refuse("uri", "is missing", "give a data: URL, or form:NAME for a file of the same form");
    if (c.ok() && !role && intent_.task.empty()) c.refuse("role", "is missing; allowed are keyframe and reference");
    if (!c.ok()) return fields_.fail(*c.error());
    const bool keyframe = role ? *role == "keyframe" : intent_.task == "fl2va";
    if (keyframe && *type != "image")
      return fields_.fail(
          usage(where + ".type", fmt::format("'{}' cannot be a keyframe; allowed is image", *type), "give it the role reference"));
    if (!keyframe && index)
      return fields_.fail(
          usage(where + ".frame_index", "is for keyframes; this is a reference", "leave it out, or give the role keyframe"));
    if (keyframe) return set_keyframe(static_cast<int>(index.value_or(0)), *uri, where + ".uri");
    const Kind kind = *type == "image" ? Kind::image : *type == "audio" ? Kind::audio : Kind::video;
    request_.references.push_back({kind, file(*uri, where + ".uri"), {}, false});
  }

  void add_loose(Names names, std::optional<Kind> kind) {
    const std::vector<json> values = fields_.list(names);
    const std::string field = fields_.given_as(names);
    for (std::size_t i = 0; i < values.size() && fields_.ok(); ++i)
      if (auto one = loose_of(fields_, values[i], values.size() > 1 ? fmt::format("{}[{}]", field, i) : field, kind))
        loose_.push_back(std::move(*one));
  }

  void read_loose() {
    add_loose({"input_reference"}, std::nullopt);
    add_loose({"input_references"}, std::nullopt);
    add_loose({"reference_url"}, std::nullopt);
    add_loose({"image_reference"}, Kind::image);
    add_loose({"video_reference"}, Kind::video);
    add_loose({"audio_reference"}, Kind::audio);
    if (loose_.empty() || !fields_.ok()) return;
    std::vector<ReferenceInput> files;
    bool pictures_only = true;
    for (const Loose& one : loose_) {
      const fs::path path = file(one.uri, one.field);
      if (!fields_.ok()) return;
      const Kind kind = one.kind.value_or(kind_of_file(path));
      pictures_only = pictures_only && kind == Kind::image;
      files.push_back({kind, path, {}, false});
    }
    const bool keyframes = intent_.task == "fl2va" || intent_.keyframes || (intent_.task.empty() && pictures_only && files.size() == 1);
    if (intent_.task.empty() && !keyframes && pictures_only)
      return fields_.fail(usage(loose_[1].field, "several pictures may be frames of the clip or references",
                                "say task \"fl2va\" or \"ref2va\", or frame_indices"));
    if (!keyframes) {
      request_.references.insert(request_.references.end(), files.begin(), files.end());
      return;
    }
    if (!pictures_only) return fields_.fail(usage(loose_[0].field, "only pictures can be frames of the clip", "say task \"ref2va\""));
    place_keyframes(files);
  }

  void place_keyframes(const std::vector<ReferenceInput>& files) {
    std::vector<int> places = intent_.keyframes.value_or(files.size() == 1 ? std::vector<int>{0} : std::vector<int>{0, -1});
    if (files.size() != places.size())
      return fields_.fail(
          usage(intent_.keyframes ? "frame_indices" : loose_.back().field,
                fmt::format("{} pictures for {} frames; a clip has a first and a last frame", files.size(), places.size())));
    for (std::size_t i = 0; i < files.size(); ++i) {
      fs::path& target = places[i] == 0 ? request_.first_frame : request_.last_frame;
      if (!target.empty())
        return fields_.fail(usage(loose_[i].field, fmt::format("the {} frame is given twice", places[i] == 0 ? "first" : "last")));
      target = files[i].file;
    }
  }

  void read_named() {
    if (const auto uri = fields_.text({"first_frame"})) set_keyframe(0, *uri, "first_frame");
    if (const auto uri = fields_.text({"last_frame"})) set_keyframe(-1, *uri, "last_frame");
    if (const auto uri = fields_.text({"sound_for"})) request_.sound_for = file(*uri, "sound_for");
    if (const auto uri = fields_.text({"video_for"})) request_.video_for = file(*uri, "video_for");
    const std::vector<json> references = fields_.list({"references"});
    for (std::size_t i = 0; i < references.size() && fields_.ok(); ++i) read_reference(references[i], fmt::format("references[{}]", i));
    if (const auto retake = fields_.object({"retake"})) read_retake(*retake);
  }

  void read_reference(const json& value, const std::string& where) {
    if (!value.is_object()) return fields_.fail(usage(where, fmt::format("is {}, not an object", kind_of(value))));
    Fields r(value, false, where);
    const auto type = r.choice({"type", "kind"}, {"image", "video", "audio"});
    const auto uri = r.text({"uri", "url"});
    const auto sound = r.text({"sound"});
    const bool silent = r.flag({"silent"}).value_or(false);
    if (!type) r.refuse("type", "is missing; allowed are image, video and audio");
    if (!uri) r.refuse("uri", "is missing");
    if (!r.ok()) return fields_.fail(*r.error());
    ReferenceInput out{*type == "image"   ? Kind::image
                       : *type == "video" ? Kind::video
                                          : Kind::audio,
                       file(*uri, where + ".uri"),
                       {},
                       silent};
    if (sound) out.sound = file(*sound, where + ".sound");
    request_.references.push_back(std::move(out));
  }

  void read_retake(const json& value) {
    Fields r(value, false, "retake");
    const auto video = r.text({"video"});
    if (!video) r.refuse("video", "is missing", "give the clip of which parts are made anew");
    const auto ranges = [&r](const char* name, auto& out) {
      for (const json& range : r.list({name})) {
        if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number())
          return r.refuse(name, fmt::format("{} is not a pair of numbers", shown(range)), "write [[A, B], ...], B not included");
        using Number = typename std::decay_t<decltype(out)>::value_type::value_type;
        const double begin = range[0].template get<double>(), end = range[1].template get<double>();
        if (!(begin >= 0) || !(begin < end) || end > 1e9 ||
            (std::is_integral_v<Number> && !(range[0].is_number_integer() && range[1].is_number_integer())))
          return r.refuse(name, fmt::format("{} is not a range with 0 <= A < B", shown(range)), "");
        out.push_back({static_cast<Number>(begin), static_cast<Number>(end)});
      }
    };
    ranges("frames", request_.retake.frames);
    ranges("seconds", request_.retake.seconds);
    if (!r.ok()) return fields_.fail(*r.error());
    request_.retake.video = file(*video, "retake.video");
  }

  const Sources& sources_;
  Fields& fields_;
  const MediaIntent& intent_;
  Request& request_;
  std::vector<Loose> loose_;
};

}  // namespace

Result<fs::path> resolve(const Sources& sources, const std::string& uri, const std::string& field) {
  if (uri.starts_with("form:")) {
    const http::FormField* given = form_file(sources.request, uri);
    if (given == nullptr) return usage(field, fmt::format("the form has no file '{}'", uri.substr(5)), "name a file part of the same form");
    return sources.inputs.from_form(*given);
  }
  constexpr std::string_view kOwn = "tritium:";
  if (!uri.starts_with(kOwn)) return sources.inputs.from_uri(uri, field);
  const std::size_t slash = uri.find('/');
  const std::string id = uri.substr(kOwn.size(), slash == std::string::npos ? slash : slash - kOwn.size());
  const auto job = sources.service.get(id, sources.request.owner);
  if (!job.ok()) return usage(field, fmt::format("there is no job '{}'", shown(id)), "its inputs went with it; send the file again");
  fs::path out = slash == std::string::npos ? fs::path() : input_of(job->spec.request, uri.substr(slash + 1));
  if (out.empty()) return usage(field, fmt::format("the job {} has no input of this name", id), "the field 'inputs' of the job lists them");
  return out;
}

void read_media(const Sources& sources, Fields& fields, const MediaIntent& intent, Request& request) {
  Reader(sources, fields, intent, request).read();
}

Kind kind_of_file(const fs::path& file) {
  std::array<char, 12> head{};
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), head.size());
  const std::string_view bytes(head.data(), static_cast<std::size_t>(in.gcount()));
  for (const std::string_view picture : {"\x89PNG", "\xff\xd8\xff", "GIF8"})
    if (bytes.starts_with(picture)) return Kind::image;
  const bool riff = bytes.starts_with("RIFF") && bytes.size() == head.size();
  if (riff && bytes.substr(8) == "WEBP") return Kind::image;
  if (riff && bytes.substr(8) == "WAVE") return Kind::audio;
  for (const std::string_view sound : {"ID3", "fLaC", "OggS", "\xff\xfb", "\xff\xf3", "\xff\xf2", "\xff\xf1", "\xff\xf9"})
    if (bytes.starts_with(sound)) return Kind::audio;
  const bool mp4_sound = bytes.size() == head.size() && bytes.substr(4, 4) == "ftyp" && bytes.substr(8, 3) == "M4A";
  return mp4_sound ? Kind::audio : Kind::video;
}

}  // namespace tritium::server::native
