#include "server/input/address_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <algorithm>
#include <cstring>

namespace tritium::server {
namespace {

struct Block {
  const char* first;
  int bits;
};

// IANA's registry of special-purpose IPv4 addresses, multicast, and the service address of one large cloud.
constexpr Block kNotPublicV4[] = {
    {"0.0.0.0", 8},      {"10.0.0.0", 8},     {"100.64.0.0", 10},   {"127.0.0.0", 8},      {"169.254.0.0", 16},
    {"172.16.0.0", 12},  {"192.0.0.0", 24},   {"192.0.2.0", 24},    {"192.31.196.0", 24},  {"192.52.193.0", 24},
    {"192.88.99.0", 24}, {"192.168.0.0", 16}, {"192.175.48.0", 24}, {"198.18.0.0", 15},    {"198.51.100.0", 24},
    {"203.0.113.0", 24}, {"224.0.0.0", 4},    {"240.0.0.0", 4},     {"168.63.129.16", 32},
};
// Of IPv6 only 2000::/3 is given to anybody; these parts of it are special.
constexpr Block kNotPublicV6[] = {{"2001::", 23}, {"2001:db8::", 32}, {"2002::", 16}, {"3fff::", 20}};
constexpr Block kGivenV6 = {"2000::", 3}, kNat64 = {"64:ff9b::", 96};

bool lies_in(const NetworkAddress& address, const Block& block) {
  std::array<std::uint8_t, 16> first{};
  ::inet_pton(address.is_v6 ? AF_INET6 : AF_INET, block.first, first.data());
  const auto whole = static_cast<std::size_t>(block.bits / 8);
  if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(whole), address.bytes.begin())) return false;
  const int left = block.bits % 8;
  return left == 0 || (first[whole] ^ address.bytes[whole]) >> (8 - left) == 0;
}

bool is_public_v4(const NetworkAddress& address) {
  return std::none_of(std::begin(kNotPublicV4), std::end(kNotPublicV4), [&](const Block& block) { return lies_in(address, block); });
}

}  // namespace

std::string NetworkAddress::text() const {
  char out[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes.data(), out, sizeof out);
  return out;
}

std::optional<NetworkAddress> network_address(const sockaddr& address) {
  NetworkAddress out;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    std::memcpy(out.bytes.data(), &v4.sin_addr, 4);
    return out;
  }
  if (address.sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  std::memcpy(out.bytes.data(), &v6.sin6_addr, 16);
  out.is_v6 = true;
  return out;
}

std::optional<NetworkAddress> parse_network_address(const std::string& text) {
  NetworkAddress out;
  if (::inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) return out;
  out.is_v6 = true;
  if (::inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1) return out;
  return std::nullopt;
}

bool is_public(const NetworkAddress& address) {
  if (!address.is_v6) return is_public_v4(address);
  if (lies_in(address, kNat64)) {
    NetworkAddress inner;
    std::copy_n(address.bytes.begin() + 12, 4, inner.bytes.begin());
    return is_public_v4(inner);
  }
  return lies_in(address, kGivenV6) &&
         std::none_of(std::begin(kNotPublicV6), std::end(kNotPublicV6), [&](const Block& block) { return lies_in(address, block); });
}

}  // namespace tritium::server
