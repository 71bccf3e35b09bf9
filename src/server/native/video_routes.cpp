// Making videos, and what there is to know about them.
#include "base/try.h"
#include "server/native/answers.h"
#include "server/native/context.h"

#include <fmt/format.h>
#include <charconv>

namespace tritium::server::native {

using http::HttpRequest;
using http::HttpResponse;
using nlohmann::ordered_json;

namespace {

using Shared = std::shared_ptr<Context>;

HttpResponse create(Context& context, const HttpRequest& request) {
  return with_translated(context, request, [&](Translated& translated) -> Result<HttpResponse> {
    TRITIUM_TRY_ASSIGN(const Submitted submitted, submit(context, translated));
    auto out = HttpResponse::json(200, dump(video_json(submitted.job, context.model_name)));
    out.headers.emplace_back("location", "/v1/videos/" + submitted.job.id);
    if (submitted.existing) out.headers.emplace_back("idempotent-replayed", "true");
    return out;
  });
}

// The plan, with what the translation changed before it.
HttpResponse plan(Context& context, const HttpRequest& request) {
  return with_translated(context, request, [&](Translated& translated) -> Result<HttpResponse> {
    TRITIUM_TRY_ASSIGN(const Plan decided, context.service.plan(translated.spec.request));
    ordered_json out = ordered_json::parse(plan_json(decided));
    out["object"] = "video.plan";
    out["size"] = fmt::format("{}x{}", decided.width, decided.height);
    out["num_outputs"] = translated.spec.outputs;
    ordered_json adjustments = ordered_json::array();
    for (const Adjustment& a : translated.asked.adjustments)
      adjustments.push_back({{"field", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}});
    for (const ordered_json& a : out["adjustments"]) adjustments.push_back(a);
    out["adjustments"] = std::move(adjustments);
    std::vector<std::string> warnings = translated.asked.warnings;
    warnings.insert(warnings.end(), decided.warnings.begin(), decided.warnings.end());
    out["warnings"] = std::move(warnings);
    return HttpResponse::json(200, dump(out));
  });
}

std::optional<std::vector<JobState>> states_of(const std::string& word) {
  using enum JobState;
  if (word == "in_progress") return std::vector{running};
  if (word == "failed") return std::vector{failed, cancelled};
  for (const JobState state : {queued, running, completed, cancelled})
    if (word == job_state_name(state)) return std::vector{state};
  return std::nullopt;
}

Result<JobQuery> read_query(const HttpRequest& request) {
  JobQuery out;
  out.owner = request.owner;
  out.after = request.query_value("after").value_or("");
  if (const auto limit = request.query_value("limit")) {
    const auto [end, code] = std::from_chars(limit->data(), limit->data() + limit->size(), out.limit);
    if (code != std::errc() || end != limit->data() + limit->size() || out.limit < 1 || out.limit > 100)
      return Error{ErrorCode::usage, fmt::format("'{}' is not a whole number from 1 to 100", *limit), "limit", ""};
  }
  if (const auto order = request.query_value("order")) {
    if (*order != "asc" && *order != "desc")
      return Error{ErrorCode::usage, fmt::format("'{}' is not one of asc, desc", *order), "order", ""};
    out.oldest_first = *order == "asc";
  }
  if (const auto status = request.query_value("status")) {
    const auto states = states_of(*status);
    if (!states)
      return Error{ErrorCode::usage, fmt::format("'{}' is not one of queued, in_progress, completed, failed, cancelled", *status), "status",
                   ""};
    out.states = *states;
  }
  return out;
}

Result<HttpResponse> list(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const JobQuery query, read_query(request));
  const auto page = context.service.list(query);
  if (!page.ok()) {
    Error error = page.error();
    if (error.code == ErrorCode::not_found)
      error = {ErrorCode::usage, fmt::format("there is no video '{}'", query.after), "after", "begin anew without it"};
    return error;
  }
  ordered_json out{{"object", "list"}};
  out["first_id"] = page->jobs.empty() ? ordered_json() : ordered_json(page->jobs.front().id);
  out["last_id"] = page->jobs.empty() ? ordered_json() : ordered_json(page->jobs.back().id);
  out["has_more"] = page->has_more;
  std::string text = dump(out);
  text.back() = ',';
  text += R"("data":[)";
  for (const Job& job : page->jobs) {
    text += context.texts.of(job);
    text += ',';
  }
  if (!page->jobs.empty()) text.pop_back();
  return HttpResponse::json(200, text + "]}");
}

Result<HttpResponse> get(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.get(request.params.at("id"), request.owner));
  return HttpResponse::json(200, context.texts.of(job));
}

// In OpenAI's shape, with the fields of the video that SGLang's clients read.
Result<HttpResponse> remove(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.remove(request.params.at("id"), request.owner));
  ordered_json out = video_json(job, context.model_name);
  out["object"] = "video.deleted";
  out["deleted"] = true;
  out["status"] = "deleted";
  out["url"] = out["thumbnail_url"] = nullptr;
  out["outputs"] = ordered_json::array();
  return HttpResponse::json(200, dump(out));
}

}  // namespace

void add_video_routes(http::Router& router, const Shared& context) {
  router.add("POST", "/v1/videos", [context](const HttpRequest& request) { return create(*context, request); });
  router.add("POST", "/v1/videos/plan", [context](const HttpRequest& request) { return plan(*context, request); });
  router.add("GET", "/v1/videos", answering(context, list));
  router.add("GET", "/v1/videos/{id}", answering(context, get));
  router.add("DELETE", "/v1/videos/{id}", answering(context, remove));
}

}  // namespace tritium::server::native
