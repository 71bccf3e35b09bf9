#include "job/stored_job.h"

#include "base/hash.h"
#include "base/try.h"
#include "job/codec_json.h"

namespace tritium {

const char* job_state_name(JobState state) {
  constexpr const char* kNames[] = {"queued", "running", "completed", "failed", "cancelled"};
  return kNames[static_cast<int>(state)];
}

std::optional<JobState> job_state_of(std::string_view name) {
  for (const JobState state : codec::values_of(JobState{}))
    if (name == job_state_name(state)) return state;
  return {};
}

std::string encode_job(const Job& job) { return codec::Encoder::value(job).dump(); }

Result<Job> decode_job(std::string_view text) {
  const auto refuse = [](const std::string& why) { return Error{ErrorCode::failure, "a stored job cannot be understood: " + why, "", ""}; };
  const auto document = codec::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return refuse("it is no JSON");
  Job out;
  codec::Decoder decoder(/*strict=*/false);
  decoder.read(document, out);
  if (!decoder.problem().empty()) return refuse(decoder.problem());
  return out;
}

void for_each_input(Request& r, const std::function<void(const std::string&, std::filesystem::path&)>& visit) {
  const auto look = [&](const std::string& field, std::filesystem::path& file) {
    if (!file.empty()) visit(field, file);
  };
  look("first_frame", r.first_frame);
  look("last_frame", r.last_frame);
  for (std::size_t i = 0; i < r.references.size(); ++i) {
    look(fmt::format("references[{}].file", i), r.references[i].file);
    look(fmt::format("references[{}].sound", i), r.references[i].sound);
  }
  look("retake", r.retake.video);
  look("sound_for", r.sound_for);
  look("video_for", r.video_for);
}

Result<std::string> request_fingerprint(const JobSpec& spec) {
  JobSpec same = spec;
  same.id.clear();
  Result<void> read;
  for_each_input(same.request, [&](const std::string& field, std::filesystem::path& file) {
    auto hash = sha256_file(file);
    if (hash.ok())
      file = *hash;
    else if (read.ok())
      read = Error{ErrorCode::usage, hash.error().message, field, hash.error().hint};
  });
  TRITIUM_TRY(read);
  return sha256_hex(codec::Encoder::value(same).dump());
}

}  // namespace tritium
