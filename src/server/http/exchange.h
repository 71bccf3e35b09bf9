// One request and its answer, as far as no socket is concerned: the checks in front of the handler, the handler, the header fields.
#pragma once

#include "server/http/body.h"
#include "server/http/request_parser.h"
#include "server/http/response.h"
#include "server/http/state.h"

namespace tritium::http {

struct Exchange {
  explicit Exchange(ServerState& shared)
      : parser(shared.options.limits),
        holdings(std::make_shared<RequestHoldings>(shared.memory_used, shared.options.limits.memory_bytes)) {}

  RequestParser parser;
  HttpRequest request;
  std::shared_ptr<RequestHoldings> holdings;
  std::unique_ptr<BodyReader> body;
  const Handler* handler = nullptr;
  std::uint64_t body_bytes = 0;
  std::optional<Refusal> body_refusal;
  bool keep_alive = false;
  bool expects_continue = false;
  double begin = 0;  // monotonic seconds, of the first byte
  // Of the answer.
  int status = 0;
  std::uint64_t sent = 0;
};

// Fills the request from the header that has been read. None: the handler may be called when the body is there. Otherwise the answer, which
// is complete.
std::optional<HttpResponse> check_header(ServerState& state, Exchange& exchange);

// The handler's answer, or 500. Releases what the request held.
HttpResponse call_handler(ServerState& state, Exchange& exchange);

// Lets go of the body and of what it was kept in. The header stays.
void release_request(Exchange& exchange);

// In the shape of the path's error writer.
HttpResponse refuse(const ServerState& state, const HttpRequest& request, const Refusal& refusal, const Fields& fields = {});

// Fields of every answer, and those of the answer itself; all but length and connection.
Fields answer_fields(const ServerState& state, const Exchange& exchange, const HttpResponse& response);

// Whether the request asks for a WebSocket in all the ways it has to.
bool is_web_socket_request(const Exchange& exchange);

}  // namespace tritium::http
