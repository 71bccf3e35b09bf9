// What the hub knows: clients and unfinished jobs of every owner.
#pragma once

#include "server/comfy/hub.h"
#include "server/comfy/messages.h"

#include <map>
#include <mutex>
#include <set>

namespace tritium::server::comfy {

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

Json status_data(const OwnerState& owner);
Json place(const std::string& node, const std::string& prompt_id);
Json progress_state(const Track& track, const std::string& prompt_id);

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

}  // namespace tritium::server::comfy
