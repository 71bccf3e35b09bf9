// POST /prompt: a graph becomes a job. GET /prompt: how long the queue is.
#include "server/comfy/facade.h"
#include "server/comfy/model_names.h"
#include "server/comfy/names.h"

#include "base/try.h"

#include <fmt/format.h>
#include <chrono>
#include <cmath>

namespace tritium::server::comfy {
namespace {

std::int64_t unix_millis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Submission {
  Json prompt, extra;
  std::string id;
  std::optional<double> number;
  bool front = false;
  std::vector<std::string> targets;
};

PromptError prompt_error(std::string type, std::string message, std::string details) {
  PromptError out;
  out.type = std::move(type);
  out.message = std::move(message);
  out.details = std::move(details);
  return out;
}

std::optional<PromptError> read_submission(const Json& body, Submission& out) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end()) return prompt_error("no_prompt", "No prompt provided", "No prompt provided");
  out.prompt = *prompt;
  if (const auto id = body.find("prompt_id"); id != body.end() && !id->is_null()) {
    if (!id->is_string() || !is_uuid(id->get_ref<const std::string&>()))
      return prompt_error("invalid_prompt_id", "prompt_id must be a valid UUID",
                          "write it in lower case with hyphens, or leave it out: the server then makes one");
    out.id = id->get<std::string>();
  }
  if (const auto number = body.find("number"); number != body.end() && !number->is_null()) {
    if (!number->is_number() || !std::isfinite(number->get<double>()))
      return prompt_error("invalid_request", "number must be a number", "leave it out to be the last in the queue");
    out.number = number->get<double>();
  }
  out.front = flag_in(body, "front");
  if (const auto targets = body.find("partial_execution_targets"); targets != body.end() && targets->is_array())
    for (const Json& each : *targets)
      if (each.is_string()) out.targets.push_back(each.get<std::string>());
  const auto extra = body.find("extra_data");
  out.extra = extra != body.end() ? without_secrets(*extra) : Json::object();
  if (const auto client = body.find("client_id"); client != body.end() && client->is_string()) out.extra["client_id"] = *client;
  out.extra["create_time"] = unix_millis();
  return std::nullopt;
}

GraphEnvironment environment_for(const FacadePtr& facade, const std::string& owner) {
  GraphEnvironment out;
  out.find_input = [facade, owner](const std::string& name) { return facade->input_file(owner, name); };
  out.find_lora = [facade](const std::string& name) { return find_lora_file(facade->service.options(), name); };
  out.names = model_names(facade->service);
  return out;
}

http::HttpResponse taken(const FacadePtr& facade, const std::string& owner, const std::string& id) {
  Json body{{"error", "prompt_id already exists"}, {"prompt_id", id}};
  if (const auto job = facade->service.get(id, owner); job.ok()) body["status"] = job_state_name(job->state);
  return json_response(409, body);
}

// What the planner refuses is told at the node that the value came from.
http::HttpResponse refused(const Error& error, const Submission& given, const Translation& work) {
  const auto source = work.sources.find(error.field);
  const bool at_node = source != work.sources.end() && (error.code == ErrorCode::usage || error.code == ErrorCode::model);
  if (!at_node) {
    PromptError out =
        prompt_error(type_name_of(error.code), error.field.empty() ? error.message : error.field + ": " + error.message, error.hint);
    auto response = json_response(error.code == ErrorCode::model ? 400 : http::http_status_of(error), out.to_json());
    if (error.code == ErrorCode::busy) response.headers.emplace_back("retry-after", "5");
    return response;
  }
  const std::string words = error.hint.empty() ? error.message : fmt::format("{} ({})", error.message, error.hint);
  PromptError out = prompt_error("prompt_outputs_failed_validation", "Prompt outputs failed validation",
                                 fmt::format("{}: {}", source->second.second.empty() ? error.field : source->second.second, words));
  out.node_errors = node_error(given.prompt, source->second.first, source->second.second, words);
  return json_response(400, out.to_json());
}

JobSpec job_spec(const http::HttpRequest& request, const Submission& given, const Translation& work) {
  Record record;
  record.prompt = given.prompt;
  record.extra = given.extra;
  record.number = given.number;
  record.front = given.front;
  record.outputs = work.outputs;
  record.notes = work.notes;
  record.stages = work.stages;
  record.order = work.order;
  JobSpec spec;
  spec.request = work.request;
  // The queue here has priorities, not numbers: what should come first comes before everything that waits.
  spec.priority = given.front || given.number.value_or(0) < 0 ? 100 : 0;
  spec.owner = request.owner;
  spec.idempotency_key = std::string(request.header("idempotency-key"));
  spec.id = given.id.empty() ? new_uuid() : given.id;
  spec.dialect = "comfy";
  spec.dialect_data = encode_record(record);
  return spec;
}

http::HttpResponse post_prompt(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, false);
  if (!body.ok()) return error_response(body.error());
  Submission given;
  if (const auto error = read_submission(*body, given)) return json_response(400, error->to_json());
  if (!given.id.empty() && facade->service.get(given.id, request.owner).ok()) return taken(facade, request.owner, given.id);
  const Translated translated = translate(given.prompt, given.targets, environment_for(facade, request.owner), unix_millis() / 1000);
  if (translated.error) return json_response(400, translated.error->to_json());
  const JobSpec spec = job_spec(request, given, *translated.work);
  const auto submitted = facade->service.submit(spec);
  if (!submitted.ok()) {
    if (submitted.error().code == ErrorCode::conflict && !given.id.empty() && spec.idempotency_key.empty())
      return taken(facade, request.owner, given.id);
    return refused(submitted.error(), given, *translated.work);
  }
  const Record record = decode_record(submitted->job.spec.dialect_data);
  return json_response(200, {{"prompt_id", submitted->job.id},
                             {"number", queue_number(submitted->job, record)},
                             {"node_errors", translated.node_errors},
                             {"adjustments", adjustments_json(submitted->job.plan, record.notes)}});
}

}  // namespace

void add_prompt_routes(http::Router& router, const FacadePtr& facade) {
  add_both(router, "POST", "/prompt", [facade](const http::HttpRequest& request) { return post_prompt(facade, request); });
  add_both(router, "GET", "/prompt", [facade](const http::HttpRequest& request) {
    const auto waiting = facade->jobs(request.owner, {JobState::queued, JobState::running}, true, 100000);
    return json_response(200, {{"exec_info", {{"queue_remaining", waiting.size()}}}});
  });
}

}  // namespace tritium::server::comfy
