// Jobs that were taken out of ComfyUI's history. There that keeps the files; here jobs and files go together, by retention. So the history
// only forgets them.
#pragma once

#include "job/service.h"

#include <mutex>
#include <set>

namespace tritium::server::comfy {

class HiddenJobs {
 public:
  // Reads the list; jobs that are gone are left out.
  HiddenJobs(std::filesystem::path file, JobService& service);

  [[nodiscard]] bool contains(const std::string& id) const;
  Result<void> add(const std::string& owner, const std::vector<std::string>& ids);

 private:
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::set<std::string> ids_;
};

}  // namespace tritium::server::comfy
