#include "model/vision/patches.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

Result<void> check_frames(std::span<const PictureView> frames, const PatchShape& shape) {
  const auto refuse = [](std::string what) { return Error{ErrorCode::failure, std::move(what), "", ""}; };
  if (frames.empty()) return refuse("there is no frame to cut into patches");
  const PictureView& first = frames.front();
  for (const PictureView& frame : frames) {
    if (frame.width != first.width || frame.height != first.height || !frame.complete())
      return refuse(fmt::format("frames of {}x{} pixels with {} values do not go with frames of {}x{}", frame.width, frame.height,
                                frame.rgb.size(), first.width, first.height));
  }
  if (first.width % shape.factor() != 0 || first.height % shape.factor() != 0)
    return refuse(
        fmt::format("{}x{} pixels cannot be cut into patches: sides must be multiples of {}", first.width, first.height, shape.factor()));
  return {};
}

std::array<float, 256> value_of_byte() {
  std::array<float, 256> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (static_cast<float>(i) - 127.5f) / 127.5f;
  return out;
}

// One patch, whose first pixel is (x, y) of each of the frames.
void cut_patch(std::span<const PictureView* const> frames, const PatchShape& shape, std::size_t x, std::size_t y, float* out) {
  static const std::array<float, 256> values = value_of_byte();
  const auto side = static_cast<std::size_t>(shape.side);
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (const PictureView* frame : frames)
      for (std::size_t row = 0; row < side; ++row) {
        const std::uint8_t* pixel = frame->rgb.data() + ((y + row) * static_cast<std::size_t>(frame->width) + x) * 3 + channel;
        for (std::size_t column = 0; column < side; ++column) *out++ = values[pixel[column * 3]];
      }
}

}  // namespace

Result<PatchRows> cut_patches(std::span<const PictureView> frames, const PatchShape& shape) {
  TRITIUM_TRY(check_frames(frames, shape));
  const auto count = static_cast<std::int64_t>(frames.size());
  PatchRows out;
  out.grid = {(count + shape.frames - 1) / shape.frames, frames.front().height / shape.side, frames.front().width / shape.side};
  out.values.resize(static_cast<std::size_t>(out.grid.patches() * shape.features()));
  float* row = out.values.data();
  const auto pixel = [&shape](std::int64_t patch) { return static_cast<std::size_t>(patch * shape.side); };
  std::vector<const PictureView*> block(static_cast<std::size_t>(shape.frames));
  for (std::int64_t t = 0; t < out.grid.t; ++t) {
    for (std::size_t f = 0; f < block.size(); ++f)
      block[f] = &frames[std::min(static_cast<std::size_t>(t) * block.size() + f, frames.size() - 1)];
    for (std::int64_t y = 0; y < out.grid.h; y += shape.merge)
      for (std::int64_t x = 0; x < out.grid.w; x += shape.merge)
        for (std::int64_t i = 0; i < shape.group(); ++i, row += shape.features())
          cut_patch(block, shape, pixel(x + i % shape.merge), pixel(y + i / shape.merge), row);
  }
  return out;
}

}  // namespace tritium
