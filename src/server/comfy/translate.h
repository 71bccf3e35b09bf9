// A ComfyUI prompt as a request to this engine.
#pragma once

#include "server/comfy/evaluator.h"

namespace tritium::server::comfy {

// An output node, and what its files are called.
struct OutputNode {
  std::string id, class_type;
  std::string subfolder, prefix;  // "video", "MiniMax_H3"
};

struct Translation {
  Request request;
  std::vector<OutputNode> outputs;                                     // those that can be run
  std::vector<Note> notes;                                             // what is done in another way
  std::map<std::string, std::string> stages;                           // stage of the engine ("text", "denoise", ...) → node
  std::map<std::string, std::pair<std::string, std::string>> sources;  // field of the request → node and input
  std::vector<std::string> order;                                      // nodes as they are executed
};

struct Translated {
  std::optional<Translation> work;    // nothing: `error` says why
  Json node_errors = Json::object();  // of outputs that cannot be run, also when others can
  std::optional<PromptError> error;
};

// `targets`: output nodes that are wanted; empty: all. `now`: seconds since 1970, for %year% and the like in names of files.
// Only nodes that an output needs are looked at. All wanted outputs have to come from one sampler, since one prompt makes one clip.
Translated translate(const Json& prompt, const std::vector<std::string>& targets, const GraphEnvironment& environment, std::int64_t now);

// A node_errors document with one problem at a node of the graph.
Json node_error(const Json& prompt, const std::string& node, const std::string& input, const std::string& message);

}  // namespace tritium::server::comfy
