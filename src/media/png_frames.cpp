#include "media/png_frames.h"

#include "base/try.h"
#include "media/png_writer.h"

#include <fmt/format.h>
#include <fstream>
#include <system_error>

namespace tritium {
namespace fs = std::filesystem;

Result<PngFrames> PngFrames::open(const fs::path& beside) {
  TRITIUM_TRY_ASSIGN(AtomicFile file, AtomicFile::create(beside));
  return PngFrames(std::move(file));
}

Result<void> PngFrames::add(std::span<const std::uint8_t> rgb, int width, int height) {
  TRITIUM_TRY_ASSIGN(const std::string bytes, encode_png(rgb, width, height));
  TRITIUM_TRY(file_.write(bytes));
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + bytes.size());
  return {};
}

Result<void> PngFrames::write_to(const fs::path& folder, const CancelToken* cancel) const {
  std::error_code code;
  fs::create_directories(folder, code);
  if (!code && !fs::is_directory(folder)) code = std::make_error_code(std::errc::not_a_directory);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot create the folder '{}': {}", folder.string(), code.message()), "", ""};
  std::ifstream kept(file_.temporary_path(), std::ios::binary);
  std::string bytes;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < ends_.size(); begin = ends_[i++]) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("writing frames"));
    bytes.resize(ends_[i] - begin);
    if (!kept.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      return Error{ErrorCode::failure, fmt::format("cannot read frame {} back from '{}'", i, file_.temporary_path().string()), "", ""};
    TRITIUM_TRY(write_file_atomically(folder / fmt::format("frame_{:05}.png", i), bytes));
  }
  return {};
}

}  // namespace tritium
