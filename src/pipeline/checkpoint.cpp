#include "pipeline/checkpoint.h"

#include "base/hash.h"
#include "base/try.h"
#include "device/device.h"
#include "pipeline/arithmetic.h"
#include "weights/checkpoint.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>
#include <deque>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConditioning = "conditioning.safetensors";
constexpr const char* kLatents = "latents.safetensors";
constexpr const char* kKey = "tritium.run";
constexpr const char* kChecksum = "tritium.sha256";
constexpr const char* kAbout = "tritium.state";
constexpr std::string_view kMemory = "acceleration.";  // before the names of what a policy remembers

std::span<const std::uint8_t> bytes_of(const auto& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

// Names and lengths go in too, so that no two files give the same bytes.
std::string checksum(std::span<const NamedTensor> tensors, const std::string& key, const std::string& about) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Sha256 hash;
  hash.update(bytes_of(fmt::format("{}\n{}\n", key, about)));
  for (const NamedTensor* tensor : sorted) {
    hash.update(bytes_of(fmt::format("{} {}\n", tensor->name, tensor->values.size())));
    hash.update(bytes_of(tensor->values));
  }
  return hash.finish_hex();
}

// Small whole numbers as a tensor: exact in float32.
std::vector<float> numbers(const auto& values) {
  std::vector<float> out;
  for (const auto value : values) out.push_back(static_cast<float>(static_cast<int>(value)));
  return out;
}
template <class T>
std::vector<T> from_numbers(std::span<const float> values) {
  std::vector<T> out;
  for (const float value : values) out.push_back(static_cast<T>(static_cast<int>(value)));
  return out;
}

constexpr std::size_t kReferenceNumbers = 6;
std::vector<float> pack(const std::vector<Reference>& references) {
  std::vector<int> out;
  for (const Reference& r : references)
    out.insert(out.end(), {static_cast<int>(r.kind), r.visual.channels, r.visual.frames, r.visual.height, r.visual.width, r.audio_latents});
  return numbers(out);
}
std::vector<Reference> unpack(std::span<const float> values) {
  const auto n = from_numbers<int>(values);
  std::vector<Reference> out;
  for (std::size_t i = 0; i + kReferenceNumbers <= n.size(); i += kReferenceNumbers)
    out.push_back({static_cast<ReferenceKind>(n[i]), {n[i + 1], n[i + 2], n[i + 3], n[i + 4]}, n[i + 5]});
  return out;
}

std::string file_facts(const fs::path& file) {
  std::error_code ignored;
  return fmt::format("{}|{}", fs::file_size(file, ignored), fs::last_write_time(file, ignored).time_since_epoch().count());
}

}  // namespace

Result<std::string> run_key(const PreparedRequest& job, const Request& request, const std::string& weights, const std::string& compute,
                            const CancelToken* cancel) {
  const Plan& p = job.plan;
  std::string text = fmt::format("{}\n{}\n{}\n{}\n", version(), arithmetic_of_this_program(), compute, weights);
  text += fmt::format("{}|{}|{}|{}|{}|{}|{}|{}\n", p.mode, p.width, p.height, p.frames, p.steps, p.seed & 0xffffffffU, p.noise,
                      static_cast<int>(request.fit));
  text += fmt::format("{}\n{}\n{}\n", p.video_sigmas, p.audio_sigmas, request.official_reference_size);
  text += fmt::format("{}|{}|{}|{}|{}|{}|{}\n", p.latent_channels, p.latent_frames, p.latent_height, p.latent_width, p.audio_dim,
                      p.audio_latents, p.condition_rows);
  // How pictures are decoded changes no latents: a draft's are those of the finished clip.
  const Acceleration& a = p.acceleration;
  text += fmt::format("{}|{}|{}|{}|{}|{}\n", a.reuse_velocity, a.reuse_core, a.easycache.value_or(-1), a.easycache_start, a.easycache_end,
                      a.blocks.value_or(0));
  // The arithmetic of every stage; which blocks stay and which are streamed changes no bit.
  for (const StagePlan& stage : p.stages) {
    text += fmt::format("{}|{}|{}", stage.name, stage.device, stage.precision);
    for (const DeviceShare& share : stage.shares) text += "|" + share.device;
    text += '\n';
  }
  for (const LoraPlan& lora : p.loras)
    text += fmt::format("{}|{}|{}|{}\n", lora.header_sha256, lora.strength, lora.scales, file_facts(lora.file));
  for (const auto& [begin, end] : request.retake.frames) text += fmt::format("frames {}-{}\n", begin, end);
  for (const auto& [begin, end] : request.retake.seconds) text += fmt::format("seconds {}-{}\n", begin, end);
  const auto content = [&](const fs::path& file) -> Result<void> {
    if (file.empty()) return {};
    TRITIUM_TRY_ASSIGN(const std::string hash, sha256_file(file, cancel));
    text += hash + '\n';
    return {};
  };
  for (const fs::path& file : {request.first_frame, request.last_frame, request.retake.video, request.sound_for, request.video_for}) {
    text += "file ";
    TRITIUM_TRY(content(file));
  }
  for (const ReferenceInput& reference : request.references) {
    text += fmt::format("reference {} {} ", static_cast<int>(reference.kind), reference.silent);
    TRITIUM_TRY(content(reference.file));
    TRITIUM_TRY(content(reference.sound));
  }
  Sha256 hash;
  hash.update(bytes_of(text));
  const auto& ids = job.prompt.presentation.ids;
  hash.update(bytes_of(std::vector<std::uint64_t>{ids.size()}));
  hash.update(bytes_of(ids));
  hash.update(bytes_of(job.prompt.presentation.tags));
  return hash.finish_hex();
}

struct RunCheckpoint::File {
  std::map<std::string, std::vector<float>> tensors;
  std::string about;
};

std::optional<RunCheckpoint::File> RunCheckpoint::read(const char* name) {
  if (!on()) return {};
  const fs::path path = folder_ / name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const auto refuse = [&](const std::string& why) {
    warnings_.push_back(fmt::format("the checkpoint '{}' is not used: {}", path.string(), why));
    return std::optional<File>();
  };
  const auto file = Checkpoint::open(path);
  if (!file.ok()) return refuse("it is damaged");
  const auto& header = file->files().front().header();
  const auto text = [&](const char* key) {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end() ? std::string() : found->second;
  };
  if (text(kKey) != key_) return refuse("it belongs to another request, model or version");
  File out;
  out.about = text(kAbout);
  std::vector<NamedTensor> named;
  for (const auto& [tensor, info] : header.tensors) {
    auto values = file->read_f32(tensor);
    if (!values.ok()) return refuse("it is damaged");
    const auto& kept = out.tensors[tensor] = std::move(*values);
    named.push_back({tensor, {}, kept});
  }
  if (text(kChecksum) != checksum(named, key_, out.about)) return refuse("it is damaged");
  return out;
}

std::optional<DenoiseState> RunCheckpoint::latents(const Plan& plan) {
  auto file = read(kLatents);
  if (!file) return {};
  DenoiseState out;
  const char* const end = file->about.data() + file->about.size();
  const auto steps = std::from_chars(file->about.data(), end, out.steps);
  const auto computed = steps.ec == std::errc() && steps.ptr != end ? std::from_chars(steps.ptr + 1, end, out.computed) : steps;
  const bool counted = computed.ec == std::errc() && computed.ptr == end && out.steps >= 1 && out.steps <= plan.steps;
  out.latents = {std::move(file->tensors["video"]), std::move(file->tensors["audio"])};
  for (auto& [name, values] : file->tensors)
    if (name.starts_with(kMemory)) out.memory[name.substr(kMemory.size())] = std::move(values);
  const auto fits = [](std::size_t have, std::int64_t need) { return have == static_cast<std::size_t>(need); };
  const bool whole =
      fits(out.latents.video.size(), std::int64_t{plan.latent_channels} * plan.latent_frames * plan.latent_height * plan.latent_width) &&
      fits(out.latents.audio.size(), std::int64_t{2} * plan.audio_dim * plan.audio_latents);
  if (!counted || !whole) return {};
  last_ = out.steps;
  return out;
}

std::optional<Conditioning> RunCheckpoint::conditioning(const Plan& plan) {
  auto file = read(kConditioning);
  if (!file) return {};
  auto& t = file->tensors;
  Conditioning out;
  out.text = std::move(t["text"]);
  out.text_tags = from_numbers<Modality>(t["tags"]);
  out.shapes = {from_numbers<int>(t["keyframes"]), unpack(t["references"])};
  out.rows = {std::move(t["rows.video"]), std::move(t["rows.audio"])};
  out.masks = {from_numbers<std::uint8_t>(t["mask.video"]), from_numbers<std::uint8_t>(t["mask.audio"])};
  out.clean = {std::move(t["clean.video"]), std::move(t["clean.audio"])};
  if (out.text_tags.size() != static_cast<std::size_t>(plan.text_tokens)) return {};
  return out;
}

// Copies, since the run goes on meanwhile.
struct RunCheckpoint::Content {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  std::string file;
  std::vector<Tensor> tensors;
  std::string about;

  void add(const std::string& name, std::vector<float> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    if (size > 0) tensors.push_back({name, {size}, std::move(values)});
  }
  [[nodiscard]] Result<void> write(const fs::path& folder, const std::string& key) const {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) return Error{ErrorCode::failure, failed.message(), "", ""};
    std::vector<NamedTensor> named;
    for (const Tensor& tensor : tensors) named.push_back({tensor.name, tensor.shape, tensor.values});
    return write_safetensors(folder / file, named, {{kKey, key}, {kAbout, about}, {kChecksum, checksum(named, key, about)}});
  }
};

struct RunCheckpoint::Writer {
  Writer(fs::path to, std::string run) : folder(std::move(to)), key(std::move(run)) {}
  ~Writer() { (void)finish(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void add(Content content) {
    const std::lock_guard lock(mutex);
    if (!waiting.empty() && waiting.back().file == content.file)
      waiting.back() = std::move(content);
    else
      waiting.push_back(std::move(content));
    if (std::exchange(busy, true)) return;
    if (thread.joinable()) thread.join();  // it has nothing left to do
    try {
      thread = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      busy = false;
      problem = e.what();
    }
  }
  void work() {
    for (;;) {
      Content next;
      {
        const std::lock_guard lock(mutex);
        busy = !waiting.empty();
        if (!busy) return;
        next = std::move(waiting.front());
        waiting.pop_front();
      }
      const auto written = next.write(folder, key);
      const std::lock_guard lock(mutex);
      if (!written.ok() && problem.empty()) problem = written.error().message;
    }
  }
  // The first thing that could not be written; empty: all was.
  std::string finish() {
    if (thread.joinable()) thread.join();
    return std::exchange(problem, "");
  }

  const fs::path folder;
  const std::string key;
  std::mutex mutex;  // guards the rest but the thread
  std::deque<Content> waiting;
  bool busy = false;
  std::string problem;
  std::thread thread;
};

RunCheckpoint::RunCheckpoint(fs::path folder, std::string key, int every)
    : folder_(std::move(folder)), key_(std::move(key)), every_(every), writer_(std::make_shared<Writer>(folder_, key_)) {}

void RunCheckpoint::keep(const Conditioning& c) {
  if (!on()) return;
  Content content{kConditioning, {}, "conditioning"};
  content.add("text", c.text);
  content.add("tags", numbers(c.text_tags));
  content.add("keyframes", numbers(c.shapes.keyframes));
  content.add("references", pack(c.shapes.references));
  content.add("rows.video", c.rows.video);
  content.add("rows.audio", c.rows.audio);
  content.add("mask.video", numbers(c.masks.video));
  content.add("mask.audio", numbers(c.masks.audio));
  content.add("clean.video", c.clean.video);
  content.add("clean.audio", c.clean.audio);
  writer_->add(std::move(content));
}

void RunCheckpoint::keep(const Plan& plan, const StepDone& done) {
  if (!on() || (done.steps != plan.steps && (every_ <= 0 || done.steps - last_ < every_))) return;
  // Nothing needs remembering after the last step.
  const auto memory = done.steps == plan.steps ? PolicyMemory{} : done.policy.memory(done.steps);
  if (!memory) return;
  last_ = done.steps;
  Content content{kLatents,
                  {{"video", {plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width}, done.state.video},
                   {"audio", {2, plan.audio_dim, plan.audio_latents}, done.state.audio}},
                  fmt::format("{} {}", done.steps, done.computed)};
  for (const auto& [name, values] : *memory) content.add(std::string(kMemory) + name, values);
  writer_->add(std::move(content));
}

const std::vector<std::string>& RunCheckpoint::warnings() {
  if (const std::string problem = on() ? writer_->finish() : ""; !problem.empty())
    warnings_.push_back(fmt::format("no checkpoint can be written to '{}': {}", folder_.string(), problem));
  return warnings_;
}

}  // namespace tritium
