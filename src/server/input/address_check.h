// Which addresses a server may be sent to by a client: those of the public internet, and no others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

struct sockaddr;

namespace tritium::server {

// An IPv4 address in the first four bytes, or an IPv6 address.
struct NetworkAddress {
  bool is_v6 = false;
  std::array<std::uint8_t, 16> bytes{};
  [[nodiscard]] std::string text() const;
};
std::optional<NetworkAddress> network_address(const sockaddr& address);        // none: of another family
std::optional<NetworkAddress> parse_network_address(const std::string& text);  // "1.2.3.4", "::1"

// Not: this host, private and shared networks (RFC 1918, 6598, 4193), loopback, link-local with its metadata services, multicast, reserved,
// documentation and benchmark networks, and every form of IPv6 that carries an IPv4 address (mapped, compatible, 6to4, Teredo, translated),
// except NAT64's of a public one.
bool is_public(const NetworkAddress& address);

}  // namespace tritium::server
