// Events of jobs as messages to clients.
#include "server/comfy/hub_state.h"

#include <algorithm>
#include <chrono>

namespace tritium::server::comfy {
namespace {

std::int64_t now_millis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Json status_data(const OwnerState& owner) { return {{"status", {{"exec_info", {{"queue_remaining", owner.jobs.size()}}}}}}; }

Json place(const std::string& node, const std::string& prompt_id) {
  return {{"node", node}, {"display_node", node}, {"prompt_id", prompt_id}};
}

Json progress_state(const Track& track, const std::string& prompt_id) {
  Json nodes = Json::object();
  const auto add = [&](const std::string& node, int value, int most, const char* state) {
    nodes[node] = {{"value", value},
                   {"max", most},
                   {"state", state},
                   {"node_id", node},
                   {"prompt_id", prompt_id},
                   {"display_node_id", node},
                   {"parent_node_id", nullptr},
                   {"real_node_id", node}};
  };
  for (const std::string& node : track.finished) add(node, 1, 1, "finished");
  if (!track.node.empty()) add(track.node, track.step, std::max(track.of, 1), "running");
  return {{"prompt_id", prompt_id}, {"nodes", nodes}};
}

void Hub::State::send(OwnerState& owner, const std::string& client_id, const std::string& text) {
  const auto found = owner.clients.find(client_id);
  if (found != owner.clients.end()) found->second.socket->send_text(text);
}

void Hub::State::broadcast_status(OwnerState& owner) {
  const std::string text = message("status", status_data(owner));
  for (auto& [id, client] : owner.clients) client.socket->send_text(text);
}

Track& Hub::State::track_of(OwnerState& owner, const Job& job) {
  const auto found = owner.jobs.find(job.id);
  if (found != owner.jobs.end()) return found->second;
  Track track;
  track.record = decode_record(job.spec.dialect_data);
  return owner.jobs.emplace(job.id, std::move(track)).first->second;
}

void Hub::State::begin(OwnerState& owner, Track& track, const Job& job) {
  if (track.begun) return;
  track.begun = true;
  const std::string client = track.record.client_id();
  const std::int64_t time = job.started > 0 ? job.started : now_millis();
  send(owner, client, message("execution_start", {{"prompt_id", job.id}, {"timestamp", time}}));
  send(owner, client, message("execution_cached", {{"nodes", Json::array()}, {"prompt_id", job.id}, {"timestamp", time}}));
}

void Hub::State::enter(OwnerState& owner, Track& track, const std::string& prompt_id, const std::string& node) {
  if (node.empty() || node == track.node) return;
  if (!track.node.empty() && std::find(track.finished.begin(), track.finished.end(), track.node) == track.finished.end())
    track.finished.push_back(track.node);
  track.node = node;
  track.step = track.of = 0;
  send(owner, track.record.client_id(), message("executing", place(node, prompt_id)));
}

void Hub::State::finish(OwnerState& owner, Track& track, const Job& job) {
  const std::string client = track.record.client_id();
  const bool ran = track.begun || job.started > 0;
  if (ran) {
    begin(owner, track, job);
    if (job.state == JobState::completed) {
      for (std::size_t i = 0; i < track.record.outputs.size(); ++i) {
        const std::string& node = track.record.outputs[i].id;
        enter(owner, track, job.id, node);
        Json data = place(node, job.id);
        data["output"] = node_output(job, track.record, i);
        send(owner, client, message("executed", data));
      }
    }
    const EndEvent end = end_event(job, track.record);
    send(owner, client, message(end.type, end.data));
  }
  owner.jobs.erase(job.id);
  broadcast_status(owner);
  if (ran) send(owner, client, message("executing", {{"node", nullptr}, {"prompt_id", job.id}}));
}

void Hub::State::on_state(OwnerState& owner, const Job& job) {
  if (is_terminal(job.state) && owner.listing) owner.ended_meanwhile.insert(job.id);
  if (is_terminal(job.state) && owner.jobs.count(job.id) == 0) return;  // it ended before, or nobody was told of it
  Track& track = track_of(owner, job);
  if (is_terminal(job.state)) {
    Track last = track;
    finish(owner, last, job);
    return;
  }
  if (job.state == JobState::running) begin(owner, track, job);
  if (job.state == JobState::queued && track.begun) {  // a worker died: the job begins again
    Record record = std::move(track.record);
    track = Track();
    track.record = std::move(record);
  }
  broadcast_status(owner);
}

void Hub::State::on_progress(OwnerState& owner, const Job& job) {
  if (job.state != JobState::running) return;
  Track& track = track_of(owner, job);
  begin(owner, track, job);
  enter(owner, track, job.id, track.record.node_of(job.progress.stage));
  track.step = job.progress.step;
  track.of = job.progress.of;
  if (track.node.empty()) return;
  const std::string client = track.record.client_id();
  send(owner, client, message("progress", {{"value", track.step}, {"max", track.of}, {"prompt_id", job.id}, {"node", track.node}}));
  send(owner, client, message("progress_state", progress_state(track, job.id)));
}

void Hub::State::on_preview(OwnerState& owner, const Job& job, const std::string& jpeg) {
  Track& track = track_of(owner, job);
  const auto found = owner.clients.find(track.record.client_id());
  if (found == owner.clients.end()) return;
  const std::string node = track.node.empty() ? track.record.node_of("denoise") : track.node;
  const Json metadata{{"node_id", node},         {"prompt_id", job.id},       {"image_type", "image/jpeg"},
                      {"display_node_id", node}, {"parent_node_id", nullptr}, {"real_node_id", node}};
  found->second.socket->send_binary(found->second.wants_metadata ? preview_message(jpeg, metadata) : preview_message(jpeg));
}

void Hub::State::on_event(const std::string& owner_name, const JobEvent& event) {
  if (!event.job || event.job->spec.dialect != "comfy") return;
  const Job& job = *event.job;
  const std::lock_guard lock(mutex);
  OwnerState& owner = owners[owner_name];
  switch (event.kind) {
    case JobEvent::Kind::state:
      return on_state(owner, job);
    case JobEvent::Kind::progress:
      return on_progress(owner, job);
    case JobEvent::Kind::preview:
      if (event.preview && job.state == JobState::running) on_preview(owner, job, *event.preview);
      return;
    case JobEvent::Kind::removed:
      if (owner.listing) owner.ended_meanwhile.insert(job.id);
      if (owner.jobs.erase(job.id) > 0) broadcast_status(owner);
      return;
  }
}

}  // namespace tritium::server::comfy
