#include "server/comfy/messages.h"

#include "server/comfy/names.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

void append_big_endian(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

const char* type_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "ValueError";
    case ErrorCode::does_not_fit:
      return "OutOfMemoryError";
    case ErrorCode::model:
      return "ModelError";
    case ErrorCode::device:
      return "DeviceError";
    case ErrorCode::rejected:
      return "OutputRejected";
    case ErrorCode::interrupted:
      return "Interrupted";
    default:
      return "RuntimeError";
  }
}

Json saved_file(const std::string& name, const std::string& subfolder) {
  return {{"filename", name}, {"subfolder", subfolder}, {"type", "output"}};
}

// Nodes that were done before the one where a job ended.
std::vector<std::string> executed_before(const Record& record, const std::string& node) {
  const auto end = std::find(record.order.begin(), record.order.end(), node);
  return end == record.order.end() ? std::vector<std::string>() : std::vector<std::string>(record.order.begin(), end);
}

const char* status_word(const Job& job) {
  switch (job.state) {
    case JobState::queued:
      return "pending";
    case JobState::running:
      return "in_progress";
    case JobState::completed:
      return "completed";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
  }
  return "failed";
}

}  // namespace

std::string message(const std::string& type, const Json& data) { return text_of({{"type", type}, {"data", data}}); }

double queue_number(const Job& job, const Record& record) {
  if (record.number) return *record.number;
  return static_cast<double>(record.front ? -job.sequence : job.sequence);
}

Json queue_item(const Job& job, const Record& record) {
  Json outputs = Json::array();
  for (const OutputNode& each : record.outputs) outputs.push_back(each.id);
  return Json::array({queue_number(job, record), job.id, record.prompt, record.extra, outputs});
}

Json node_output(const Job& job, const Record& record, std::size_t index) {
  const OutputNode& node = record.outputs[index];
  const std::string name = clip_file_name(node.prefix, job.id, index + 1);
  const Json file = saved_file(name, node.subfolder);
  if (node.class_type != "VHS_VideoCombine")
    return {{"images", Json::array({file})}, {"animated", Json::array({true})}, {"videos", Json::array({file})}};
  Json gif = file;
  gif["format"] = "video/h264-mp4";
  gif["frame_rate"] = 24.0;
  return {{"gifs", Json::array({gif})}, {"videos", Json::array({file})}};
}

Json outputs_json(const Job& job, const Record& record) {
  Json out = Json::object();
  if (job.state != JobState::completed) return out;
  for (std::size_t i = 0; i < record.outputs.size(); ++i) out[record.outputs[i].id] = node_output(job, record, i);
  return out;
}

bool in_history(const Job& job) { return is_terminal(job.state) && (job.state != JobState::cancelled || job.started > 0); }

EndEvent end_event(const Job& job, const Record& record) {
  if (job.state == JobState::completed) return {"execution_success", {{"prompt_id", job.id}, {"timestamp", job.finished}}};
  const std::string stage = job.error && !job.error->stage.empty() ? job.error->stage : job.progress.stage;
  std::string node = record.node_of(stage);
  if (node.empty()) node = record.node_of("denoise");
  Json data{{"prompt_id", job.id}, {"node_id", node}, {"node_type", record.class_of(node)}, {"executed", executed_before(record, node)}};
  if (job.state == JobState::cancelled) {
    data["timestamp"] = job.finished;
    return {"execution_interrupted", data};
  }
  const JobError error = job.error.value_or(JobError{});
  data["exception_message"] = Error{error.code, error.message, error.field, error.hint}.text();
  data["exception_type"] = type_of(error.code);
  data["traceback"] = Json::array();
  if (!error.last_words.empty()) data["traceback"].push_back(error.last_words);
  data["current_inputs"] = Json::object();
  data["current_outputs"] = Json::array();
  data["timestamp"] = job.finished;
  return {"execution_error", data};
}

Json adjustments_json(const Plan& plan, const std::vector<Note>& notes) {
  Json out = notes_json(notes);
  for (const Adjustment& a : plan.adjustments)
    out.push_back({{"node_id", ""}, {"class_type", ""}, {"input", a.field}, {"from", a.from}, {"to", a.to}, {"reason", a.reason}});
  return out;
}

Json history_entry(const Job& job, const Record& record) {
  Json messages = Json::array();
  messages.push_back({"execution_start", {{"prompt_id", job.id}, {"timestamp", job.started}}});
  messages.push_back({"execution_cached", {{"nodes", Json::array()}, {"prompt_id", job.id}, {"timestamp", job.started}}});
  const EndEvent end = end_event(job, record);
  messages.push_back({end.type, end.data});
  Json meta = Json::object();
  if (job.state == JobState::completed)
    for (const OutputNode& each : record.outputs)
      meta[each.id] = {{"node_id", each.id}, {"display_node", each.id}, {"parent_node", nullptr}, {"real_node_id", each.id}};
  const bool good = job.state == JobState::completed;
  return {{"prompt", queue_item(job, record)},
          {"outputs", outputs_json(job, record)},
          {"status", {{"status_str", good ? "success" : "error"}, {"completed", good}, {"messages", messages}}},
          {"meta", meta},
          {"adjustments", adjustments_json(job.plan, record.notes)}};
}

Json job_json(const Job& job, const Record& record, bool whole) {
  const bool done = job.state == JobState::completed;
  const std::size_t count = done ? record.outputs.size() : 0;
  Json out{{"id", job.id}, {"status", status_word(job)}, {"priority", queue_number(job, record)}, {"create_time", job.created}};
  if (job.started > 0) out["execution_start_time"] = job.started;
  if (job.finished > 0) out["execution_end_time"] = job.finished;
  if (job.state == JobState::failed) out["execution_error"] = end_event(job, record).data;
  out["outputs_count"] = count;
  out["previewable_outputs_count"] = count;
  if (count > 0) {
    const OutputNode& first = record.outputs.front();
    out["preview_output"] = saved_file(clip_file_name(first.prefix, job.id, 1), first.subfolder);
    out["preview_output"]["nodeId"] = first.id;
    out["preview_output"]["mediaType"] = "video";
  }
  if (const std::string id = record.workflow_id(); !id.empty()) out["workflow_id"] = id;
  if (!whole) return out;
  if (is_terminal(job.state)) {
    const Json entry = history_entry(job, record);
    out["outputs"] = entry["outputs"];
    out["execution_status"] = entry["status"];
    out["adjustments"] = entry["adjustments"];
  }
  out["workflow"] = {{"prompt", record.prompt}, {"extra_data", record.extra}};
  return out;
}

std::string preview_message(const std::string& jpeg) {
  std::string out;
  append_big_endian(out, 1);
  append_big_endian(out, 1);
  return out + jpeg;
}

std::string preview_message(const std::string& jpeg, const Json& metadata) {
  const std::string document = text_of(metadata);
  std::string out;
  append_big_endian(out, 4);
  append_big_endian(out, static_cast<std::uint32_t>(document.size()));
  return out + document + jpeg;
}

}  // namespace tritium::server::comfy
