#include "media/av_input.h"

#include "base/try.h"
#include "media/input_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

extern "C" {
#include <libavutil/avstring.h>
}

namespace tritium::av {
namespace fs = std::filesystem;
namespace {

// Containers read here, by libav's names. Left out on purpose: everything that names other files (hls, dash, concat, image2, sdp ...).
constexpr const char* kContainers =
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,ivf,flv,asf,mxf,nut,dv,gif,apng,yuv4mpegpipe,"
    "wav,w64,mp3,flac,ogg,aac,ac3,eac3,aiff,caf,au,amr,wv";
constexpr int kBufferBytes = 1 << 16;

// Where libav's bytes come from: a file, or memory when there is none.
struct Source {
  std::optional<InputFile> file;
  std::span<const std::uint8_t> memory;
  std::int64_t position = 0;  // in memory or in the file
  const CancelToken* cancel = nullptr;

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(file ? file->bytes() : memory.size()); }
};

int read_some(void* opaque, std::uint8_t* to, int room) {
  Source& source = *static_cast<Source*>(opaque);
  if (source.cancel != nullptr && source.cancel->cancelled()) return AVERROR_EXIT;
  const std::int64_t count = std::min<std::int64_t>(room, source.bytes() - source.position);
  if (count <= 0) return AVERROR_EOF;
  ssize_t done = count;
  if (source.file) {
    do {
      done = ::pread(source.file->descriptor(), to, static_cast<std::size_t>(count), source.position);
    } while (done < 0 && errno == EINTR);
    if (done < 0) return AVERROR(errno);
    if (done == 0) return AVERROR_EOF;  // it became shorter
  } else {
    std::copy_n(source.memory.begin() + source.position, count, to);
  }
  source.position += done;
  return static_cast<int>(done);
}

std::int64_t seek(void* opaque, std::int64_t offset, int whence) {
  Source& source = *static_cast<Source*>(opaque);
  std::int64_t from = 0;
  switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE:
      return source.bytes();
    case SEEK_SET:
      break;
    case SEEK_CUR:
      from = source.position;
      break;
    case SEEK_END:
      from = source.bytes();
      break;
    default:
      return AVERROR(EINVAL);
  }
  // Behind the end is allowed, as for files: reading there gives the end of the file.
  std::int64_t target = 0;
  if (__builtin_add_overflow(from, offset, &target) || target < 0) return AVERROR(EINVAL);
  return source.position = target;
}

int open_nothing(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EPERM); }

struct FreeReader {
  void operator()(AVIOContext* p) const {
    delete static_cast<Source*>(p->opaque);
    av_freep(&p->buffer);
    avio_context_free(&p);
  }
};
using Reader = std::unique_ptr<AVIOContext, FreeReader>;

Reader make_reader(Source source) {
  auto owned = std::make_unique<Source>(std::move(source));
  auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferBytes));
  if (buffer == nullptr) return nullptr;
  Reader reader(avio_alloc_context(buffer, kBufferBytes, 0, owned.get(), read_some, nullptr, seek));
  if (!reader) {
    av_free(buffer);
    return nullptr;
  }
  (void)owned.release();
  return reader;
}

// The container's format, found by looking at the first bytes.
Result<const AVInputFormat*> recognize(AVIOContext& reader, const fs::path& name) {
  const AVInputFormat* format = nullptr;
  const int code = av_probe_input_buffer2(&reader, &format, "", nullptr, 0, 0);
  (void)take_complaint();
  if (code == AVERROR(ENOMEM)) return file_error("read", name, code);
  if (code == AVERROR_INVALIDDATA || format == nullptr) return unreadable(name, "it is not a video or sound file of a known kind");
  if (code < 0) return file_error("read", name, code);
  if (av_match_list(format->name, kContainers, ',') != 0) return format;
  return unreadable(name, fmt::format("its content looks like '{}', which is not a video or sound file read here", format->name));
}

Result<Input> open_source(Source source, const fs::path& name) {
  keep_complaints();
  const CancelToken* cancel = source.cancel;
  const auto failed = [&](const char* action, int code) {
    if (cancel != nullptr && cancel->cancelled()) return cancel->check("reading media").error();
    return file_error(action, name, code);
  };
  Reader reader = make_reader(std::move(source));
  AVFormatContext* opened = avformat_alloc_context();
  if (!reader || opened == nullptr) {
    avformat_free_context(opened);
    return failed("read", AVERROR(ENOMEM));
  }
  opened->pb = reader.release();
  opened->flags |= AVFMT_FLAG_CUSTOM_IO;  // libav leaves closing the reader to us
  Input input(opened);
  opened->io_open = open_nothing;
  const auto format = recognize(*opened->pb, name);
  if (!format.ok()) return cancel != nullptr && cancel->cancelled() ? failed("read", AVERROR_EXIT) : format.error();

  AVDictionary* options = nullptr;
  av_dict_set(&options, "format_whitelist", kContainers, 0);
  AVIOContext* kept = opened->pb;
  (void)input.release();  // a failing avformat_open_input frees the context, but not our reader
  int code = avformat_open_input(&opened, "", *format, &options);
  av_dict_free(&options);
  if (code < 0) {
    const Reader freed(kept);
    return failed("read", code);
  }
  input.reset(opened);
  code = avformat_find_stream_info(opened, nullptr);
  if (code < 0) return failed("read the streams of", code);
  return input;
}

}  // namespace

void CloseInput::operator()(AVFormatContext* p) const {
  const Reader reader(p->pb);
  avformat_close_input(&p);
}

Result<Input> open_input(const fs::path& path, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(InputFile file, InputFile::open(path));
  Source source;
  source.file.emplace(std::move(file));
  source.cancel = cancel;
  return open_source(std::move(source), path);
}

Result<Input> open_memory(std::span<const std::uint8_t> bytes, const fs::path& name) {
  Source source;
  source.memory = bytes;
  return open_source(std::move(source), name);
}

AVStream* find_stream(AVFormatContext& input, AVMediaType type) {
  for (unsigned i = 0; i < input.nb_streams; ++i) {
    AVStream* stream = input.streams[i];
    if (stream->codecpar->codec_type == type && (stream->disposition & AV_DISPOSITION_ATTACHED_PIC) == 0) return stream;
  }
  return nullptr;
}

bool is_cut_off(AVFormatContext& input) {
  const std::string_view name = input.iformat->name;
  if (name != "gif" && name != "avi") return false;
  std::array<unsigned char, 256> part{};
  const std::int64_t size = avio_size(input.pb);
  const std::int64_t from = name == "avi" ? 0 : std::max<std::int64_t>(0, size - static_cast<std::int64_t>(part.size()));
  if (avio_seek(input.pb, from, SEEK_SET) < 0) return true;
  const int count = avio_read(input.pb, part.data(), static_cast<int>(part.size()));
  if (count < 8) return true;
  if (name == "gif") {
    const auto last = std::find_if(part.rend() - count, part.rend(), [](unsigned char byte) { return byte != 0; });
    return last == part.rend() || *last != ';';
  }
  // "RIFF", then how much follows; 0 or all ones while a recording is going on. An odd length is padded, not by every writer.
  std::uint32_t stated = 0;
  for (std::size_t i = 8; i-- > 4;) stated = stated << 8 | part[i];
  return stated != 0xffffffff && static_cast<std::int64_t>(stated) + 8 > size + 1;
}

bool is_mov(const AVFormatContext& input) { return av_match_list(input.iformat->name, "mov", ',') != 0; }

}  // namespace tritium::av
