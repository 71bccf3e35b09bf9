#include "server/native/event_hub.h"

#include "base/base64.h"
#include "server/native/answers.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>

namespace tritium::server::native {

using nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostAtBeginning = 100;
constexpr std::chrono::milliseconds kBetweenProgress{200};

std::string sse(const char* event, const ordered_json& data) { return fmt::format("event: {}\ndata: {}\n\n", event, dump(data)); }

}  // namespace

std::uint64_t last_event_of(std::string_view header) {
  std::uint64_t out = 0;
  std::from_chars(header.data(), header.data() + header.size(), out);
  return out;
}

bool has_seen_the_end(std::string_view header) { return header.ends_with("-end"); }

EventHub::EventHub(JobService& service, std::string model, std::size_t kept) : service_(service), model_(std::move(model)), kept_(kept) {}

EventHub::~EventHub() {
  std::vector<std::unique_ptr<JobService::Subscription>> subscriptions;
  std::vector<std::shared_ptr<Reader>> readers;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& [owner, channel] : channels_) {
      subscriptions.push_back(std::move(channel.subscription));
      readers.insert(readers.end(), channel.readers.begin(), channel.readers.end());
    }
  }
  subscriptions.clear();  // waits for callbacks, which need the lock
  for (const auto& reader : readers) reader->stream->close();
}

EventHub::Entry EventHub::entry_of(const JobEvent& event) const {
  const Job& job = *event.job;
  Entry out{event.id, job.id, {}, false, true};
  switch (event.kind) {
    case JobEvent::Kind::state:
      out.text = sse("state", video_json(job, model_));
      out.last = is_terminal(job.state);
      break;
    case JobEvent::Kind::progress: {
      ordered_json data{{"id", job.id}};
      data.update(progress_json(job));
      out.text = sse("progress", data);
      break;
    }
    case JobEvent::Kind::preview: {
      ordered_json data{{"id", job.id}, {"mime_type", "image/jpeg"}, {"data", event.preview ? base64_encode(*event.preview) : ""}};
      data.update(progress_json(job));
      out.text = sse("preview", data);
      out.keep = false;  // large, and of no use later
      break;
    }
    case JobEvent::Kind::removed:
      out.text = sse("removed", {{"id", job.id}});
      out.last = true;
      break;
  }
  return out;
}

void EventHub::write(Reader& reader, const Entry& entry) {
  if (reader.stream->closed()) return;
  const bool ends = entry.last && !reader.job.empty();
  const std::string id = entry.id == 0 ? "" : fmt::format("id: {}{}\n", entry.id, ends ? "-end" : "");
  if (reader.stream->write(id + entry.text) && ends) reader.stream->close();
}

bool EventHub::too_soon(Channel& channel, const JobEvent& event) {
  const Job& job = *event.job;
  const std::scoped_lock lock(mutex_);
  if (event.kind != JobEvent::Kind::progress) {
    if (event.kind != JobEvent::Kind::preview) channel.paces.erase(job.id);
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  Pace& pace = channel.paces[job.id];
  if (pace.stage == job.progress.stage && now - pace.last < kBetweenProgress) return true;
  pace = {job.progress.stage, now};
  return false;
}

void EventHub::take(Channel& channel, const JobEvent& event) {
  if (too_soon(channel, event)) return;
  Entry entry = entry_of(event);
  const std::scoped_lock lock(mutex_);
  channel.readers.remove_if([](const auto& reader) { return reader->stream->closed(); });
  for (const auto& reader : channel.readers) {
    if (!wants(*reader, entry)) continue;
    if (reader->waiting)
      reader->collected.push_back(entry);
    else
      write(*reader, entry);
  }
  if (!entry.keep) return;
  channel.kept.push_back(std::move(entry));
  if (channel.kept.size() <= kept_) return;
  channel.forgotten = channel.kept.front().id;
  channel.kept.pop_front();
}

EventHub::Channel& EventHub::channel_of(const std::string& owner) {
  const std::scoped_lock subscribing(subscribing_);
  Channel* channel = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    channel = &channels_[owner];
  }
  if (!channel->subscription) {
    auto subscription = service_.subscribe(owner, "", [this, channel](const JobEvent& event) { take(*channel, event); });
    const std::scoped_lock lock(mutex_);
    channel->subscription = std::move(subscription);
    channel->forgotten = ~std::uint64_t{0};  // what was before is not known; the first event says from where on it is
  }
  return *channel;
}

std::vector<EventHub::Entry> EventHub::beginning(const std::string& owner, const std::string& id) {
  std::vector<Entry> out;
  const auto add = [&](const Job& job) {
    out.push_back({0, job.id, sse("state", video_json(job, model_)), is_terminal(job.state), false});
  };
  if (!id.empty()) {
    if (const auto job = service_.get(id, owner); job.ok()) add(*job);
    return out;
  }
  JobQuery query;
  query.owner = owner;
  query.states = {JobState::queued, JobState::running};
  query.limit = kMostAtBeginning;
  query.oldest_first = true;
  if (const auto page = service_.list(query); page.ok()) std::for_each(page->jobs.begin(), page->jobs.end(), add);
  return out;
}

void EventHub::open(const std::string& owner, const std::string& id, std::uint64_t last_seen, std::shared_ptr<http::Stream> stream) {
  Channel& channel = channel_of(owner);
  auto reader = std::make_shared<Reader>(Reader{id, std::move(stream), true, {}});
  if (!reader->stream->write("retry: 2000\n\n")) return;
  bool missed_is_kept = false;
  {
    const std::scoped_lock lock(mutex_);
    channel.readers.remove_if([](const auto& other) { return other->stream->closed(); });
    // Nothing is missing between what was seen and what is kept.
    const bool known = channel.forgotten == ~std::uint64_t{0} ? !channel.kept.empty() && channel.kept.front().id <= last_seen
                                                              : channel.forgotten <= last_seen;
    missed_is_kept = last_seen != 0 && known;
    if (missed_is_kept) {
      for (const Entry& entry : channel.kept)
        if (entry.id > last_seen && wants(*reader, entry)) write(*reader, entry);
      reader->waiting = false;
    }
    channel.readers.push_back(reader);
  }
  if (missed_is_kept) return;
  const std::vector<Entry> now = beginning(owner, id);
  const std::scoped_lock lock(mutex_);
  for (const Entry& entry : now) write(*reader, entry);
  for (const Entry& entry : reader->collected) write(*reader, entry);
  reader->collected.clear();
  reader->waiting = false;
}

}  // namespace tritium::server::native
