// Files of finished jobs, and waiting for them.
#include "base/try.h"
#include "server/native/answers.h"
#include "server/native/context.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>

namespace tritium::server::native {
namespace fs = std::filesystem;

using http::HttpRequest;
using http::HttpResponse;
using nlohmann::ordered_json;

namespace {

using Shared = std::shared_ptr<Context>;

std::optional<std::size_t> number_of(const std::string& text) {
  std::size_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

// Why there is no file yet, or will be none. 404 as SGLang's clients expect it.
HttpResponse no_content(const HttpRequest& request, const Job& job) {
  Error error{ErrorCode::not_found, "", "", ""};
  if (job.state == JobState::failed)
    error = {ErrorCode::not_found, "the generation failed: " + (job.error ? job.error->message : std::string("no reason is known")), "",
             ""};
  else if (job.state == JobState::cancelled)
    error = {ErrorCode::not_found, "the generation was cancelled; there is no file", "", ""};
  else
    error = {ErrorCode::not_found, "Generation is still in-progress", "", "ask again when its status is completed"};
  return error_answer(request, 404, error);
}

HttpResponse video_file(const HttpRequest& request, const Job& job, std::size_t index) {
  const JobOutput& output = job.outputs[index];
  const std::string name = fmt::format("{}{}.mp4", job.id, job.outputs.size() > 1 ? fmt::format("-{}", index) : "");
  return HttpResponse::file(output.video, "video/mp4", output.sha256, request.query_value("download").value_or("0") == "1" ? name : "");
}

Result<HttpResponse> content(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.get(request.params.at("id"), request.owner));
  const std::string variant = request.query_value("variant").value_or("video");
  auto index = number_of(variant);
  const bool thumbnail = variant == "thumbnail";
  if (!index && variant != "video" && !thumbnail)
    return Error{ErrorCode::usage, fmt::format("'{}' is not one of video, thumbnail and the number of an output", variant), "variant", ""};
  if (!index) {
    const std::string asked = request.query_value("index").value_or("0");
    index = number_of(asked);
    if (!index) return Error{ErrorCode::usage, fmt::format("'{}' is not the number of an output", asked), "index", ""};
  }
  if (job.state != JobState::completed) return no_content(request, job);
  if (*index >= job.outputs.size())
    return Error{ErrorCode::not_found, fmt::format("Video variant {} not found: there are {}, counted from 0", *index, job.outputs.size()),
                 "variant", ""};
  if (!thumbnail) return video_file(request, job, *index);
  const JobOutput& output = job.outputs[*index];
  if (output.thumbnail.empty()) return Error{ErrorCode::not_found, "there is no thumbnail of this clip", "variant", ""};
  return HttpResponse::file(output.thumbnail, "image/jpeg", output.sha256.empty() ? "" : output.sha256 + "-thumbnail");
}

const char* media_type_of(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::pair<const char*, const char*> types[] = {{".png", "image/png"},   {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},
                                                       {".webp", "image/webp"}, {".gif", "image/gif"},  {".mp4", "video/mp4"},
                                                       {".wav", "audio/wav"},   {".mp3", "audio/mpeg"}};
  for (const auto& [ending, type] : types)
    if (extension == ending) return type;
  return "application/octet-stream";
}

// What a job was given, so that its settings can be shown and used again.
Result<HttpResponse> input(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.get(request.params.at("id"), request.owner));
  const fs::path file = input_of(job.spec.request, request.params.at("name"));
  if (file.empty()) return Error{ErrorCode::not_found, fmt::format("the job has no input '{}'", request.params.at("name")), "", ""};
  auto out = HttpResponse::file(file, media_type_of(file));
  out.headers.emplace_back("x-content-type-options", "nosniff");
  return out;
}

// {"text": 0.1, "denoise": 4}
std::string durations_of(const Job& job) {
  ordered_json out = ordered_json::object();
  for (const StageTiming& t : job.timings) out[t.stage] = t.seconds;
  return dump(out);
}

HttpResponse finished_answer(const HttpRequest& request, const Job& job) {
  if (job.state == JobState::cancelled)
    return error_answer(request, 409, {ErrorCode::interrupted, "the job was cancelled while it was waited for", "", ""});
  if (job.state == JobState::failed) {
    const JobError failed = job.error.value_or(JobError{});
    auto out = error_answer(request, 500, {failed.code, failed.message, failed.field, failed.hint});
    out.headers.emplace_back("x-video-id", job.id);
    return out;
  }
  auto out = video_file(request, job, 0);
  double sum = 0;
  for (const StageTiming& t : job.timings) sum += t.seconds;
  out.headers.emplace_back("x-video-id", job.id);
  out.headers.emplace_back("x-stage-durations", durations_of(job));
  out.headers.emplace_back("x-inference-time-s", fmt::format("{:.3f}", sum));
  out.headers.emplace_back("x-peak-memory-mb", fmt::format("{:.1f}", static_cast<double>(job.peak_memory_bytes) / (1 << 20)));
  return out;
}

// Until the job is finished, the limit is reached or the service shuts down.
Result<Job> wait_for(Context& context, const std::string& id, const std::string& owner) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  const auto end = steady_clock::now() + milliseconds(std::llround(context.options.sync_seconds * 1000));
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    auto job = context.service.wait(id, owner, std::clamp(left, milliseconds(0), milliseconds(500)));
    if (!job.ok() || is_terminal(job->state) || left <= milliseconds(0) || context.service.status().draining) return job;
  }
}

// The clip itself. When it takes longer than the limit, 202 with the video object: the job goes on and can be asked for.
HttpResponse sync(Context& context, const HttpRequest& request) {
  struct Place {
    explicit Place(std::atomic<int>& counter) : taken(counter), before(counter++) {}
    ~Place() { --taken; }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::atomic<int>& taken;
    int before;
  } place(context.waiting);
  if (place.before >= context.options.sync_waiting)
    return error_answer(request, {ErrorCode::busy, fmt::format("{} requests wait for their clips already", place.before), "",
                                  "post to /v1/videos instead, or try again later"});
  return with_translated(context, request, [&](Translated& translated) -> Result<HttpResponse> {
    TRITIUM_TRY_ASSIGN(const Submitted submitted, submit(context, translated));
    TRITIUM_TRY_ASSIGN(const Job job, wait_for(context, submitted.job.id, request.owner));
    if (is_terminal(job.state)) return finished_answer(request, job);
    auto out = HttpResponse::json(202, dump(video_json(job, context.model_name)));
    out.headers.emplace_back("location", "/v1/videos/" + job.id);
    out.headers.emplace_back("x-video-id", job.id);
    return out;
  });
}

}  // namespace

void add_content_routes(http::Router& router, const Shared& context) {
  router.add("GET", "/v1/videos/{id}/content", answering(context, content));
  router.add("GET", "/v1/videos/{id}/inputs/{name*}", answering(context, input));
  router.add("POST", "/v1/videos/sync", [context](const HttpRequest& request) { return sync(*context, request); });
}

}  // namespace tritium::server::native
