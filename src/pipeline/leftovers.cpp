#include "pipeline/leftovers.h"

#include "base/files.h"
#include "pipeline/publish.h"

#include <sys/stat.h>

namespace tritium {
namespace fs = std::filesystem;

std::optional<OutputState::Identity> OutputState::identity(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  return Identity{info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

OutputState::OutputState(const OutputOptions& output) {
  if (output.video.empty()) return;  // refused before anything is written
  // Later the process may stand in another folder.
  const auto absolute = [](const fs::path& path) {
    std::error_code code;
    const fs::path out = fs::absolute(path, code);
    return code ? path : out;
  };
  const fs::path rejected = rejected_name(output.video);
  for (const fs::path& path :
       {output.wav, output.latents, output.thumbnail, sidecar_of(output.video), output.video, sidecar_of(rejected), rejected})
    if (!path.empty()) files_.push_back({absolute(path), identity(path)});
  if (!output.frames_dir.empty()) frames_dir_ = absolute(output.frames_dir);
}

void OutputState::remove_leftovers(bool was_writing) const {
  for (const File& file : files_) {
    remove_abandoned_files(file.path);
    std::error_code ignored;
    if (const auto now = identity(file.path); was_writing && now && now != file.before) fs::remove(file.path, ignored);
  }
  if (!frames_dir_.empty()) remove_abandoned_files(frames_dir_ / "frame_.png", /*stem_begins=*/true);
}

}  // namespace tritium
