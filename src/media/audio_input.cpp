#include "media/audio_input.h"

#include "base/try.h"
#include "media/input_file.h"
#include "media/sound_collector.h"

#include <fmt/format.h>
#include <new>

namespace tritium {
namespace fs = std::filesystem;
namespace {

Result<StereoSound> load(const fs::path& path, const AudioOptions& options) {
  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_input(path, options.cancel));
  AVStream* stream = av::find_stream(*input, AVMEDIA_TYPE_AUDIO);
  if (stream == nullptr) {
    const bool pictures = av::find_stream(*input, AVMEDIA_TYPE_VIDEO) != nullptr;
    return Error{ErrorCode::usage, fmt::format("'{}' {}", path.string(), pictures ? "is a video without sound" : "holds no sound"), "",
                 "use a file with a sound track"};
  }
  SoundCollector collector(path, options.max_seconds);
  std::vector<TrackDecoder> tracks;
  TRITIUM_TRY_ASSIGN(TrackDecoder track, TrackDecoder::open(path, *stream, [&](const AVFrame& frame) { return collector.add(frame); }));
  tracks.push_back(std::move(track));
  TRITIUM_TRY(decode_tracks(path, *input, tracks, options.cancel));
  StereoSound sound = std::move(collector.sound());
  if (const std::int64_t stored = stored_samples(*input, *stream, sound.sample_rate); stored >= 0) keep_samples(sound, stored);
  if (sound.left.empty()) return unreadable(path, "its sound track is empty");
  return sound;
}

}  // namespace

Result<StereoSound> load_audio(const fs::path& path, const AudioOptions& options) {
  try {
    auto sound = load(path, options);
    return sound.ok() ? std::move(sound) : Result<StereoSound>(as_request_error(sound.error()));
  } catch (const std::bad_alloc&) { return out_of_memory(path); }
}

}  // namespace tritium
