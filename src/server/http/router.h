// Which handler answers which path. Handlers may block: they run on threads of their own.
#pragma once

#include "server/http/message.h"

namespace tritium::http {

using Handler = std::function<HttpResponse(const HttpRequest&)>;

class Router {
 public:
  // `pattern`: "/v1/videos/{id}/content"; "{name}" is one segment, "{name*}" at the end the rest. Fixed segments win over variable ones.
  // GET also answers HEAD. Handlers that throw answer 500 in the shape of the error writer of their prefix.
  void add(const std::string& method, const std::string& pattern, Handler handler);

  // How errors look below a prefix ("/v1", "/prompt", "/v2"): also those that no handler makes (401, 404, 405, 413, 500). The longest
  // prefix wins; without one {"error":{"message",...}}.
  using ErrorWriter = std::function<HttpResponse(const HttpRequest&, int status, const Error&)>;
  void errors_below(const std::string& prefix, ErrorWriter writer);

  struct Match {
    const Handler* handler = nullptr;
    std::map<std::string, std::string> params;
    bool known_path = false;           // with other methods
    std::vector<std::string> allowed;  // these
  };
  [[nodiscard]] Match find(const std::string& method, const std::string& path) const;
  [[nodiscard]] HttpResponse error(const HttpRequest& request, int status, const Error& error) const;

  // {"GET", "/v1/videos/{id}"} of every route, as they were added.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> routes() const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  std::vector<Route> routes_;
  std::vector<std::pair<std::string, ErrorWriter>> errors_;
};

}  // namespace tritium::http
