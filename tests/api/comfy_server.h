// The ComfyUI routes in front of a service in memory.
#pragma once

#include "comfy_graphs.h"
#include "routed.h"
#include "server/comfy/comfy.h"
#include "server/comfy/names.h"
#include "support/fake_job_service.h"

namespace tritium::test {

struct ComfyServer {
  FakeJobService service;
  TempFolder spool;
  http::Router router;

  explicit ComfyServer(comfy::Options options = {}) { comfy::add_routes(router, service, options); }
  ~ComfyServer() { router = {}; }

  http::HttpResponse call(const std::string& method, const std::string& target, const OrderedJson& body = nullptr) {
    return answer(router, method, target, body.is_null() ? "" : body.dump());
  }
  OrderedJson get(const std::string& target) {
    const auto response = call("GET", target);
    EXPECT_EQ(response.status, 200) << target;
    return document(response);
  }
  // The id of a prompt that is accepted.
  std::string queue(const OrderedJson& prompt, OrderedJson more = OrderedJson::object()) {
    more["prompt"] = prompt;
    const auto response = call("POST", "/prompt", more);
    EXPECT_EQ(response.status, 200) << document(response).dump(1);
    return document(response).value("prompt_id", "");
  }
  http::HttpResponse upload(const std::string& name, const std::string& content,
                            const std::vector<std::pair<std::string, std::string>>& fields = {},
                            const std::string& path = "/upload/image") {
    auto request = request_for("POST", path);
    request.is_form = true;
    request.form.push_back(form_file(spool.path(), "image", name, content));
    for (const auto& [key, value] : fields) request.form.push_back(form_value(key, value));
    return answer(router, std::move(request));
  }
};

}  // namespace tritium::test
