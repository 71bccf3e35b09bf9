// Stopping a job, and making one from another.
#include "base/try.h"
#include "server/native/answers.h"
#include "server/native/body.h"
#include "server/native/context.h"
#include "server/native/fields.h"

#include <fmt/format.h>

namespace tritium::server::native {

using http::HttpRequest;
using http::HttpResponse;

namespace {

using Shared = std::shared_ptr<Context>;

Result<HttpResponse> cancel(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.cancel(request.params.at("id"), request.owner));
  return HttpResponse::json(200, dump(video_json(job, context.model_name)));
}

// What was asked for, as if it were asked anew.
JobSpec spec_of(const Job& job, const HttpRequest& request) {
  JobSpec spec = job.spec;
  spec.id.clear();
  spec.idempotency_key = request.header("idempotency-key");
  if (spec.dialect == "videos") return spec;
  spec.dialect = "videos";  // its answers are read here
  spec.dialect_data.clear();
  return spec;
}

Result<HttpResponse> submit_again(Context& context, JobSpec spec, const Asked& asked) {
  spec.dialect_data = to_json(asked);
  TRITIUM_TRY_ASSIGN(const Submitted submitted, context.service.submit(spec));
  auto out = HttpResponse::json(200, dump(video_json(submitted.job, context.model_name)));
  out.headers.emplace_back("location", "/v1/videos/" + submitted.job.id);
  if (submitted.existing) out.headers.emplace_back("idempotent-replayed", "true");
  return out;
}

// A seed that was drawn is drawn anew: after a clip that was no good the same one would be of no use.
Result<HttpResponse> retry(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.get(request.params.at("id"), request.owner));
  return submit_again(context, spec_of(job, request), asked_from_json(job.spec.dialect_data));
}

// Everything as it was, the seed too, but for the prompt.
Result<HttpResponse> remix(Context& context, const HttpRequest& request) {
  TRITIUM_TRY_ASSIGN(const Job job, context.service.get(request.params.at("id"), request.owner));
  TRITIUM_TRY_ASSIGN(Body body, read_body(request));
  Fields fields(std::move(body.object), body.text);
  const auto prompt = fields.text({"prompt"});
  if (!prompt || prompt->find_first_not_of(" \t\r\n") == std::string::npos)
    fields.refuse("prompt", "is missing", "say what to show and to hear");
  if (!fields.ok()) return *fields.error();
  JobSpec spec = spec_of(job, request);
  spec.request.prompt = *prompt;
  spec.request.seed = job.plan.seed;
  Asked asked = asked_from_json(job.spec.dialect_data);
  asked.remixed_from = job.id;
  asked.warnings = fields.unknown();
  return submit_again(context, std::move(spec), asked);
}

// Parts of OpenAI's API that have no counterpart here: said so, instead of a 404 that looks like a typing error.
http::Handler impossible(std::string what, std::string instead) {
  return [what = std::move(what), instead = std::move(instead)](const HttpRequest& request) {
    return error_answer(request, 400, {ErrorCode::usage, what, "", instead});
  };
}

}  // namespace

void add_again_routes(http::Router& router, const Shared& context) {
  router.add("POST", "/v1/videos/{id}/cancel", answering(context, cancel));
  router.add("POST", "/v1/videos/{id}/retry", answering(context, retry));
  router.add("POST", "/v1/videos/{id}/remix", answering(context, remix));
  router.add("POST", "/v1/videos/edits",
             impossible("clips are not edited by a description",
                        "post the clip as 'retake' with frames or seconds to make anew, or as a reference"));
  router.add("POST", "/v1/videos/extensions",
             impossible("clips are not extended", "make another one that begins with the last frame of this one"));
  router.add("POST", "/v1/videos/characters",
             impossible("there is no list of characters", "give pictures or videos of them as references"));
  router.add("GET", "/v1/videos/characters/{id}",
             impossible("there is no list of characters", "give pictures or videos of them as references"));
  router.add("POST", "/v1/set_lora",
             impossible("no LoRA is set for all requests: one client would change the clips of the others",
                        "name it in the field 'lora' of each request; GET /v1/loras lists them"));
}

}  // namespace tritium::server::native
