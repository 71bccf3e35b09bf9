// WebP with libwebp: still pictures, and the first picture of animations on their (black) canvas.
#include "base/try.h"
#include "media/input_file.h"
#include "media/picture_decoders.h"

#include <webp/decode.h>
#include <webp/demux.h>
#include <memory>

namespace tritium {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* p) const { WebPDemuxDelete(p); }
};
struct ReleaseFrame {
  void operator()(WebPIterator* p) const { WebPDemuxReleaseIterator(p); }
};

Orientation orientation_of(const WebPDemuxer& demuxer) {
  WebPChunkIterator chunk{};
  if (WebPDemuxGetChunk(&demuxer, "EXIF", 1, &chunk) == 0) return {};
  const unsigned tag = exif_orientation_tag({chunk.chunk.bytes, chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return exif_orientation(tag);
}

}  // namespace

Result<StoredPicture> decode_webp(std::span<const std::uint8_t> file, const std::filesystem::path& name, const PictureLimits& limits) {
  const auto damaged = [&](const char* what) { return unreadable(name, std::string("damaged WebP: ") + what); };
  const WebPData data = {file.data(), file.size()};
  const std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer(WebPDemux(&data));
  if (!demuxer) return damaged("it ends early or its parts do not fit together");
  StoredPicture out;
  const std::uint32_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const std::uint32_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  TRITIUM_TRY_ASSIGN(out.picture, make_picture(width, height, name, limits));
  out.orientation = orientation_of(*demuxer);

  WebPIterator frame{};
  const std::unique_ptr<WebPIterator, ReleaseFrame> release(&frame);
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) return damaged("it holds no picture");
  const auto right = static_cast<std::int64_t>(frame.x_offset) + frame.width,
             bottom = static_cast<std::int64_t>(frame.y_offset) + frame.height;
  if (frame.x_offset < 0 || frame.y_offset < 0 || right > width || bottom > height) return damaged("its first picture leaves the canvas");
  const std::size_t stride = std::size_t{3} * width;
  const std::size_t first = static_cast<std::size_t>(frame.y_offset) * stride + static_cast<std::size_t>(frame.x_offset) * 3;
  if (WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, out.picture.rgb.data() + first, out.picture.rgb.size() - first,
                        static_cast<int>(stride)) == nullptr)
    return damaged("its pixels cannot be decoded");
  return out;
}

}  // namespace tritium
