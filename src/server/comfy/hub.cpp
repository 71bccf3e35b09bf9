#include "server/comfy/hub.h"

#include "base/system.h"
#include "server/comfy/messages.h"
#include "server/comfy/names.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

namespace tritium::server::comfy {
namespace {

std::int64_t now_millis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Client {
  std::shared_ptr<http::WebSocket> socket;
  bool wants_metadata = false;
};

// A job that is not finished, as it was last heard of.
struct Track {
  Record record;
  bool begun = false;
  std::string node;  // that is being executed
  int step = 0, of = 0;
  std::vector<std::string> finished;
};

struct OwnerState {
  std::map<std::string, Client> clients;  // by client id
  std::map<std::string, Track> jobs;      // by prompt id
  bool listing = false;                   // the jobs that were there before are being added
  std::set<std::string> ended_meanwhile;
};

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

}  // namespace

// Locked while messages are written, so that they keep their order; sending never waits.
struct Hub::State {
  explicit State(JobService& s) : service(s) {}

  JobService& service;
  std::mutex mutex;
  std::map<std::string, OwnerState> owners;
  std::map<std::string, std::unique_ptr<JobService::Subscription>> subscriptions;  // by owner

  void on_event(const std::string& owner_name, const JobEvent& event);
  void send(OwnerState& owner, const std::string& client_id, const std::string& text);
  void broadcast_status(OwnerState& owner);
  void on_state(OwnerState& owner, const Job& job);
  void on_progress(OwnerState& owner, const Job& job);
  void on_preview(OwnerState& owner, const Job& job, const std::string& jpeg);
  void begin(OwnerState& owner, Track& track, const Job& job);
  void enter(OwnerState& owner, Track& track, const std::string& prompt_id, const std::string& node);
  void finish(OwnerState& owner, Track& track, const Job& job);
  Track& track_of(OwnerState& owner, const Job& job);
  void add_earlier(const std::string& owner_name);
  void greet(OwnerState& owner, const std::string& client_id);
};

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

// Jobs that were submitted before the first client of this owner came.
void Hub::State::add_earlier(const std::string& owner_name) {
  std::vector<Job> found;
  JobQuery query;
  query.owner = owner_name;
  query.dialect = "comfy";
  query.states = {JobState::queued, JobState::running};
  query.limit = 1000;
  for (bool more = true; more;) {
    const auto page = service.list(query);
    more = page.ok() && page->has_more && !page->jobs.empty();
    if (!page.ok()) break;
    if (!page->jobs.empty()) query.after = page->jobs.back().id;
    found.insert(found.end(), page->jobs.begin(), page->jobs.end());
  }
  const std::lock_guard lock(mutex);
  OwnerState& owner = owners[owner_name];
  for (const Job& job : found) {
    if (owner.ended_meanwhile.count(job.id) != 0 || owner.jobs.count(job.id) != 0) continue;
    Track& track = track_of(owner, job);
    track.begun = job.state == JobState::running;
    if (track.begun) {
      track.node = track.record.node_of(job.progress.stage);
      track.step = job.progress.step;
      track.of = job.progress.of;
    }
  }
  owner.listing = false;
  owner.ended_meanwhile.clear();
}

void Hub::State::greet(OwnerState& owner, const std::string& client_id) {
  Json data = status_data(owner);
  data["sid"] = client_id;
  send(owner, client_id, message("status", data));
  for (const auto& [id, track] : owner.jobs) {
    if (!track.begun || track.node.empty() || track.record.client_id() != client_id) continue;
    send(owner, client_id, message("executing", place(track.node, id)));
    send(owner, client_id, message("progress_state", progress_state(track, id)));
  }
}

Hub::Hub(JobService& service) : state_(std::make_shared<State>(service)) {}

Hub::~Hub() {
  // Subscriptions end before anything they use; sockets may live on and find nobody.
  std::map<std::string, std::unique_ptr<JobService::Subscription>> last;
  {
    const std::lock_guard lock(state_->mutex);
    last.swap(state_->subscriptions);
  }
  last.clear();
  std::vector<Client> clients;  // they may call back when they go
  const std::lock_guard lock(state_->mutex);
  for (auto& [name, owner] : state_->owners) {
    for (auto& [id, client] : owner.clients) clients.push_back(std::move(client));
    owner.clients.clear();
  }
}

void Hub::connect(const std::string& owner, std::string client_id, std::shared_ptr<http::WebSocket> socket) {
  if (client_id.empty() || client_id.size() > 200) client_id = new_uuid();
  const std::shared_ptr<State> state = state_;
  bool first = false;
  {
    const std::lock_guard lock(state->mutex);
    first = state->subscriptions.find(owner) == state->subscriptions.end();
    if (first) {
      state->subscriptions[owner] = nullptr;  // taken
      state->owners[owner].listing = true;
    }
  }
  if (first) {
    State* raw = state.get();  // the subscription ends before it
    auto subscription = state->service.subscribe(owner, "", [raw, owner](const JobEvent& event) { raw->on_event(owner, event); });
    {
      const std::lock_guard lock(state->mutex);
      state->subscriptions[owner] = std::move(subscription);
    }
    state->add_earlier(owner);
  }
  std::shared_ptr<http::WebSocket> replaced;
  {
    const std::lock_guard lock(state->mutex);
    OwnerState& there = state->owners[owner];
    replaced = std::exchange(there.clients[client_id], Client{socket, false}).socket;
    state->greet(there, client_id);
  }
  if (replaced) replaced->close();
  const std::weak_ptr<State> weak = state;
  const http::WebSocket* self = socket.get();
  socket->on_text([weak, owner, client_id](const std::string& text) {
    const auto alive = weak.lock();
    if (!alive || text.size() > 65536) return;
    const auto document = parse_document(text);
    if (!document.ok() || !document->is_object()) return;
    const auto type = document->find("type");
    if (type == document->end() || *type != "feature_flags") return;
    const std::lock_guard lock(alive->mutex);
    OwnerState& there = alive->owners[owner];
    const auto client = there.clients.find(client_id);
    if (client == there.clients.end()) return;
    const auto data = document->find("data");
    const auto wish = data != document->end() && data->is_object() ? data->find("supports_preview_metadata") : document->end();
    client->second.wants_metadata = data != document->end() && data->is_object() && wish != data->end() && *wish == true;
    alive->send(there, client_id, message("feature_flags", Json::parse(server_features())));
  });
  socket->on_close([weak, owner, client_id, self] {
    const auto alive = weak.lock();
    if (!alive) return;
    std::shared_ptr<http::WebSocket> last;  // goes without the lock
    const std::lock_guard lock(alive->mutex);
    auto& clients = alive->owners[owner].clients;
    const auto client = clients.find(client_id);
    if (client == clients.end() || client->second.socket.get() != self) return;
    last = std::move(client->second.socket);
    clients.erase(client);
  });
}

std::string server_features() { return text_of({{"supports_preview_metadata", true}, {"max_upload_size", 104857600}, {"tritium", true}}); }

}  // namespace tritium::server::comfy
