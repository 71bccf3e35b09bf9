// Events of jobs as server-sent events, for any number of readers: each event is written down once and sent to all who want it.
#pragma once

#include "job/service.h"
#include "server/http/message.h"

#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <mutex>

namespace tritium::server::native {

// Names of events: "state" (data: the whole job), "progress", "preview" (a JPEG as base64) and "removed". Every event has an id; a reader
// that comes back with the last one it saw gets what it missed, as long as it is among the last `kept`, and otherwise how things stand.
class EventHub {
 public:
  EventHub(JobService& service, std::string model, std::size_t kept);
  ~EventHub();  // closes all streams
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  // `id`: of one job; its stream ends with the job. Empty: all jobs of the owner, beginning with those that are not finished.
  void open(const std::string& owner, const std::string& id, std::uint64_t last_seen, std::shared_ptr<http::Stream> stream);

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::string job;
    std::string text;   // "event: ...\ndata: ...\n\n"
    bool last = false;  // of its job
    bool keep = true;
  };
  struct Pace {
    std::string stage;
    std::chrono::steady_clock::time_point last;
  };
  struct Reader {
    std::string job;  // empty: all
    std::shared_ptr<http::Stream> stream;
    bool waiting = true;  // for the beginning; what happens meanwhile is collected
    std::vector<Entry> collected;
  };
  struct Channel {  // of one owner
    std::unique_ptr<JobService::Subscription> subscription;
    std::map<std::string, Pace> paces;  // of jobs that run
    std::deque<Entry> kept;
    std::uint64_t forgotten = 0;  // id of the last event that is not kept any more
    std::list<std::shared_ptr<Reader>> readers;
  };

  Channel& channel_of(const std::string& owner);
  Entry entry_of(const JobEvent& event) const;
  void take(Channel& channel, const JobEvent& event);
  // Steps of small models follow each other faster than anybody reads: of a job's progress at most so much is told, but every new stage.
  bool too_soon(Channel& channel, const JobEvent& event);
  static bool wants(const Reader& reader, const Entry& entry) { return reader.job.empty() || reader.job == entry.job; }
  static void write(Reader& reader, const Entry& entry);
  // What is there now, for a reader that has seen nothing.
  std::vector<Entry> beginning(const std::string& owner, const std::string& id);

  JobService& service_;
  std::string model_;
  std::size_t kept_;
  std::mutex subscribing_;  // never taken by callbacks of the service
  std::mutex mutex_;        // of channels; callbacks of the service wait for it, so the service is not called under it
  std::map<std::string, Channel> channels_;
};

// "123" or "123-end" of the header Last-Event-ID; 0: none.
std::uint64_t last_event_of(std::string_view header);
// The reader has seen the end of its job: nothing more will come.
bool has_seen_the_end(std::string_view header);

}  // namespace tritium::server::native
