// Everyone who listens on /ws: jobs' events become ComfyUI's messages, in ComfyUI's order.
#pragma once

#include "job/service.h"
#include "server/http/message.h"

#include <memory>
#include <string>

namespace tritium::server::comfy {

// A client hears of the jobs that it sent (client_id), and of the length of the queue. One that comes back under its name is told at once
// how far its running job is. May be used from several threads; must go before the service.
class Hub {
 public:
  explicit Hub(JobService& service);
  ~Hub();
  void connect(const std::string& owner, std::string client_id, const std::shared_ptr<http::WebSocket>& socket);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// {"supports_preview_metadata": true, ...}
std::string server_features();

}  // namespace tritium::server::comfy
