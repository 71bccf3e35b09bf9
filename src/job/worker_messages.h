// The documents in the frames of worker_protocol.h. `planned`, `progress` and `done` carry a Plan, Progress and Artifact; `cancel`
// carries nothing.
#pragma once

#include <tritium/engine.h>

namespace tritium {

struct HelloMessage {
  int protocol = 0;
  std::string version;
};

// `folder` in these: where the caller stands now, so that relative names mean the same for both; empty if it has none.
struct OpenMessage {
  std::filesystem::path folder;
  EngineOptions options;
};

struct OpenedMessage {
  std::string model_json, model_text;
  std::vector<std::string> memory_budgets;  // Engine::memory_budgets()
};

struct PlanMessage {
  std::filesystem::path folder;
  Request request;
};

struct GenerateMessage {
  std::filesystem::path folder;
  Request request;
  OutputOptions output;
  bool cancelled = false;  // before it began
  bool previews = false;   // are wanted
};

struct FailedMessage {
  Error error;
};

}  // namespace tritium
