// A request body into a job: what OpenAI's, SGLang's, vLLM-Omni's and FastVideo's fields mean for this model (docs/serving.md).
#pragma once

#include "job/service.h"
#include "model/geometry/canvas.h"
#include "server/input/media_input.h"

#include <map>

namespace tritium::server::native {

// What the dialect remembers of a request: the rest of the answer follows from the job.
struct Asked {
  std::string seconds;                  // as the client wrote it
  std::string user;                     // an identifier of the client's own
  std::string remixed_from;             // id of a job
  std::vector<Adjustment> adjustments;  // made here, before the plan's
  std::vector<std::string> warnings;
};
std::string to_json(const Asked& asked);         // JobSpec::dialect_data
Asked asked_from_json(const std::string& text);  // anything else gives an empty one

struct Translated {
  JobSpec spec;
  Asked asked;
  std::map<std::string, std::string> names;  // of the request's fields, as the client calls them

  // With the client's name for the field.
  [[nodiscard]] Error in_clients_words(Error error) const;
};

// Where a body may point to.
struct Sources {
  const http::HttpRequest& request;
  MediaInputs& inputs;
  JobService& service;
  std::string model;  // what the server runs
  Size default_size;  // of its clips
};

// Errors (usage) name field, value and what is allowed.
Result<Translated> translate(const Sources& sources);

// An input of a job by its name in such a URI: "first_frame", "references/0", "references/0/sound", "retake", ...; empty: there is none.
std::filesystem::path input_of(const Request& request, std::string_view name);
// Those there are.
std::vector<std::string> input_names(const Request& request);

}  // namespace tritium::server::native
