#include "server/native/refusals.h"

#include <fmt/format.h>

namespace tritium::server::native {

using nlohmann::json;

namespace {

// One value is allowed, because it is what happens anyway.
void only(Fields& fields, const char* name, double value, const char* reason) {
  const auto given = fields.number_or_text({name});
  if (given && *given != value)
    fields.refuse(name, fmt::format("{:g} is not possible: {}; allowed is {:g}", *given, reason, value), "leave it out");
}

// Whether a value asks for nothing: false, "", 0, [] or {}.
bool is_nothing(const json& value) {
  return value == false || value == 0 || value == "" || value == "false" || value == "0" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

struct Impossible {
  const char *name, *reason, *hint;
};
constexpr Impossible kImpossible[] = {
    {"negative_prompt", "the model is distilled from guidance and sees no second prompt", "say in the prompt what to show instead"},
    {"output_path", "clients do not name files of the server", "fetch the clip from /v1/videos/{id}/content"},
    {"save_result_path", "clients do not name files of the server", "fetch the clip from /v1/videos/{id}/content"},
    {"presigned_url", "the server sends nothing to other addresses", "fetch the clip from /v1/videos/{id}/content"},
    {"callback_url", "the server sends nothing to other addresses", "follow /v1/videos/{id}/events"},
    {"enable_frame_interpolation", "there are no frames between the model's own 24 per second", "leave it out"},
    {"frame_interpolation_exp", "there are no frames between the model's own 24 per second", "leave it out"},
    {"frame_interpolation_scale", "there are no frames between the model's own 24 per second", "leave it out"},
    {"frame_interpolation_model_path", "there are no frames between the model's own 24 per second", "leave it out"},
    {"enable_teacache", "steps are left out only as 'acceleration' says", "use 'acceleration': {\"easycache\": 0.2}"},
    {"enable_cache_dit", "steps are left out only as 'acceleration' says", "use 'acceleration': {\"easycache\": 0.2}"},
    {"force_refresh_step_hint", "steps are left out only as 'acceleration' says", "use 'acceleration': {\"easycache\": 0.2}"},
    {"force_refresh_step_policy", "steps are left out only as 'acceleration' says", "use 'acceleration': {\"easycache\": 0.2}"},
    {"control_reference", "the model takes no control pictures", "give it as a reference"},
    {"control_type", "the model takes no control pictures", "leave it out"},
    {"long_video", "a clip is made in one piece", "make several clips, each beginning with the last frame of the one before"},
    {"long_video_mode", "a clip is made in one piece", "leave it out"},
    {"continuation_prompts", "a clip is made in one piece", "make several clips, each beginning with the last frame of the one before"},
    {"audio_mode", "a clip is made in one piece", "leave it out"},
    {"boundary_ratio", "the model has one stage", "leave it out"},
    {"source_video", "parts of a clip are named by frames and seconds", "use 'retake', 'sound_for' or 'video_for'"},
    {"source_audio", "parts of a clip are named by frames and seconds", "use 'retake', 'sound_for' or 'video_for'"},
    {"video_noise_mask", "parts of a clip are named by frames and seconds", "use 'retake', 'sound_for' or 'video_for'"},
    {"audio_noise_mask", "parts of a clip are named by frames and seconds", "use 'retake', 'sound_for' or 'video_for'"},
};

// Settings of other programs that make no difference to what is shown and heard.
void note_harmless(Fields& fields, std::vector<Adjustment>& adjustments, std::vector<std::string>& warnings) {
  for (const char* name : {"output_quality", "output_compression", "video_codec_options", "preencode_mp4", "preencode_batch_frames"})
    if (const json* value = fields.find({name}); value != nullptr && !is_nothing(*value))
      warnings.push_back(fmt::format("'{}' has no effect: every clip is encoded in the same way, as H.264 High and AAC", name));
  const auto quality = fields.choice({"quality"}, {"lossless", "high", "medium", "low", "standard", "hd"});
  if (quality && *quality != "lossless")
    adjustments.push_back({"quality", *quality, "lossless", "this names no faster profile; 'acceleration' does"});
}

}  // namespace

void refuse_what_cannot_be(Fields& fields, std::vector<Adjustment>& adjustments, std::vector<std::string>& warnings) {
  only(fields, "fps", 24, "the model makes 24 frames a second");
  for (const char* name : {"guidance_scale", "guidance_scale_2", "true_cfg_scale"})
    only(fields, name, 1, "the model is distilled from guidance and evaluated once per step");
  for (const char* name : {"start_time_seconds"}) {
    for (const json& value : fields.list({name}))
      if (!is_nothing(value) && value != "0.0")
        fields.refuse(name, fmt::format("{} is not possible: inputs are used from their beginning; allowed is 0", shown(value)),
                      "cut the file before sending it");
  }
  if (const auto sound = fields.flag({"generate_sound", "generate_audio"}); sound && !*sound)
    fields.refuse("generate_sound", "false is not possible: the model makes pictures and sound together; allowed is true",
                  "take the sound out of the clip afterwards");
  if (fields.find({"sound_duration"}) != nullptr) {
    const auto sound = fields.number_or_text({"sound_duration"}), clip = fields.number_or_text({"seconds", "duration", "duration_seconds"});
    if (fields.ok() && (!clip || *clip != *sound))
      fields.refuse("sound_duration", fmt::format("{:g} is not possible: sound is as long as the clip", *sound), "leave it out");
  }
  for (const Impossible& field : kImpossible) {
    const json* value = fields.find({field.name});
    if (value != nullptr && !is_nothing(*value))
      fields.refuse(field.name, fmt::format("'{}' is not possible: {}", shown(*value), field.reason), field.hint);
  }
  note_harmless(fields, adjustments, warnings);
}

}  // namespace tritium::server::native
