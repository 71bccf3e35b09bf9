// What the connections of one server share.
#pragma once

#include "server/http/handler_pool.h"
#include "server/http/options.h"
#include "server/http/router.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <map>
#include <mutex>

namespace tritium::http {

class Session;

struct ServerState {
  ServerState(ServerOptions given, Router routes, bool loopback)
      : options(std::move(given)),
        router(std::move(routes)),
        policy(loopback, options.hosts, options.origins),
        pool(options.handler_threads, options.waiting_requests),
        io(options.io_threads) {}

  const ServerOptions options;
  const Router router;
  const AccessPolicy policy;
  HandlerPool pool;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> memory_used{0};           // by bodies of requests
  std::atomic<std::uint64_t> requests{0}, refused{0};  // since the start; refused: connections above the limit

  mutable std::mutex mutex;
  std::condition_variable session_gone;
  std::map<const Session*, std::weak_ptr<Session>> sessions;

  boost::asio::io_context io;  // the last: what waits in it may use the rest
};

}  // namespace tritium::http
