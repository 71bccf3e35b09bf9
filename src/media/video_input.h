// Videos from files, frame by frame at the 24 frames per second of the model.
#pragma once

#include "base/cancel.h"
#include "base/picture.h"
#include "media/audio_input.h"
#include "media/input_limits.h"

#include <tritium/result.h>

#include <filesystem>
#include <functional>
#include <optional>

namespace tritium {

struct VideoOptions {
  double min_seconds = kMinVideoSeconds,
         max_seconds = kMaxVideoSeconds;  // shorter and longer videos are refused, measured in whole frames at 24 per second
  int keep_frames = 0;                    // above 0: only the first so many frames at 24 per second; what follows is not read, so that
                                          // max_seconds then only holds for videos whose header tells their length
  bool sound = true;                      // false: as if there were none
  const CancelToken* cancel = nullptr;
};

// One stored picture, upright, and the frames at 24 per second that show it.
struct VideoFrame {
  PictureView picture;                        // valid during the call only
  int display_width = 0, display_height = 0;  // of the picture with square pixels: one side may be longer than the stored one
  int first = 0, count = 0;                   // frames first .. first + count - 1, count >= 1; each follows the last one without a gap
};
// An error ends the reading and is passed on.
using VideoSink = std::function<Result<void>(const VideoFrame&)>;

struct VideoInput {
  int width = 0, height = 0;                  // pixels of every picture given to the sink
  int display_width = 0, display_height = 0;  // as above
  int frames = 0;                             // at 24 per second
  std::optional<StereoSound> sound;           // sample 0 belongs to the start of frame 0; never longer than the frames
};

// The first video track of any file that libav reads, and its first sound track.
// * Frames are shown by their timestamps, counted from the first frame shown: variable rates, a first timestamp other than 0 and edit
//   lists are respected, what the header says about the number of frames is not. A picture that is shown from time t on starts at frame
//   floor(24 t + 0.5) and holds until the next one starts (spec/text.md §5.5); pictures that fill no frame are not converted.
// * Quarter turns and mirrors that the file asks for are applied; pixels that are not square are not stretched here, the display size
//   tells how to scale them.
// * 8-bit RGB by the matrix and range of the file (BT.709 from 720 lines on, BT.601 below when it does not say); HDR is neither
//   tone-mapped nor converted to other primaries; interlaced frames are not taken apart.
// * Sound as load_audio gives it, moved to where the pictures start: what lies before is cut off, a late start is filled with silence.
// Only the sound, the pictures that the decoder refers to and one RGB picture (two when it is turned) are in memory at a time.
// Errors: usage when the file is missing, no video, damaged or cut off in the part that is read, too short or too long, turned by other
// than a quarter turn, or its pictures change size or have more than 67 million pixels; interrupted; does_not_fit. They name file and
// reason.
Result<VideoInput> load_video(const std::filesystem::path& path, const VideoOptions& options, const VideoSink& sink);

}  // namespace tritium
