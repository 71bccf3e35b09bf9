#include "server/minimax/callbacks.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "server/input/url_fetch.h"
#include "server/minimax/facade.h"
#include "server/minimax/fields.h"

#include <fmt/format.h>
#include <algorithm>
#include <random>
#include <sstream>

namespace tritium::server::minimax {
namespace {

constexpr double kAnswerSeconds = 3;
constexpr int kMostTries = 3;
constexpr double kBetweenTries = 5;  // seconds
constexpr std::size_t kMostWaiting = 10000;

std::string new_challenge() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", source(), source(), source(), source());
}

}  // namespace

Callbacks::Callbacks(const std::filesystem::path& folder, JobService& service, const Links& links, UrlPolicy policy)
    : file_(folder / "callback_owners.txt"), service_(service), links_(links), policy_(std::move(policy)) {
  std::error_code ignored;
  if (!policy_.allowed || !std::filesystem::exists(file_, ignored)) return;
  const auto text = read_file(file_);
  if (!text.ok()) return;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) listen(line);
}

Callbacks::~Callbacks() {
  {
    const std::lock_guard lock(owners_mutex_);
    owners_.clear();
  }
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<void> Callbacks::prove(const std::string& url) const {
  const std::string challenge = new_challenge();
  const auto answer = post_json(url, policy_, text_of({{"challenge", challenge}}), kAnswerSeconds);
  if (!answer.ok()) return Error{answer.error().code, answer.error().message, "callback_url", answer.error().hint};
  const Json document = Json::parse(*answer, nullptr, false);
  if (document.is_object() && document.contains("challenge") && document["challenge"] == challenge) return {};
  return wrong("callback_url", "the address did not give the challenge back",
               R"(answer {"challenge": "..."} with the value that was sent, within 3 seconds)");
}

Result<void> Callbacks::follow(const std::string& owner) {
  {
    const std::lock_guard lock(owners_mutex_);
    if (owners_.count(owner) != 0) return {};
  }
  listen(owner);
  const std::lock_guard lock(owners_mutex_);
  std::string text;
  for (const auto& [name, subscription] : owners_) text += name + "\n";
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  return write_file_atomically(file_, text);
}

void Callbacks::listen(const std::string& owner) {
  auto subscription = service_.subscribe(owner, "", [this](const JobEvent& event) { on_event(event); });
  {
    const std::lock_guard lock(owners_mutex_);
    auto& place = owners_[owner];
    if (place == nullptr) place = std::move(subscription);
  }
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { deliver(); });
}

void Callbacks::on_event(const JobEvent& event) {
  if (event.kind != JobEvent::Kind::state || !event.job || event.job->spec.dialect != "minimax") return;
  const Job& job = *event.job;
  const Creation wish = decode_creation(job.spec.dialect_data);
  if (wish.callback_url.empty()) return;
  const std::string link = job.state == JobState::completed ? links_.address(wish.link_base, job.id, job.spec.owner, unix_seconds()) : "";
  const Json document{{"task_id", job.id}, {"status", status_word(job.state)}, {"task", task_json(job, link)}};
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) return;
    waiting_.push_back({wish.callback_url, text_of(document), 0, 0});
  }
  wake_.notify_all();
}

void Callbacks::deliver() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const double now = monotonic_seconds();
    const auto due = std::find_if(waiting_.begin(), waiting_.end(), [now](const Message& each) { return each.not_before <= now; });
    if (due == waiting_.end()) {
      waiting_.empty() ? wake_.wait(lock) : static_cast<void>(wake_.wait_for(lock, std::chrono::seconds(1)));
      continue;
    }
    Message message = std::move(*due);
    waiting_.erase(due);
    lock.unlock();
    const bool done = post_json(message.url, policy_, message.document, kAnswerSeconds).ok();
    lock.lock();
    if (done || ++message.tries >= kMostTries) continue;
    message.not_before = monotonic_seconds() + kBetweenTries;
    waiting_.push_back(std::move(message));
  }
}

}  // namespace tritium::server::minimax
