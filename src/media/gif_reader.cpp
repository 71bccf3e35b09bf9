// The first picture of a GIF, with libav.
#include "base/try.h"
#include "media/input_file.h"
#include "media/picture_decoders.h"
#include "media/rgb_converter.h"
#include "media/track_decoder.h"

namespace tritium {

Result<StoredPicture> decode_gif(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits) {
  const auto damaged = [&](const std::string& what) { return unreadable(name, "damaged GIF: " + what); };
  if (file.size() < 13) return damaged("the file ends early");
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
