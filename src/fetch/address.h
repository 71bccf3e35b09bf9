// Web addresses: where a token may go, and how an address is shown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::fetch {

struct Origin {
  std::string scheme, host;  // lower case
  std::string port;
  friend bool operator==(const Origin&, const Origin&) = default;
  [[nodiscard]] bool is_loopback() const;
};
// None: not an http or https address.
std::optional<Origin> origin_of(const std::string& url);

// Without user, password and query, which may hold secrets (signed addresses of content networks do).
std::string shown(const std::string& url);

// A secret and the hosts that may see it. It is sent over https only, except to this machine itself.
struct Token {
  std::string value;               // empty: none
  std::vector<std::string> hosts;  // "host" or "host:port"
  [[nodiscard]] bool may_go_to(const std::string& url) const;
};

}  // namespace tritium::fetch
