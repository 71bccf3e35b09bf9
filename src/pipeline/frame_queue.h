// Frames on their way from the decoder to what becomes of them, so that one is encoded while the next are still being computed.
#pragma once

#include <tritium/result.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tritium {

// Receives the frames of a clip in order, each [height, width, 3] in 8 bits. An error stops whoever makes them.
using PictureSink = std::function<Result<void>(std::vector<std::uint8_t> rgb)>;

// Hands frames on in order, on a thread of its own. Destroyed before finish(), it lets the frame that is being taken be taken, drops the
// others, and returns when the sink will not be called any more.
class FrameQueue {
 public:
  // At most `most` frames wait. 0: add() itself calls the sink, and there is no thread.
  FrameQueue(PictureSink sink, std::size_t most);
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;
  ~FrameQueue();

  // Waits while the queue is full. Errors: the first that the sink gave, from then on every time; does_not_fit when the sink found no
  // memory.
  Result<void> add(std::vector<std::uint8_t> rgb);
  // Waits until the sink has taken every frame. Nothing is added afterwards. Errors as above.
  Result<void> finish();

 private:
  void run();
  Result<void> take(std::vector<std::uint8_t> rgb) const;
  void end();

  PictureSink sink_;
  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::uint8_t>> waiting_;
  bool ended_ = false;  // nothing more will come
  Result<void> state_;  // of the sink
  std::thread thread_;
};

}  // namespace tritium
