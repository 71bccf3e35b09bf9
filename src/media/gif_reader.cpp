// The first picture of a GIF, with libav.
#include "base/try.h"
#include "media/input_file.h"
#include "media/picture_decoders.h"
#include "media/rgb_converter.h"
#include "media/track_decoder.h"

namespace tritium {

namespace {

// Whether the first picture's data are all there: decoders fill in what is missing without a word. GIF89a: screen descriptor and colour
// table, then extensions and pictures; the data of both are chains of up to 255 bytes that end with an empty one.
bool has_complete_picture(std::span<const std::uint8_t> file) {
  constexpr std::size_t kScreen = 13, kPicture = 10;
  constexpr std::uint8_t kExtension = 0x21, kSeparator = 0x2C;
  const auto table_bytes = [](std::uint8_t flags) { return (flags & 0x80) != 0 ? std::size_t{3} << ((flags & 7) + 1) : std::size_t{0}; };
  std::size_t at = kScreen + table_bytes(file[10]);
  const auto skip_chain = [&] {
    while (at < file.size() && file[at] != 0) at += std::size_t{1} + file[at];
    return at++ < file.size();
  };
  while (at + 2 < file.size()) {
    if (file[at] == kExtension) {
      at += 2;
      if (!skip_chain()) return false;
    } else if (file[at] == kSeparator && at + kPicture < file.size()) {
      at += kPicture + table_bytes(file[at + kPicture - 1]) + 1;  // and the size of the first codes
      return skip_chain();
    } else {
      return false;
    }
  }
  return false;
}

}  // namespace

Result<StoredPicture> decode_gif(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits) {
  const auto damaged = [&](const std::string& what) { return unreadable(name, "damaged GIF: " + what); };
  if (file.size() < 13) return damaged("the file ends early");
  if (!has_complete_picture(file)) return damaged("its picture is incomplete");
  const auto side = [&](std::size_t at) { return static_cast<std::uint32_t>(file[at] | file[at + 1] << 8); };
  StoredPicture out;
  TRITIUM_TRY_ASSIGN(out.picture, make_picture(side(6), side(8), name, limits));

  TRITIUM_TRY_ASSIGN(const av::Input input, av::open_memory(file, name));
  AVStream* stream = av::find_stream(*input, AVMEDIA_TYPE_VIDEO);
  if (stream == nullptr || stream->codecpar->codec_id != AV_CODEC_ID_GIF) return damaged("no picture");
  RgbConverter to_rgb(name);
  bool found = false;
  const auto keep = [&](const AVFrame& frame) -> Result<Want> {
    TRITIUM_TRY(to_rgb.check(frame));
    if (frame.width != out.picture.width || frame.height != out.picture.height) return damaged("its size changes");
    TRITIUM_TRY(to_rgb.convert(frame, out.picture.rgb));
    found = true;
    return Want::enough;
  };
  std::vector<TrackDecoder> tracks;
  TRITIUM_TRY_ASSIGN(TrackDecoder track, TrackDecoder::open(name, *stream, keep));
  tracks.push_back(std::move(track));
  TRITIUM_TRY(decode_tracks(name, *input, tracks, nullptr));
  if (!found) return damaged("no picture");
  return out;
}

}  // namespace tritium
