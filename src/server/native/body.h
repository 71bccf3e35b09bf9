// The body of a request as one JSON object, whether it came as JSON or as a form.
#pragma once

#include "server/http/message.h"

#include <nlohmann/json.hpp>

namespace tritium::server::native {

struct Body {
  nlohmann::json object = nlohmann::json::object();
  bool text = false;  // values come from a form
  // Objects given as extra_body, extra_params or extra_json are part of the body; these stood in one of them.
  std::vector<std::string> extras;
};

// Fields of forms: "a[b]" is a member, "a[]" and repeated names make lists. A file becomes "form:NAME", or "form:NAME#2" and so on; no
// other part of a request can be named so by accident.
// Errors (usage): not JSON, not an object, nested too deeply, not UTF-8; a key in two places with different values.
Result<Body> read_body(const http::HttpRequest& request);

// The file behind "form:NAME#N"; null if there is none.
const http::FormField* form_file(const http::HttpRequest& request, std::string_view uri);

}  // namespace tritium::server::native
