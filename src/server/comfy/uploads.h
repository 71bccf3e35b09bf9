// Files that clients upload for LoadImage, LoadVideo and LoadAudio. Each owner has folders of its own; names are checked, and no name of a
// client is ever followed outside of them.
#pragma once

#include "server/http/message.h"

#include <tritium/result.h>

#include <mutex>
#include <string>
#include <vector>

namespace tritium::server::comfy {

struct UploadLimits {
  std::uint64_t max_bytes = 20ull << 30;  // of one owner's files together
  double keep_days = 30;                  // since a file was uploaded or used last; 0: for ever
};

class Uploads {
 public:
  // `folder` is made when it is needed.
  Uploads(std::filesystem::path folder, UploadLimits limits);

  struct Stored {
    std::string name, subfolder, type;
  };
  // `type`: "input", "temp" or "output" ("" is input). The file is copied. Without `overwrite` another file of that name stays, and the new
  // one gets a number: "a (1).png"; the same content under the same name is stored once.
  // Errors: usage (names, type), busy (more bytes than this owner may have).
  Result<Stored> store(const std::string& owner, const http::FormField& file, const std::string& subfolder, const std::string& type,
                       bool overwrite);

  // Error: usage for names that lead elsewhere, not_found.
  Result<std::filesystem::path> find(const std::string& owner, const std::string& type, const std::string& subfolder,
                                     const std::string& name) const;

  // Names of the input folder, "sub/name", of files with these endings (".png"); at most 1000, in order.
  [[nodiscard]] std::vector<std::string> names(const std::string& owner, const std::vector<std::string>& endings) const;

 private:
  [[nodiscard]] std::filesystem::path folder_of(const std::string& owner) const;
  void sweep(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  UploadLimits limits_;
  std::mutex mutex_;
  double swept_ = -1e9;  // seconds, monotonic
};

// By the ending of the name; what a browser could run is "application/octet-stream".
std::string media_type(const std::string& name);

}  // namespace tritium::server::comfy
