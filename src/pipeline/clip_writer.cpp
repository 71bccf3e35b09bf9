#include "pipeline/clip_writer.h"

#include "base/try.h"
#include "media/jpeg_writer.h"
#include "media/mp4_writer.h"
#include "media/png_frames.h"
#include "media/wav_writer.h"
#include "pipeline/publish.h"
#include "weights/safetensors_writer.h"

#include <fmt/format.h>
#include <optional>

namespace tritium {
namespace fs = std::filesystem;
namespace {

// People know the video by the name they gave it.
Error with_name_of_target(Error error, const AtomicFile& file) {
  const std::string temporary = file.temporary_path().string();
  if (const std::size_t at = error.message.find(temporary); at != std::string::npos)
    error.message.replace(at, temporary.size(), file.target().string());
  return error;
}

// Files that get their names before the video does; they go again when the video does not follow.
class Companions {
 public:
  Companions() = default;
  Companions(const Companions&) = delete;
  Companions& operator=(const Companions&) = delete;
  ~Companions() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
  }
  Result<void> add(const fs::path& path, Result<void> written) {
    if (written.ok()) paths_.push_back(path);
    return written;
  }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

Result<void> write_latents(const fs::path& path, const Plan& plan, const Latents& latents) {
  const NamedTensor tensors[] = {
      {"video", {plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width}, latents.video},
      {"audio", {2, plan.audio_dim, plan.audio_latents}, latents.audio}};
  const std::map<std::string, std::string> about = {{"prompt", plan.prompt}, {"seed", std::to_string(plan.seed)}};
  return write_safetensors(path, tensors, about);
}

}  // namespace

// What the frames become while they come, and what was kept of them.
struct ClipWriter::State {
  State(AtomicFile file, const OutputOptions& options, const Plan& shape, StereoSound heard, const CancelToken* token)
      : reserved(std::move(file)),
        output(options),
        plan(shape),
        sound(std::move(heard)),
        cancel(token),
        inspector(shape.width, shape.height) {}

  Result<void> write_extras(const Latents& latents, Companions& companions) const {
    if (frames) TRITIUM_TRY(frames->write_to(output.frames_dir, cancel));
    if (!output.latents.empty()) TRITIUM_TRY(companions.add(output.latents, write_latents(output.latents, plan, latents)));
    if (!output.thumbnail.empty()) TRITIUM_TRY(companions.add(output.thumbnail, write_file_atomically(output.thumbnail, thumbnail)));
    if (!output.wav.empty()) TRITIUM_TRY(companions.add(output.wav, write_wav(output.wav, sound.left, sound.right, sound.sample_rate)));
    return {};
  }

  AtomicFile reserved;
  const OutputOptions& output;
  const Plan& plan;
  const StereoSound sound;
  const CancelToken* cancel;
  std::optional<Mp4Writer> mp4;
  std::optional<PngFrames> frames;  // when they are wanted
  std::string thumbnail;            // JPEG of the middle frame, when it is wanted
  ClipInspector inspector;
  int added = 0;
};

ClipWriter::ClipWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ClipWriter::ClipWriter(ClipWriter&&) noexcept = default;
ClipWriter::~ClipWriter() = default;

Result<ClipWriter> ClipWriter::open(AtomicFile reserved, const OutputOptions& output, const Plan& plan, StereoSound sound,
                                    const CancelToken* cancel) {
  auto state = std::make_unique<State>(std::move(reserved), output, plan, std::move(sound), cancel);
  const StereoSound& heard = state->sound;
  const bool silent = heard.left.empty() && heard.right.empty();
  const Mp4Format format{.width = plan.width, .height = plan.height, .sample_rate = silent ? 0 : heard.sample_rate};
  auto mp4 = Mp4Writer::open(state->reserved.temporary_path(), format, {}, cancel);
  if (!mp4.ok()) return with_name_of_target(mp4.error(), state->reserved);
  // All of the sound at once: it then lies between the pictures it belongs to.
  if (!silent) TRITIUM_TRY(mp4->add_audio(heard.left, heard.right));
  state->mp4.emplace(std::move(*mp4));
  if (!output.frames_dir.empty()) {
    TRITIUM_TRY_ASSIGN(PngFrames frames, PngFrames::open(output.video));
    state->frames.emplace(std::move(frames));
  }
  return ClipWriter(std::move(state));
}

Result<void> ClipWriter::add(std::span<const std::uint8_t> rgb) {
  State& s = *state_;
  if (const auto encoded = s.mp4->add_frame(rgb); !encoded.ok()) return with_name_of_target(encoded.error(), s.reserved);
  s.inspector.add(rgb);
  if (s.frames) TRITIUM_TRY(s.frames->add(rgb, s.plan.width, s.plan.height));
  if (!s.output.thumbnail.empty() && s.added == s.plan.frames / 2) {
    TRITIUM_TRY_ASSIGN(s.thumbnail, encode_thumbnail({s.plan.width, s.plan.height, rgb}));
  }
  ++s.added;
  return {};
}

GuardReport ClipWriter::inspect() const {
  const Plan& plan = state_->plan;
  const StereoSound& sound = state_->sound;
  return state_->inspector.report({plan.frames, plan.width, plan.height, plan.samples}, sound.left, sound.right, sound.sample_rate);
}

Result<void> ClipWriter::publish(const Latents& latents, const GuardReport& guard, const std::string& metadata) {
  State& s = *state_;
  const Result<void> verdict = guard.verdict();
  const fs::path target = verdict.ok() ? s.output.video : rejected_name(s.output.video);
  const Mp4Tags tags{metadata, {{"title", s.plan.prompt}, {"comment", fmt::format("Tritium {}, seed {}", version(), s.plan.seed)}}};
  if (const auto finished = s.mp4->finish(tags); !finished.ok()) return with_name_of_target(finished.error(), s.reserved);
  Companions companions;
  if (verdict.ok()) TRITIUM_TRY(s.write_extras(latents, companions));
  TRITIUM_TRY(companions.add(sidecar_of(target), write_file_atomically(sidecar_of(target), metadata + "\n")));
  TRITIUM_TRY(s.reserved.commit_as(target));
  companions.keep();
  if (verdict.ok()) return {};
  return Error{verdict.error().code, verdict.error().message, verdict.error().field,
               fmt::format("the video is kept as '{}'", target.string())};
}

}  // namespace tritium
