#include "support/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>

namespace tritium::test {
namespace {

bool send_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

std::string header_value(const std::string& head, const std::string& name) {
  const std::size_t at = head.find("\r\n" + name + ":");
  if (at == std::string::npos) return "";
  std::size_t first = at + name.size() + 3;
  while (first < head.size() && head[first] == ' ') ++first;
  return head.substr(first, head.find("\r\n", first) - first);
}

// "bytes=10-19" or "bytes=10-"; false: none, or beyond the end.
bool parse_range(const std::string& text, std::uint64_t size, std::uint64_t& first, std::uint64_t& end) {
  if (text.rfind("bytes=", 0) != 0) return false;
  const std::size_t dash = text.find('-');
  first = std::strtoull(text.c_str() + 6, nullptr, 10);
  end = dash + 1 < text.size() ? std::strtoull(text.c_str() + dash + 1, nullptr, 10) + 1 : size;
  end = std::min(end, size);
  return first < end;
}

}  // namespace

HttpServer::HttpServer() {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listening_ < 0 || ::bind(listening_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listening_, 64) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    ADD_FAILURE() << "cannot serve: " << std::strerror(errno);
  port_ = ntohs(address.sin_port);
  accepting_ = std::jthread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  ending_ = true;
  ::shutdown(listening_, SHUT_RDWR);
  accepting_.join();
  ::close(listening_);
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
}

std::string HttpServer::origin() const { return "http://127.0.0.1:" + std::to_string(port_); }

void HttpServer::put(const std::string& path, Page page) {
  const std::lock_guard lock(mutex_);
  pages_[path] = std::move(page);
  requests_[path] = 0;
}

std::vector<Served> HttpServer::log() const {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, std::chrono::seconds(10), [&] { return answers_under_way_ == 0; });
  return log_;
}

std::uint64_t HttpServer::served_bytes(const std::string& path) const {
  std::uint64_t sum = 0;
  for (const Served& served : log())
    if (served.path == path) sum += served.bytes;
  return sum;
}

void HttpServer::forget_log() {
  // What was sent to a client that is gone is entered when its connection is found to have ended.
  for (int i = 0; i < 1000 && has_connections(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (has_connections()) ADD_FAILURE() << "connections are still open";
  const std::lock_guard lock(mutex_);
  log_.clear();
}

bool HttpServer::has_connections() const {
  const std::lock_guard lock(mutex_);
  return !connections_.empty();
}

void HttpServer::accept_all() {
  while (!ending_) {
    const int fd = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const std::lock_guard lock(mutex_);
    connections_.insert(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void HttpServer::serve(int fd) {
  // Little may lie between what was sent and what was received, or a kill would look like bytes that were lost.
  const int small = 32 << 10;
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  Request request;
  while (!ending_ && read_request(fd, request) && answer(fd, request)) continue;
  const std::lock_guard lock(mutex_);
  connections_.erase(fd);
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
}

bool HttpServer::read_request(int fd, Request& request) {
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    std::array<char, 4096> buffer{};
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n <= 0 || head.size() > 65536) return false;
    head.append(buffer.data(), static_cast<std::size_t>(n));
  }
  request.method = head.substr(0, head.find(' '));
  const std::size_t path = request.method.size() + 1;
  request.path = head.substr(path, head.find(' ', path) - path);
  request.range = header_value(head, "Range");
  request.authorization = header_value(head, "Authorization");
  return true;
}

void HttpServer::remember(const Request& request, int status, std::uint64_t first, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (--answers_under_way_ == 0) answered_.notify_all();
  log_.push_back({request.path, request.method, request.authorization, request.range, status, first, bytes});
}

bool HttpServer::answer(int fd, const Request& request) {
  Page page;
  int status = 404, retry_after = -1;
  {
    const std::lock_guard lock(mutex_);
    ++answers_under_way_;
    if (const auto found = pages_.find(request.path); found != pages_.end()) {
      Page& stored = found->second;
      const int count = requests_[request.path]++;
      if (stored.changes_after >= 0 && count >= stored.changes_after) {
        stored.content = stored.next_content;
        stored.etag = stored.next_etag;
        stored.changes_after = -1;
      }
      page = stored;
      status = 200;
      if (!stored.statuses.empty()) {
        status = stored.statuses.front();
        retry_after = stored.retry_after;
        stored.statuses.erase(stored.statuses.begin());
      }
      if (stored.breaks > 0) --stored.breaks;
      if (stored.stalls > 0) --stored.stalls;
      if (page.lies == 0) page.length_lie = page.total_lie = 0;
      if (stored.lies > 0 && request.method != "HEAD") --stored.lies;
    }
  }
  if (status == 200 && request.method == "HEAD" && page.no_head) status = 405;
  if (status == 200 && !page.token.empty() && request.authorization != "Bearer " + page.token) status = 401;
  if (status == 200 && !page.redirect.empty()) status = 302;
  std::uint64_t first = 0, end = page.content.size();
  if (status == 200 && !request.range.empty() && !page.ignore_range)
    status = parse_range(request.range, page.content.size(), first, end) ? 206 : 416;
  if (status == 200 || status == 206) return send_content(fd, request, page, status, first, end);
  std::string head = "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 5\r\n";
  if (status == 302) head += "Location: " + page.redirect + "\r\n";
  if (status == 416) head += "Content-Range: bytes */" + std::to_string(page.content.size()) + "\r\n";
  if (retry_after >= 0) head += "Retry-After: " + std::to_string(retry_after) + "\r\n";
  remember(request, status, 0, 0);
  head += "\r\n";
  if (request.method != "HEAD") head += "sorry";
  return send_all(fd, head.data(), head.size());
}

bool HttpServer::send_content(int fd, const Request& request, const Page& page, int status, std::uint64_t first, std::uint64_t end) {
  const auto lied = [](std::uint64_t value, std::int64_t lie) { return std::to_string(static_cast<std::int64_t>(value) + lie); };
  std::string head = "HTTP/1.1 " + std::to_string(status) + " x\r\nAccept-Ranges: bytes\r\n";
  if (page.no_length)
    head += "Connection: close\r\n";
  else
    head += "Content-Length: " + lied(end - first, page.length_lie) + "\r\n";
  if (!page.etag.empty()) head += "ETag: " + page.etag + "\r\n";
  if (status == 206)
    head += "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(end - 1) + "/" +
            (page.no_length ? "*" : lied(page.content.size(), page.total_lie)) + "\r\n";
  head += "\r\n";
  if (request.method == "HEAD") {
    remember(request, status, first, 0);
    return send_all(fd, head.data(), head.size());
  }
  std::uint64_t stop = end;
  const bool breaking = page.break_after > 0 && page.breaks != 0;
  if (breaking) stop = std::min(stop, first + page.break_after);
  if (page.stalls > 0) stop = first + (end - first) / 2;
  std::uint64_t at = first;
  if (send_all(fd, head.data(), head.size())) {
    const auto begin = std::chrono::steady_clock::now();
    while (at < stop && !ending_) {
      const std::uint64_t piece = std::min<std::uint64_t>(stop - at, 16 << 10);
      if (!send_all(fd, page.content.data() + at, piece)) break;
      at += piece;
      if (page.bytes_per_second > 0)
        std::this_thread::sleep_until(begin + std::chrono::microseconds((at - first) * 1'000'000 / page.bytes_per_second));
    }
  }
  remember(request, status, first, at - first);
  if (page.stalls > 0) {
    std::array<char, 16> buffer{};
    (void)::recv(fd, buffer.data(), buffer.size(), 0);  // until the other side gives up
    return false;
  }
  return at == end && page.length_lie == 0 && !page.no_length;
}

std::string noise_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; i += 4) {
    const auto word = static_cast<std::uint32_t>(random());
    std::memcpy(out.data() + i, &word, std::min<std::size_t>(4, count - i));
  }
  return out;
}

}  // namespace tritium::test
