#include "api/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>

namespace tritium::test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

Client::Client(int port, double seconds) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), seconds_(seconds) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    ADD_FAILURE() << "cannot connect: " << std::strerror(errno);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Client::~Client() { ::close(fd_); }

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd waiting{fd_, POLLOUT, 0};
    if (::poll(&waiting, 1, static_cast<int>(seconds_ * 1e3)) <= 0) return false;
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void Client::finish_sending() { ::shutdown(fd_, SHUT_WR); }

void Client::take_little() {
  const int small = 4096;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
}

bool Client::fill() {
  pollfd waiting{fd_, POLLIN, 0};
  timed_out_ = ::poll(&waiting, 1, static_cast<int>(seconds_ * 1e3)) <= 0;
  if (timed_out_) return false;
  char piece[65536];
  const ssize_t count = ::recv(fd_, piece, sizeof piece, 0);
  if (count <= 0) return false;
  buffer_.append(piece, static_cast<std::size_t>(count));
  return true;
}

std::string Client::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, {});
}

std::string Client::read_until(std::string_view text) {
  std::size_t at = 0;
  while ((at = buffer_.find(text)) == std::string::npos)
    if (!fill()) return std::exchange(buffer_, {});
  std::string out = buffer_.substr(0, at + text.size());
  buffer_.erase(0, out.size());
  return out;
}

std::string Client::read_to_end() {
  while (fill()) {}
  return std::exchange(buffer_, {});
}

bool Client::ended() { return buffer_.empty() && !fill() && !timed_out_; }

Answer Client::read_head() {
  Answer out;
  std::string head = read_until("\r\n\r\n");
  if (!head.ends_with("\r\n\r\n") || !head.starts_with("HTTP/1.1 ")) return out;
  out.status = std::atoi(head.c_str() + 9);
  std::size_t begin = head.find("\r\n") + 2;
  while (begin < head.size() - 2) {
    const std::size_t end = head.find("\r\n", begin), colon = head.find(':', begin);
    if (colon == std::string::npos || colon > end) break;
    const std::size_t value = head.find_first_not_of(' ', colon + 1);
    out.fields[lower(head.substr(begin, colon - begin))] = head.substr(value, end - value);
    begin = end + 2;
  }
  return out;
}

Answer Client::read_answer(bool to_head) {
  Answer out = read_head();
  if (out.status == 0 || to_head || out.status == 204 || out.status == 304 || out.status / 100 == 1) {
    out.complete = out.status != 0;
  } else if (out.field("transfer-encoding") == "chunked") {
    while (true) {
      const std::string line = read_until("\r\n");
      const std::size_t count = std::strtoul(line.c_str(), nullptr, 16);
      if (!line.ends_with("\r\n")) return out;
      while (buffer_.size() < count + 2)
        if (!fill()) return out;
      out.body += buffer_.substr(0, count);
      buffer_.erase(0, count + 2);
      if (count == 0) break;
    }
    out.complete = true;
  } else if (!out.field("content-length").empty()) {
    const std::size_t count = std::strtoul(out.field("content-length").c_str(), nullptr, 10);
    while (buffer_.size() < count && fill()) {}
    out.complete = buffer_.size() >= count;
    out.body = buffer_.substr(0, count);
    buffer_.erase(0, count);
  } else {
    out.body = read_to_end();
    out.complete = true;
  }
  return out;
}

std::string request_text(const std::string& method, const std::string& target, const std::string& fields, std::string_view body) {
  std::string out = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields;
  if (!body.empty() || method == "POST") out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + std::string(body);
}

Answer ask(int port, const std::string& method, const std::string& target, const std::string& fields, std::string_view body) {
  Client client(port);
  client.send(request_text(method, target, fields, body));
  return client.read_answer(method == "HEAD");
}

}  // namespace tritium::test
