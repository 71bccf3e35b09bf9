// A web server on the loopback interface that misbehaves as told, and remembers every byte it sent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tritium::test {

// How one path is answered. Limits that count down do so over all requests of the path.
struct Page {
  std::string content;
  std::string etag = "\"v1\"";    // empty: none
  bool ignore_range = false;      // always 200 and everything
  bool no_head = false;           // 405 for HEAD
  bool no_length = false;         // neither Content-Length nor a total in Content-Range
  std::vector<int> statuses;      // answers with these first, one request each
  int retry_after = -1;           // seconds, sent with a status of 429 or 503
  std::uint64_t break_after = 0;  // the connection ends after so many bytes of content; 0: never
  int breaks = -1;                // how often; -1: always
  int stalls = 0;                 // so many requests get half of their content, and then nothing
  std::int64_t length_lie = 0;    // added to Content-Length
  std::int64_t total_lie = 0;     // added to the total in Content-Range
  int lies = -1;                  // how often these two; -1: always
  std::uint64_t bytes_per_second = 0;
  std::string redirect;    // 302 to this address
  std::string token;       // 401 without "Bearer <token>"
  int changes_after = -1;  // after so many requests, the next two take the place of content and etag
  std::string next_content, next_etag;
};

struct Served {
  std::string path, method, authorization, range;
  int status = 0;
  std::uint64_t first = 0, bytes = 0;  // of content, handed to the system for sending
};

class HttpServer {
 public:
  HttpServer();
  ~HttpServer();  // ends every connection
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:PORT"
  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string url(const std::string& path) const { return origin() + path; }
  void put(const std::string& path, Page page);
  // Both wait for answers under way: the other side may have what it asked for before this one has written it down.
  [[nodiscard]] std::vector<Served> log() const;
  [[nodiscard]] std::uint64_t served_bytes(const std::string& path) const;
  void forget_log();  // once all clients have gone

 private:
  struct Request {
    std::string method, path, range, authorization;
  };
  void accept_all();
  [[nodiscard]] bool has_connections() const;
  void serve(int fd);
  static bool read_request(int fd, Request& request);
  bool answer(int fd, const Request& request);
  bool send_content(int fd, const Request& request, const Page& page, int status, std::uint64_t first, std::uint64_t end);
  void remember(const Request& request, int status, std::uint64_t first, std::uint64_t bytes);

  int listening_ = -1;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable answered_;
  int answers_under_way_ = 0;
  std::map<std::string, Page> pages_;
  std::map<std::string, int> requests_;
  std::vector<Served> log_;
  std::set<int> connections_;
  std::vector<std::jthread> threads_;
  std::jthread accepting_;
};

// Bytes that look random and are the same every time.
std::string noise_bytes(std::size_t count, std::uint32_t seed = 1);

}  // namespace tritium::test
