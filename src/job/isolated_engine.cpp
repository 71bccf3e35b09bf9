#include "job/isolated_engine.h"

#include "base/try.h"
#include "job/worker_client.h"
#include "pipeline/leftovers.h"

#include <sys/stat.h>

namespace tritium {
namespace fs = std::filesystem;
namespace {

fs::path current_folder() {
  std::error_code ignored;
  return fs::current_path(ignored);
}

// By the program's own name, so that a list of processes is readable; by the link that always works when that file is another one by now.
std::string this_program() {
  constexpr const char* kLink = "/proc/self/exe";
  std::error_code code;
  const fs::path name = fs::read_symlink(kLink, code);
  return !code && fs::equivalent(name, kLink, code) ? name.string() : kLink;
}

class IsolatedEngine final : public Engine {
 public:
  IsolatedEngine(EngineOptions options, IsolationOptions isolation)
      : options_(std::move(options)), isolation_(std::move(isolation)), folder_(current_folder()) {
    if (isolation_.command.empty()) isolation_.command = {this_program(), "worker"};
  }

  // A worker with an open model: the one there is, or another when that one died.
  Result<void> be_ready(const CancelToken* cancel) {
    if (client_ && client_->alive()) return {};
    client_.reset();
    words_.clear();
    TRITIUM_TRY_ASSIGN(auto client, WorkerClient::start(isolation_, &words_));
    if (isolation_.on_start) isolation_.on_start(client->pid());
    auto opened = open_in(*client, cancel);
    if (!opened.ok()) {
      words_ = client->last_words();
      return opened.error();
    }
    opened_ = std::move(*opened);
    client_ = std::move(client);
    return {};
  }

  // For the first call: whether it failed for want of an answer is told as for all others.
  Result<void> open() {
    answered_ = false;
    return report(be_ready(nullptr));
  }

  // Sends a request and waits for the first frame of the answer. A worker left from earlier that dies without one may have been dead, or
  // about to die, before it was asked: another is asked once more.
  Result<WorkerFrame> ask(FrameType type, const std::string& body, const std::string& doing, const CancelToken* cancel) {
    const bool from_earlier = client_ && client_->alive();
    TRITIUM_TRY(be_ready(cancel));
    auto frame = ask_once(type, body, doing, cancel);
    if (frame.ok() || !from_earlier || !client_->died_by_itself() || (cancel != nullptr && cancel->cancelled())) return frame;
    TRITIUM_TRY(be_ready(cancel));
    return ask_once(type, body, doing, cancel);
  }

  Result<Plan> plan(const Request& request) override {
    answered_ = false;
    return report(ask_for_plan(request));
  }

  using Engine::generate;
  Result<Artifact> generate(const Request& request, const OutputOptions& output, const GenerateHooks& hooks,
                            const CancelToken* cancel) override {
    answered_ = false;
    return report(ask_for_clip(request, output, hooks, cancel));
  }

  // As they were when the worker opened the model.
  Result<std::vector<std::string>> memory_budgets() override { return opened_.memory_budgets; }
  [[nodiscard]] std::string model_json() const override { return opened_.model_json; }
  [[nodiscard]] std::string model_text() const override { return opened_.model_text; }

 private:
  template <class T>
  T report(T result) {
    if (!result.ok() && !answered_ && isolation_.on_loss) isolation_.on_loss(client_ ? client_->last_words() : words_);
    return result;
  }

  Result<OpenedMessage> open_in(WorkerClient& client, const CancelToken* cancel) {
    TRITIUM_TRY(client.request(FrameType::open, encode_message(OpenMessage{folder_, options_}), "opening the model", cancel));
    TRITIUM_TRY_ASSIGN(const WorkerFrame frame, client.receive(cancel));
    if (frame.type == FrameType::failed) return failure(client, frame);
    if (frame.type != FrameType::opened) return client.unexpected(frame);
    return client.decode<OpenedMessage>(frame);
  }

  Result<Plan> ask_for_plan(const Request& request) {
    TRITIUM_TRY_ASSIGN(const WorkerFrame frame,
                       ask(FrameType::plan, encode_message(PlanMessage{current_folder(), request}), "planning", nullptr));
    if (frame.type == FrameType::failed) return failure(*client_, frame);
    if (frame.type != FrameType::planned) return client_->unexpected(frame);
    return client_->decode<Plan>(frame);
  }

  Result<Artifact> ask_for_clip(const Request& request, const OutputOptions& output, const GenerateHooks& hooks,
                                const CancelToken* cancel) {
    const OutputState before(output);
    const Cleaner cleaner{*this, before};
    const bool cancelled = cancel != nullptr && cancel->cancelled();
    TRITIUM_TRY_ASSIGN(WorkerFrame frame,
                       ask(FrameType::generate,
                           encode_message(GenerateMessage{current_folder(), request, output, cancelled, static_cast<bool>(hooks.preview)}),
                           "preparing the request", cancel));
    for (;;) {
      switch (frame.type) {
        case FrameType::planned: {
          TRITIUM_TRY_ASSIGN(const Plan plan, client_->decode<Plan>(frame));
          client_->note(plan);
          if (hooks.plan) hooks.plan(plan);
          break;
        }
        case FrameType::progress: {
          TRITIUM_TRY_ASSIGN(const Progress progress, client_->decode<Progress>(frame));
          client_->note(progress);
          if (hooks.progress) hooks.progress(progress);
          break;
        }
        case FrameType::preview:
          if (hooks.preview) hooks.preview(frame.body);
          break;
        case FrameType::done: {
          auto artifact = client_->decode<Artifact>(frame);
          answered_ = artifact.ok();
          return artifact;
        }
        case FrameType::failed:
          return failure(*client_, frame);
        default:
          return client_->unexpected(frame);
      }
      TRITIUM_TRY_ASSIGN(frame, client_->receive(cancel));
    }
  }

  Result<WorkerFrame> ask_once(FrameType type, const std::string& body, const std::string& doing, const CancelToken* cancel) {
    TRITIUM_TRY(client_->request(type, body, doing, cancel));
    return client_->receive(cancel);
  }

  // However a request ends, also by an exception of a callback: a worker that has not answered is ended, and what it left is removed.
  struct Cleaner {
    IsolatedEngine& engine;
    const OutputState& before;
    ~Cleaner() {
      if (!engine.client_) return;  // none could be started
      WorkerClient& client = *engine.client_;
      if (!engine.answered_) client.end();
      if (client.alive()) return;
      const auto& last = client.moment().last;
      before.remove_leftovers(!engine.answered_ && last && last->stage == "write");
    }
  };

  // The error that the worker reports.
  Error failure(WorkerClient& client, const WorkerFrame& frame) {
    auto message = client.decode<FailedMessage>(frame);
    answered_ = message.ok();
    return message.ok() ? std::move(message->error) : message.error();
  }

  EngineOptions options_;
  IsolationOptions isolation_;
  fs::path folder_;  // where the names in options_ begin
  OpenedMessage opened_;
  std::unique_ptr<WorkerClient> client_;
  std::string words_;  // of a worker that did not come to open the model
  bool answered_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> open_isolated_engine(const EngineOptions& options, const IsolationOptions& isolation) {
  auto engine = std::make_unique<IsolatedEngine>(options, isolation);
  TRITIUM_TRY(engine->open());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tritium
