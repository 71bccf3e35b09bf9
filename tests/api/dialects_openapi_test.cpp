// The description of the interface names every route of ComfyUI's and MiniMax's dialects.
#include "comfy_server.h"
#include "minimax_server.h"
#include "server/native/native.h"

#include <algorithm>
#include <cctype>

namespace tritium::test {
namespace {

void expect_described(const http::Router& router) {
  const auto document = OrderedJson::parse(server::native::openapi_document());
  for (auto [method, path] : router.routes()) {
    std::transform(method.begin(), method.end(), method.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    // Each path of ComfyUI's exists with and without "/api"; described is the short one.
    if (path.rfind("/api/", 0) == 0 && !document["paths"].contains(path)) path = path.substr(4);
    const bool described = document["paths"].contains(path) && document["paths"][path].contains(method);
    EXPECT_TRUE(described) << method << " " << path << " is not described";
  }
}

TEST(DialectsOpenApi, ComfyUi) {
  ComfyServer server;
  expect_described(server.router);
}

TEST(DialectsOpenApi, MiniMax) {
  MinimaxServer server;
  expect_described(server.router);
}

}  // namespace
}  // namespace tritium::test
