// Media files back to pictures and sound, and what a file says about itself. Used to check our own output and to read input.
#pragma once

#include "base/cancel.h"
#include "media/clip.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace tritium {

struct ReadOptions {
  std::uint64_t limit_bytes = 4ull << 30;  // of decoded pictures and sound together; more is error does_not_fit
  const CancelToken* cancel = nullptr;
};

// The first video and the first sound track, decoded completely.
// Pictures: RGB with the matrix and range the file names (when it names none: BT.709 from 720 lines on, BT.601 below), every stored
// frame in order of presentation; a variable frame rate is not evened out and a rotation mark is not applied. fps is the average rate.
// Sound: float stereo at 32 kHz whatever the file has (mono goes to both channels at 0.7071, as FFmpeg does), from the track's own
// first sample. Either may be absent, not both.
// Errors: name file and reason; files that are truncated or damaged anywhere in these tracks are refused (failure), never read in part.
Result<Clip> read_clip(const std::filesystem::path& path, const ReadOptions& options = {});

struct VideoInfo {
  std::string codec;                               // "h264"
  std::string profile;                             // "High"; empty when the codec has none
  std::string tag;                                 // "avc1"
  std::string pixel_format;                        // "yuv420p"
  std::string range, matrix, primaries, transfer;  // "tv", "bt709" ...; "unknown" when not stated
  int width = 0, height = 0;
  int fps_num = 0, fps_den = 1;  // average
  std::int64_t frames = 0;       // stored frames
  double seconds = 0;
};

struct AudioInfo {
  std::string codec;    // "aac"
  std::string profile;  // "LC"
  int sample_rate = 0;
  int channels = 0;
  double seconds = 0;
};

struct MediaInfo {
  std::string container;  // FFmpeg's name, e.g. "mov,mp4,m4a,3gp,3g2,mj2"
  double seconds = 0;
  std::optional<VideoInfo> video;
  std::optional<AudioInfo> audio;
  std::optional<bool> moov_before_mdat;  // for MP4 and QuickTime: playable while it is still being downloaded
  std::map<std::string, std::string> metadata;
};

// Reads headers; counts packets only where the container does not say how many frames it has.
Result<MediaInfo> probe_media(const std::filesystem::path& path);

}  // namespace tritium
