#include "server/native/native.h"

#include "base/try.h"
#include "server/native/answers.h"
#include "server/native/context.h"

#include <algorithm>

namespace tritium::server::native {

using nlohmann::json;

namespace {

std::string name_of(const json& model) {
  const auto at = model.find("name");
  return at != model.end() && at->is_string() && !at->get_ref<const std::string&>().empty() ? at->get<std::string>() : "MiniMax-H3";
}

Size default_size_of(const json& model) {
  const json defaults = model.value("defaults", json::object());
  const auto side = [&](const char* key, int released) {
    const auto at = defaults.find(key);
    return at != defaults.end() && at->is_number_integer() ? std::clamp(at->get<int>(), kSizeStep, kMaxSide) : released;
  };
  return {side("width", 1344), side("height", 768)};
}

json parsed(const std::string& text) {
  json out = json::parse(text, nullptr, false);
  return out.is_object() ? out : json::object();
}

}  // namespace

Context::Context(JobService& given, Options chosen)
    : service(given),
      options(std::move(chosen)),
      model(parsed(given.model_json())),
      model_name(name_of(model)),
      default_size(default_size_of(model)),
      events(given, model_name, options.kept_events),
      texts(model_name) {}

http::HttpResponse not_there(const http::HttpRequest& request, const Error& error) {
  if (error.code != ErrorCode::not_found || error.field != "id") return error_answer(request, error);
  return error_answer(request, {ErrorCode::not_found, "Video not found: " + error.message, "", error.hint});
}

http::Handler answering(const std::shared_ptr<Context>& context,
                        Result<http::HttpResponse> (*handler)(Context&, const http::HttpRequest&)) {
  return [context, handler](const http::HttpRequest& request) {
    auto out = handler(*context, request);
    return out.ok() ? std::move(out).value() : not_there(request, out.error());
  };
}

http::HttpResponse with_translated(Context& context, const http::HttpRequest& request,
                                   const std::function<Result<http::HttpResponse>(Translated&)>& use) {
  MediaInputs inputs(context.options.spool, context.options.urls);
  auto translated = translate({request, inputs, context.service, context.model_name, context.default_size});
  if (!translated.ok()) return error_answer(request, translated.error());
  auto out = use(*translated);
  return out.ok() ? std::move(out).value() : error_answer(request, translated->in_clients_words(out.error()));
}

Result<Submitted> submit(Context& context, Translated& translated) {
  translated.spec.dialect_data = to_json(translated.asked);
  return context.service.submit(translated.spec);
}

void add_routes(http::Router& router, JobService& service, const Options& options) {
  const auto context = std::make_shared<Context>(service, options);
  const auto errors = [](const http::HttpRequest& request, int status, const Error& error) { return error_answer(request, status, error); };
  router.errors_below("/v1", errors);
  router.errors_below("", errors);
  add_video_routes(router, context);
  add_again_routes(router, context);
  add_content_routes(router, context);
  add_event_routes(router, context);
  add_model_routes(router, context);
}

}  // namespace tritium::server::native
