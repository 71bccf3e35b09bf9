// Which hosts and pages a request may come from, and what is written down about it.
#pragma once

#include "server/http/message.h"

namespace tritium::http {

// A page of another site in the user's browser can reach a server on the user's machine, and a name that such a site owns can be made to
// point there. So the Host of a request must be one that is meant, and what changes something must come from our own pages, or from those
// that are listed. Programs send no Origin and are not concerned.
class AccessPolicy {
 public:
  // `loopback`: only this machine reaches the server, and only its own names for itself are meant. `hosts`: "name" or "name:port", further
  // ones; when there are some, and not on loopback, only these. `origins`: "https://name[:port]" of pages that may use the interface, "*":
  // any.
  AccessPolicy(bool loopback, std::vector<std::string> hosts, std::vector<std::string> origins);

  [[nodiscard]] bool host_allowed(std::string_view host) const;
  // `host`: of the same request.
  [[nodiscard]] bool origin_allowed(std::string_view origin, std::string_view host) const;
  [[nodiscard]] bool listed(std::string_view origin) const;  // CORS header fields are sent to these

 private:
  bool loopback_;
  std::vector<std::string> hosts_, origins_;
};

// "localhost:8080" → {"localhost", "8080"}, "[::1]:80" → {"[::1]", "80"}; none: not of this form.
struct HostAndPort {
  std::string host, port;  // lower case; port may be empty
};
std::optional<HostAndPort> parse_host(std::string_view text);

// One answered request. No prompt, no key, no query.
struct AccessRecord {
  std::string id, owner, remote, method, path;
  int status = 0;
  std::uint64_t bytes = 0;  // of the answer's body that were sent
  double seconds = 0;       // from the request's first byte to the answer's last
};
std::string access_text(const AccessRecord& record);  // one line without its end
std::string access_json(const AccessRecord& record);

}  // namespace tritium::http
