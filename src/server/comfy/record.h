// What a ComfyUI job remembers of its prompt: the dialect's part of a job.
#pragma once

#include "server/comfy/translate.h"

namespace tritium::server::comfy {

struct Record {
  Json prompt = Json::object();  // as it came
  Json extra = Json::object();   // extra_data, with client_id and create_time, without secrets
  std::optional<double> number;  // given by the client
  bool front = false;
  std::vector<OutputNode> outputs;
  std::vector<Note> notes;
  std::map<std::string, std::string> stages;  // stage → node
  std::vector<std::string> order;

  [[nodiscard]] std::string client_id() const;
  [[nodiscard]] std::string workflow_id() const;
  [[nodiscard]] std::string class_of(const std::string& node) const;
  // The node that a stage of the engine stands for; empty: none.
  [[nodiscard]] std::string node_of(const std::string& stage) const;
};

std::string encode_record(const Record& record);
// An empty record for anything that is none.
Record decode_record(const std::string& text);

// extra_data of a request without what must not be stored.
Json without_secrets(const Json& extra_data);

Json notes_json(const std::vector<Note>& notes);

// Any document as text; bytes that are not UTF-8 are replaced.
std::string text_of(const Json& document);
// A document of a stranger. Error (usage): not JSON, or deeper than 100 levels.
Result<Json> parse_document(const std::string& text);

}  // namespace tritium::server::comfy
