// Events, models, LoRAs, and the description of the interface.
#include "base/try.h"
#include "server/native/answers.h"
#include "server/native/context.h"
#include "server/native/loras.h"

#include <fmt/format.h>

namespace tritium::server::native {

using http::HttpRequest;
using http::HttpResponse;
using nlohmann::ordered_json;

namespace {

using Shared = std::shared_ptr<Context>;

HttpResponse events(const Shared& context, const HttpRequest& request, const std::string& id) {
  const std::string seen(request.header("last-event-id"));
  if (!id.empty()) {
    if (const auto job = context->service.get(id, request.owner); !job.ok()) return not_there(request, job.error());
    if (has_seen_the_end(seen)) return HttpResponse::empty(204);  // tells a browser not to come back
  }
  return HttpResponse::event_stream([context, id, owner = request.owner, last = last_event_of(seen)](std::shared_ptr<http::Stream> stream) {
    context->events.open(owner, id, last, std::move(stream));
  });
}

// Nothing that says where files lie.
ordered_json model_json(const Context& context) {
  ordered_json out{{"id", context.model_name}, {"object", "model"}, {"created", 0}, {"owned_by", "tritium"}};
  for (const char* key : {"family", "partition", "defaults"})
    if (const auto at = context.model.find(key); at != context.model.end()) out[key] = *at;
  return out;
}

HttpResponse model(const Context& context, const HttpRequest& request) {
  const std::string name = request.params.at("model");
  if (name == context.model_name) return HttpResponse::json(200, dump(model_json(context)));
  return error_answer(
      request, {ErrorCode::not_found, fmt::format("there is no model '{}'; this server runs {}", name, context.model_name), "model", ""});
}

HttpResponse loras(const Context& context) {
  ordered_json out{{"object", "list"}, {"data", ordered_json::array()}};
  for (const std::string& name : lora_names(context.service.options().engine)) out["data"].push_back({{"id", name}, {"object", "lora"}});
  return HttpResponse::json(200, dump(out));
}

}  // namespace

void add_event_routes(http::Router& router, const Shared& context) {
  router.add("GET", "/v1/events", [context](const HttpRequest& request) { return events(context, request, ""); });
  router.add("GET", "/v1/videos/{id}/events",
             [context](const HttpRequest& request) { return events(context, request, request.params.at("id")); });
}

void add_model_routes(http::Router& router, const Shared& context) {
  router.add("GET", "/v1/models", [context](const HttpRequest&) {
    return HttpResponse::json(200, dump({{"object", "list"}, {"data", ordered_json::array({model_json(*context)})}}));
  });
  router.add("GET", "/v1/models/{model*}", [context](const HttpRequest& request) { return model(*context, request); });
  router.add("GET", "/v1/loras", [context](const HttpRequest&) { return loras(*context); });
  router.add("GET", "/openapi.json", [](const HttpRequest&) { return HttpResponse::json(200, std::string(openapi_document())); });
}

}  // namespace tritium::server::native
