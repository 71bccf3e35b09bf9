#include "pipeline/memory_advice.h"

#include "base/system.h"
#include "model/geometry/canvas.h"
#include "model/geometry/clip_length.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace tritium {
namespace {

constexpr int kSmallestSide = 256;  // below the trained sizes nothing is worth proposing

class Search {
 public:
  Search(const ModelShape& model, const RequestShape& request, const Machine& machine, MemoryPolicy policy)
      : model_(model), request_(request), machine_(machine), policy_(policy) {}

  [[nodiscard]] bool fits(const ModelShape& model, const RequestShape& request, const Machine& machine) const {
    MemoryPlan plan;
    return !try_plan(model, request, machine, policy_, plan);
  }

  // The most frames that fit with everything else the same.
  [[nodiscard]] std::optional<int> frames() const {
    int low = 0, high = (request_.frames - kExtraFrames) / kFramesPerClip;  // groups of 17; `high` does not fit
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (fits_with(request_.width, request_.height, kExtraFrames + middle * kFramesPerClip) ? low : high) = middle;
    }
    if (low == 0) return std::nullopt;  // a handful of frames is no clip
    const int frames = kExtraFrames + low * kFramesPerClip;
    if (frames >= request_.frames || !fits_with(request_.width, request_.height, frames)) return std::nullopt;
    return frames;
  }

  // The largest size of the same shape.
  [[nodiscard]] std::optional<Size> size() const {
    for (int edge = std::min(request_.width, request_.height) - kSizeStep; edge >= kSmallestSide; edge -= kSizeStep) {
      const Size size = canvas_within(request_.width, request_.height, edge, std::int64_t{request_.width} * request_.height);
      if (size.area() < std::int64_t{request_.width} * request_.height && fits_with(size.width, size.height, request_.frames)) return size;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool fits_with(int width, int height, int frames) const {
    RequestShape other = request_;
    other.width = width;
    other.height = height;
    other.frames = frames;
    return fits(model_, other, machine_);
  }

  const ModelShape& model_;
  const RequestShape& request_;
  const Machine& machine_;
  MemoryPolicy policy_;
};

}  // namespace

Error refusal(const MemoryShortage& shortage, const ModelShape& model, const RequestShape& request, const Machine& machine,
              MemoryPolicy policy, const MemoryAlternatives& alternatives) {
  const Search search(model, request, machine, policy);
  std::vector<std::string> ways;
  if (const auto size = search.size()) ways.push_back(fmt::format("{}x{}", size->width, size->height));
  if (const auto frames = search.frames()) ways.push_back(fmt::format("{} frames", *frames));
  std::vector<std::string> formats;
  for (const ModelShape& other : alternatives.models)
    if (search.fits(other, request, machine)) formats.push_back(other.name);
  if (!formats.empty()) ways.push_back(fmt::format("the model as {}", fmt::join(formats, ", ")));
  for (const MachineDevice& device : alternatives.devices) {
    Machine with = machine;
    with.devices = {device};
    if (search.fits(model, request, with)) ways.push_back(fmt::format("the device {}", device.name));
  }
  const std::string where = shortage.memory == "host" ? "host memory" : fmt::format("memory on {}", shortage.memory);
  const std::string what = shortage.stage.empty() ? "" : fmt::format(" for '{}'", shortage.stage);
  return Error{ErrorCode::does_not_fit,
               fmt::format("{}x{} with {} frames needs {} of {}{}, {} is allowed", request.width, request.height, request.frames,
                           format_bytes(shortage.need), where, what, format_bytes(shortage.have)),
               "",
               ways.empty() ? "nothing smaller would fit either: it takes more memory, or a smaller model"
                            : fmt::format("what would fit: {}", fmt::join(ways, "; or "))};
}

}  // namespace tritium
