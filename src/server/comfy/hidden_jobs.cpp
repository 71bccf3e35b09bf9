#include "server/comfy/hidden_jobs.h"

#include "base/files.h"
#include "base/try.h"

#include <fstream>
#include <sstream>

namespace tritium::server::comfy {

// One line per job: its id, a space, the owner.
HiddenJobs::HiddenJobs(std::filesystem::path file, JobService& service) : file_(std::move(file)) {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return;
  const auto text = read_file(file_);
  if (!text.ok()) return;
  std::istringstream lines(*text);
  std::string kept;
  bool dropped = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string id = line.substr(0, space);
    if (service.get(id, line.substr(space + 1)).ok()) {
      ids_.insert(id);
      kept += line + "\n";
    } else {
      dropped = true;
    }
  }
  // An unwritable list stays as it is: longer than needed, not wrong.
  if (dropped) static_cast<void>(write_file_atomically(file_, kept).ok());
}

bool HiddenJobs::contains(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return ids_.count(id) != 0;
}

Result<void> HiddenJobs::add(const std::string& owner, const std::vector<std::string>& ids) {
  const std::lock_guard lock(mutex_);
  std::error_code code;
  std::filesystem::create_directories(file_.parent_path(), code);
  std::ofstream out(file_, std::ios::app | std::ios::binary);
  for (const std::string& id : ids)
    if (ids_.insert(id).second) out << id << ' ' << owner << '\n';
  out.flush();
  if (!out) return Error{ErrorCode::failure, "cannot write the list of jobs that the history forgets: '" + file_.string() + "'", "", ""};
  return {};
}

}  // namespace tritium::server::comfy
