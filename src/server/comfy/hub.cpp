#include "server/comfy/hub.h"

#include "server/comfy/hub_state.h"
#include "server/comfy/names.h"

namespace tritium::server::comfy {

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

void Hub::connect(const std::string& owner, std::string client_id, const std::shared_ptr<http::WebSocket>& socket) {
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
