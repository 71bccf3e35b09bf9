// MP4 files that every browser plays: H.264 High (yuv420p, BT.709, "avc1") and AAC LC stereo, index in front of the data.
//
// The same clip and options give the same bytes: no date, no thread-dependent choice, no arithmetic that follows the machine.
//
// Length of the sound. The model's sound is a whole number of 25 ms latents and so up to 1/3 latent (8.3 ms) longer or shorter
// than its pictures (spec/vae.md §2.1). Such a difference, anything below one frame, is kept as it is: every sample is written.
// Sound that differs by a frame (1/24 s) or more is cut, or filled up with silence, to the length of the pictures, and the
// summary says by how much.
#pragma once

#include "base/cancel.h"
#include "media/clip.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace tritium {

// The tag that holds Mp4Tags::metadata_json.
inline constexpr const char* kMetadataTag = "tritium";

struct Mp4Format {
  int width = 0, height = 0;      // even, 2..16384
  int fps_num = 24, fps_den = 1;  // constant frame rate
  int sample_rate = 32000;        // Hz; 0: no sound track
};

struct Mp4Options {
  int crf = 16;                   // 1 (best) .. 51; 16 looks lossless
  std::string preset = "medium";  // x264's speed: "ultrafast" .. "placebo"
  int audio_bits_per_second = 192000;
};

// What is said about the file. It may speak of how the last frame came out: it is written with the index, after everything else.
struct Mp4Tags {
  std::string metadata_json{};                  // whole JSON document of any length, in the tag "tritium"; empty: no such tag
  std::map<std::string, std::string> others{};  // further tags of the file, e.g. title, comment; UTF-8
};

struct Mp4Summary {
  int frames = 0;
  std::int64_t samples = 0;          // per channel, as written
  std::int64_t silence_samples = 0;  // added at the end to reach the length of the pictures
  std::int64_t cut_samples = 0;      // left out at the end
};

// Writes frames and sound as they come, so that encoding can go on while later frames are still being decoded.
// Destroyed without finish(), it leaves an unplayable file behind: write to AtomicFile::temporary_path() and commit after finish().
// Errors of all calls: usage (an option), does_not_fit (disk, quota or file size limit reached), interrupted, rejected (a sample
// that is not finite), failure (anything else). After an error the writer is of no further use.
class Mp4Writer {
 public:
  // `cancel`, if given, must live as long as the writer and is looked at for each frame and each packet.
  static Result<Mp4Writer> open(const std::filesystem::path& path, const Mp4Format& format, const Mp4Options& options = {},
                                const CancelToken* cancel = nullptr);
  Mp4Writer(Mp4Writer&&) noexcept;
  Mp4Writer& operator=(Mp4Writer&&) = delete;
  ~Mp4Writer();

  // rgb: [height, width, 3].
  Result<void> add_frame(std::span<const std::uint8_t> rgb);
  // Any number of samples, -1..1, both channels equally many. Not allowed without a sound track.
  Result<void> add_audio(std::span<const float> left, std::span<const float> right);
  // At least one frame is needed. Completes the file; call once, last.
  Result<Mp4Summary> finish(const Mp4Tags& tags = {});

  // Memory that an open writer of such pictures takes at the most, but for the sound: x264 looks 40 frames ahead and keeps several forms of
  // each. Measured with the preset "medium": within 10 % from 832x480 on.
  static std::uint64_t working_bytes(int width, int height);

 private:
  struct State;
  explicit Mp4Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Called after each frame that was handed to the encoder.
using FrameProgress = std::function<void(int done, int total)>;

// A whole clip; without sound samples the file has no sound track. `path` is normally AtomicFile::temporary_path().
Result<Mp4Summary> write_mp4(const Clip& clip, const std::filesystem::path& path, const Mp4Options& options = {}, const Mp4Tags& tags = {},
                             const CancelToken* cancel = nullptr, const FrameProgress& progress = {});

}  // namespace tritium
