// Opening media for reading with libav. Private to src/media.
#pragma once

#include "base/cancel.h"
#include "media/av_support.h"

#include <cstdint>
#include <span>

namespace tritium::av {

// Also closes and frees what it reads from.
struct CloseInput {
  void operator()(AVFormatContext* p) const;
};
using Input = std::unique_ptr<AVFormatContext, CloseInput>;

// Opens a regular file of a known media container, recognized by its content alone, and reads its stream table. Only the file itself is
// read: libav gets its bytes and no name, and what it asks to open besides (playlists, concat lists, external tracks, addresses) is
// refused. A cancellation is noticed at every read, from here on until the input is closed.
Result<Input> open_input(const std::filesystem::path& path, const CancelToken* cancel = nullptr);
// The same from memory, which must outlive the input. `name` stands in messages.
Result<Input> open_memory(std::span<const std::uint8_t> bytes, const std::filesystem::path& name);

// nullptr when the file has no such stream. Cover pictures of sound files do not count as video.
AVStream* find_stream(AVFormatContext& input, AVMediaType type);

// Whether the file is cut off, for containers whose end can be told where libav does not: a GIF without its end mark (which zeros may
// follow), an AVI that is shorter than its head says. Reading cannot go on afterwards.
bool is_cut_off(AVFormatContext& input);

// Whether the container is MP4, QuickTime or one of their relatives.
bool is_mov(const AVFormatContext& input);

}  // namespace tritium::av
