#include "server/minimax/creation.h"

#include "base/try.h"
#include "server/minimax/fields.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::minimax {
namespace {

constexpr std::size_t kMaxPrompt = 7000;  // characters
constexpr std::int64_t kLeastSeconds = 4, kMostSeconds = 15;
constexpr std::int64_t kMostSeed = std::int64_t{1} << 62;
const std::vector<std::string> kRatios{"adaptive", "21:9", "16:9", "4:3", "1:1", "3:4", "9:16"};
constexpr const char* kModel = "MiniMax-H3";

struct RoleRule {
  Role role;
  const char *name, *type;
  int most;
};
constexpr RoleRule kRoles[] = {{Role::first_frame, "first_frame", "image_url", 1},
                               {Role::last_frame, "last_frame", "image_url", 1},
                               {Role::reference_image, "reference_image", "image_url", 9},
                               {Role::reference_video, "reference_video", "video_url", 3},
                               {Role::reference_audio, "reference_audio", "audio_url", 3}};
constexpr int kMostFiles = 12;

bool is_frame(Role role) { return role == Role::first_frame || role == Role::last_frame; }

int count(const Creation& c, Role role) {
  return static_cast<int>(std::count_if(c.media.begin(), c.media.end(), [role](const MediaItem& m) { return m.role == role; }));
}

Result<void> add_media(const Json& item, const std::string& type, const std::string& place, Creation& out) {
  TRITIUM_TRY_ASSIGN(const auto role, string_field(item, "role", place + ".role"));
  std::vector<std::string> fitting;
  for (const RoleRule& rule : kRoles)
    if (type == rule.type) fitting.emplace_back(rule.name);
  if (!role) return wrong(place + ".role", fmt::format("is missing; allowed for {} are {}", type, fmt::join(fitting, ", ")));
  if (*role == "base_video") return wrong(place + ".role", "'base_video' belongs to video regeneration, which is not offered");
  TRITIUM_TRY(one_of(place + ".role", *role, fitting));
  const auto source = item.find(type);
  if (source == item.end() || !source->is_object()) return wrong(place + "." + type, R"(is missing; send {"url": "..."})");
  const std::string field = fmt::format("{}.{}.url", place, type);
  TRITIUM_TRY_ASSIGN(const auto url, string_field(*source, "url", field));
  if (!url || url->empty()) return wrong(field, "is missing", "send a data: URL, mm_file://FILE_ID or an https: address");
  const auto rule = std::find_if(std::begin(kRoles), std::end(kRoles), [&](const RoleRule& r) { return *role == r.name; });
  out.media.push_back({rule->role, *url, field});
  return {};
}

Result<void> add_text(const Json& item, const std::string& place, Creation& out) {
  TRITIUM_TRY_ASSIGN(const auto text, string_field(item, "text", place + ".text"));
  if (!text || text->empty()) return wrong(place + ".text", "is empty");
  if (!out.prompt.empty()) return wrong(place, "is a second text; exactly one is allowed", "put everything into one text");
  out.prompt = *text;
  return {};
}

Result<void> read_content(const Json& body, Creation& out) {
  const auto content = body.find("content");
  if (content == body.end() || !content->is_array() || content->empty())
    return wrong("content", "is missing or empty", R"(send [{"type": "text", "text": "..."}], and pictures, videos or sounds)");
  if (content->size() > 64) return wrong("content", fmt::format("has {} items; allowed are {}", content->size(), kMostFiles + 1));
  for (std::size_t i = 0; i < content->size(); ++i) {
    const std::string place = fmt::format("content[{}]", i);
    const Json& item = (*content)[i];
    if (!item.is_object()) return wrong(place, "is not an object");
    TRITIUM_TRY_ASSIGN(const auto type, string_field(item, "type", place + ".type"));
    TRITIUM_TRY_ASSIGN(const std::string known,
                       one_of(place + ".type", type.value_or(""), {"text", "image_url", "video_url", "audio_url"}));
    TRITIUM_TRY(known == "text" ? add_text(item, place, out) : add_media(item, known, place, out));
  }
  return {};
}

Result<void> check_prompt(const std::string& field, const std::string& prompt) {
  if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) return wrong(field, "a text is missing", "describe the video");
  if (const std::size_t length = characters(prompt); length > kMaxPrompt)
    return wrong(field, fmt::format("the text has {} characters; allowed are {}", length, kMaxPrompt), "shorten it");
  return {};
}

Result<void> check_media(const Creation& c) {
  const bool frames = std::any_of(c.media.begin(), c.media.end(), [](const MediaItem& m) { return is_frame(m.role); });
  const bool references = std::any_of(c.media.begin(), c.media.end(), [](const MediaItem& m) { return !is_frame(m.role); });
  if (frames && references)
    return wrong("content", "first_frame and last_frame cannot be combined with references", "give keyframes or references, not both");
  for (const RoleRule& rule : kRoles)
    if (const int there = count(c, rule.role); there > rule.most)
      return wrong("content", fmt::format("{} items have the role {}; allowed are {}", there, rule.name, rule.most));
  if (c.media.size() > static_cast<std::size_t>(kMostFiles))
    return wrong("content", fmt::format("{} files are given; allowed are {}", c.media.size(), kMostFiles));
  if (references && count(c, Role::reference_image) + count(c, Role::reference_video) == 0)
    return wrong("content", "a reference_audio needs a reference_image or a reference_video beside it");
  return {};
}

Result<void> read_ratio(const Json& body, Creation& out) {
  TRITIUM_TRY_ASSIGN(const auto ratio, string_field(body, "ratio", "ratio"));
  if (ratio) { TRITIUM_TRY_ASSIGN(out.ratio, one_of("ratio", *ratio, kRatios)); }
  const bool open = out.ratio.empty() || out.ratio == "adaptive";
  if (out.media.empty() && open)
    return wrong("ratio", out.ratio.empty() ? "is missing" : "'adaptive' needs a picture to take the shape from",
                 "a text alone needs one of 21:9, 16:9, 4:3, 1:1, 3:4, 9:16");
  if (!out.media.empty() && is_frame(out.media.front().role) && !open)
    out.notes.push_back({"ratio", out.ratio, "adaptive", "a clip with keyframes has the shape of its first picture"});
  if (!out.media.empty() && !is_frame(out.media.front().role) && open)
    out.notes.push_back({"ratio", "adaptive", "the model's own", "references do not decide the shape here; name a ratio to choose it"});
  return {};
}

Result<void> read_resolution(const std::string& given, const std::vector<std::string>& others, Creation& out) {
  if (std::find(others.begin(), others.end(), given) != others.end())
    return wrong("resolution", fmt::format("'{}' is not offered: the model makes 768P; allowed is 768P", given), "ask for 768P");
  TRITIUM_TRY_ASSIGN(out.resolution, one_of("resolution", given, {"768P"}));
  return {};
}

Result<void> read_common(const Json& body, Creation& out) {
  TRITIUM_TRY_ASSIGN(const auto seconds, integer_field(body, "duration", kLeastSeconds, kMostSeconds));
  out.duration = seconds.value_or(out.duration);
  TRITIUM_TRY_ASSIGN(const auto seed, integer_field(body, "seed", 0, kMostSeed));
  if (seed) out.seed = static_cast<std::uint64_t>(*seed);
  TRITIUM_TRY_ASSIGN(const bool mark, boolean_field(body, "aigc_watermark"));
  if (mark) return wrong("aigc_watermark", "true is not offered: no mark is put into videos; allowed is false");
  TRITIUM_TRY_ASSIGN(const auto callback, string_field(body, "callback_url", "callback_url"));
  out.callback_url = callback.value_or("");
  return {};
}

}  // namespace

const char* role_name(Role role) {
  for (const RoleRule& rule : kRoles)
    if (rule.role == role) return rule.name;
  return "?";
}

Result<Creation> read_v2(const Json& body) {
  Creation out;
  TRITIUM_TRY_ASSIGN(const auto model, string_field(body, "model", "model"));
  if (!model) return wrong("model", "is missing; allowed is MiniMax-H3");
  TRITIUM_TRY(one_of("model", *model, {kModel}));
  TRITIUM_TRY(read_content(body, out));
  TRITIUM_TRY(check_prompt("content", out.prompt));
  TRITIUM_TRY(check_media(out));
  TRITIUM_TRY_ASSIGN(const auto resolution, string_field(body, "resolution", "resolution"));
  TRITIUM_TRY(read_resolution(resolution.value_or("768P"), {"2K", "480P"}, out));
  TRITIUM_TRY(read_common(body, out));
  TRITIUM_TRY(read_ratio(body, out));
  note_unknown(body, {"model", "content", "resolution", "duration", "ratio", "callback_url", "aigc_watermark", "seed"}, out.notes);
  return out;
}

Result<Creation> read_v1(const Json& body) {
  Creation out;
  out.version = 1;
  out.duration = 6;
  TRITIUM_TRY_ASSIGN(const auto model, string_field(body, "model", "model"));
  if (!model) return wrong("model", "is missing; allowed is MiniMax-H3");
  const bool older = model->rfind("MiniMax-Hailuo-", 0) == 0 || *model == "T2V-01" || *model == "T2V-01-Director" || *model == "I2V-01" ||
                     *model == "I2V-01-Director" || *model == "I2V-01-live";
  if (!older) TRITIUM_TRY(one_of("model", *model, {kModel}, "names of MiniMax's older models are taken too, and noted"));
  if (older) out.notes.push_back({"model", *model, kModel, "the server has this model only"});
  out.model = *model;
  TRITIUM_TRY_ASSIGN(const auto prompt, string_field(body, "prompt", "prompt"));
  out.prompt = prompt.value_or("");
  TRITIUM_TRY(check_prompt("prompt", out.prompt));
  for (const auto& [name, role] : {std::pair("first_frame_image", Role::first_frame), {"last_frame_image", Role::last_frame}}) {
    TRITIUM_TRY_ASSIGN(const auto url, string_field(body, name, name));
    if (url && !url->empty()) out.media.push_back({role, *url, name});
  }
  if (body.contains("subject_reference"))
    return wrong("subject_reference", "is not offered by this older interface",
                 "use POST /v2/video_generation with the role reference_image");
  TRITIUM_TRY_ASSIGN(const auto resolution, string_field(body, "resolution", "resolution"));
  TRITIUM_TRY(read_resolution(resolution.value_or("768P"), {"512P", "720P", "1080P", "2K"}, out));
  TRITIUM_TRY(read_common(body, out));
  TRITIUM_TRY_ASSIGN(const bool optimize, boolean_field(body, "prompt_optimizer"));
  if (optimize) out.notes.push_back({"prompt_optimizer", "true", "false", "prompts are taken as they are"});
  note_unknown(body,
               {"model", "prompt", "first_frame_image", "last_frame_image", "resolution", "duration", "callback_url", "aigc_watermark",
                "seed", "prompt_optimizer", "fast_pretreatment"},
               out.notes);
  return out;
}

Result<Request> request_of(const Creation& creation, const std::function<Result<std::filesystem::path>(const MediaItem&)>& resolve) {
  Request out;
  out.prompt = creation.prompt;
  out.seconds = static_cast<double>(creation.duration);
  out.seed = creation.seed;
  const bool keyframes = !creation.media.empty() && is_frame(creation.media.front().role);
  if (!keyframes && !creation.ratio.empty() && creation.ratio != "adaptive") out.aspect = creation.ratio;
  for (const MediaItem& item : creation.media) {
    TRITIUM_TRY_ASSIGN(const auto file, resolve(item));
    using Kind = ReferenceInput::Kind;
    if (item.role == Role::first_frame) out.first_frame = file;
    if (item.role == Role::last_frame) out.last_frame = file;
    if (item.role == Role::reference_image) out.references.push_back({Kind::image, file, {}, false});
    if (item.role == Role::reference_video) out.references.push_back({Kind::video, file, {}, false});
    if (item.role == Role::reference_audio) out.references.push_back({Kind::audio, file, {}, false});
  }
  return out;
}

}  // namespace tritium::server::minimax
