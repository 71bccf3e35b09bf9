// A small HTTP client on a plain socket for tests of the server: it sends what it is told, byte for byte, and takes answers apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tritium::test {

struct Answer {
  int status = 0;                             // 0: the connection ended, or the time was over, before an answer came
  std::map<std::string, std::string> fields;  // names in lower case; the last of a name
  std::string body;
  bool complete = false;  // the body came to its end
  [[nodiscard]] std::string field(const std::string& name) const {
    const auto it = fields.find(name);
    return it == fields.end() ? "" : it->second;
  }
};

class Client {
 public:
  explicit Client(int port, double seconds = 10);  // `seconds`: for each of the functions below
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view bytes);  // false: the server has ended the connection, or takes nothing
  void finish_sending();
  Answer read_answer(bool to_head = false);  // an answer without a body, as HEAD gets it
  // The head of an answer only; what follows is for read_some().
  Answer read_head();
  std::string read_some();                        // what is there, waiting for at least one byte; empty: the end
  std::string read_until(std::string_view text);  // up to and with the text; all there was when it does not come
  std::string read_to_end();
  [[nodiscard]] bool ended();  // the server has closed, and nothing is left to read
  void take_little();          // a receive buffer as small as the system allows
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  bool fill();
  int fd_ = -1;
  double seconds_;
  bool timed_out_ = false;
  std::string buffer_;
};

// "GET /x HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n" + body, with Content-Length if there is a body or the method is POST.
std::string request_text(const std::string& method, const std::string& target, const std::string& fields = "", std::string_view body = "");

// One request on a connection of its own.
Answer ask(int port, const std::string& method, const std::string& target, const std::string& fields = "", std::string_view body = "");

}  // namespace tritium::test
