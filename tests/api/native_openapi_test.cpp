// The description of the interface says what the server does: every route, every member of every answer.
#include "api/native_fixture.h"
#include "api/schema.h"
#include "server/comfy/comfy.h"
#include "server/metrics/metrics.h"
#include "server/minimax/minimax.h"
#include "server/ui/ui.h"

namespace tritium::test {
namespace {

using nlohmann::json;

class NativeOpenApi : public Native {
 protected:
  NativeOpenApi() : document_(json::parse(server::native::openapi_document())) {
    server::metrics::add_routes(router_, service_, std::make_shared<server::metrics::HttpCounts>(), {});
  }

  // The answer is one that is described for this operation, with this schema.
  void expect_described(const std::string& method, const std::string& path, const http::HttpResponse& response) {
    const json& responses = document_["paths"][path][method]["responses"];
    const std::string status = std::to_string(response.status);
    ASSERT_TRUE(responses.contains(status)) << method << " " << path << " answers " << status;
    json described = responses[status];
    if (described.contains("$ref")) described = document_.at(json::json_pointer(described["$ref"].get<std::string>().substr(1)));
    if (!std::holds_alternative<std::string>(response.body)) return;
    const std::string type = response.content_type.substr(0, response.content_type.find(';'));
    ASSERT_TRUE(described.contains("content") && described["content"].contains(type)) << path << " " << status << " " << type;
    if (type != "application/json") return;
    for (const std::string& problem : schema_problems(document_, described["content"][type]["schema"], json_of(response)))
      ADD_FAILURE() << method << " " << path << " " << status << " " << problem;
  }

  json document_;
};

TEST_F(NativeOpenApi, EveryRouteIsDescribed) {
  server::comfy::add_routes(router_, service_);
  server::minimax::add_routes(router_, service_, {});
  server::ui::add_routes(router_);
  std::set<std::string> served, described;
  for (const auto& [method, pattern] : router_.routes()) {
    std::string path = pattern, name = method;
    if (const auto star = path.find("*}"); star != std::string::npos) path.erase(star, 1);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    served.insert(name + " " + path);
  }
  const json& paths = document_["paths"];
  for (const auto& [path, operations] : paths.items())
    for (const auto& [method, unused] : operations.items())
      if (method != "parameters") described.insert(method + " " + path);
  // Files of the page have names of their own.
  std::erase_if(served, [](const std::string& route) { return route.starts_with("get /assets/") || route.find('.') < route.size(); });
  served.insert("get /openapi.json");
  // ComfyUI's are there with and without "/api", and described without.
  const auto described_without = [&](const std::string& route) {
    const std::size_t prefix = route.find(" /api/");
    return prefix != std::string::npos && described.contains(route.substr(0, prefix + 1) + route.substr(prefix + 5));
  };
  std::erase_if(served, described_without);
  for (const std::string& route : served) EXPECT_TRUE(described.contains(route)) << route << " is not described";
  for (const std::string& route : described) EXPECT_TRUE(served.contains(route)) << route << " is not served";
}

TEST_F(NativeOpenApi, EveryReferenceLeadsSomewhere) {
  std::function<void(const json&)> walk = [&](const json& node) {
    if (node.is_object() && node.contains("$ref")) {
      EXPECT_TRUE(document_.contains(json::json_pointer(node["$ref"].get<std::string>().substr(1)))) << node;
    }
    if (node.is_structured())
      for (const json& child : node) walk(child);
  };
  walk(document_);
  EXPECT_EQ(document_["openapi"], "3.1.0");
  EXPECT_EQ(json_of(get("/openapi.json")), document_);
}

TEST_F(NativeOpenApi, AnswersAreAsDescribed) {
  const json body{{"prompt", "x"}, {"seconds", "4"}, {"quality", "high"}, {"user", "u"}, {"odd", 1}};
  const std::string id = accepted(body).id;
  const std::string one = "/v1/videos/" + id;
  expect_described("post", "/v1/videos", post("/v1/videos", body));
  expect_described("get", "/v1/videos/{id}", get(one));
  service_.run(id);
  service_.progress(id, {"denoise", 1, 50, 0.1, 9});
  expect_described("get", "/v1/videos/{id}", get(one));
  expect_described("get", "/v1/videos/{id}/content", get(one + "/content"));
  service_.complete(id);
  expect_described("get", "/v1/videos/{id}", get(one));
  expect_described("get", "/v1/videos/{id}/content", get(one + "/content"));
  expect_described("get", "/v1/videos", get("/v1/videos"));
  expect_described("get", "/v1/videos", get("/v1/videos?limit=0"));
  expect_described("post", "/v1/videos/{id}/retry", send("POST", one + "/retry"));
  expect_described("post", "/v1/videos/{id}/remix", post(one + "/remix", {{"prompt", "y"}}));
  const std::string failing = service_.jobs().back().id;
  service_.run(failing);
  service_.fail(failing, {ErrorCode::device, "lost", "", "", "denoise", "last words"});
  expect_described("get", "/v1/videos/{id}", get("/v1/videos/" + failing));
  expect_described("post", "/v1/videos/{id}/cancel", send("POST", one + "/cancel"));
  expect_described("delete", "/v1/videos/{id}", send("DELETE", one));
  expect_described("get", "/v1/videos/{id}", get(one));
  expect_described("post", "/v1/videos/plan", post("/v1/videos/plan", body));
  expect_described("post", "/v1/videos/plan", post("/v1/videos/plan", json::object()));
  for (const char* path : {"/v1/models", "/v1/loras", "/health", "/ready", "/status", "/metrics", "/openapi.json", "/v1/events"})
    expect_described("get", path, get(path));
  expect_described("get", "/v1/models/{model}", get("/v1/models/MiniMax-H3"));
  expect_described("get", "/v1/models/{model}", get("/v1/models/x"));
  for (const char* path : {"/v1/set_lora", "/v1/videos/edits"}) expect_described("post", path, post(path, json::object()));
  service_.refuse_next({ErrorCode::does_not_fit, "needs 90 GiB", "", ""});
  expect_described("post", "/v1/videos", post("/v1/videos", body));
  service_.refuse_next({ErrorCode::busy, "full", "", ""});
  expect_described("post", "/v1/videos", post("/v1/videos", body));
}

TEST_F(NativeOpenApi, BodiesThatAreTakenAreDescribed) {
  const json schema = document_["components"]["schemas"]["CreateVideo"];
  const Job job = accepted({{"prompt", "x"}, {"size", "96x96"}, {"seed", 1}, {"n", 2}, {"fit", "contain"}});
  for (const json& body : {video(job.id)["request"], json::parse(R"({"prompt": "x", "task": "t2va", "conditions": [],
       "target": {"short_edge": 768, "aspect_ratio": "16:9", "duration_seconds": 10}, "seed": 0})")}) {
    accepted(body);
    for (const std::string& problem : schema_problems(document_, schema, body)) ADD_FAILURE() << problem;
  }
}

}  // namespace
}  // namespace tritium::test
