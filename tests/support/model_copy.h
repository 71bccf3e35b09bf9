// The demonstration model with something changed in it.
#pragma once

#include "unit/temp_folder.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace tritium::test {

// A folder of links to the model's files, of which single ones are replaced; removed at the end. A file is named relative to the
// partition, e.g. "transformer/config.json". A change that cannot be made fails the test.
class ModelCopy {
 public:
  ModelCopy();

  // As given to -m.
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return folder_.path() / "FL2VA" / name; }

  [[nodiscard]] std::string content(const std::string& name) const;
  void replace(const std::string& name, std::string_view content) const;
  void remove(const std::string& name) const;  // a file or a folder
  // Every occurrence of `from`, of which there must be one.
  void replace_text(const std::string& name, const std::string& from, const std::string& to) const;
  // Every element of a BF16 or F32 tensor, or only the first.
  void fill_tensor(const std::string& name, const std::string& tensor, float value) const;
  void poke_tensor(const std::string& name, const std::string& tensor, float value) const;

 private:
  void set_elements(const std::string& name, const std::string& tensor, float value, bool only_first) const;
  TempFolder folder_;
};

}  // namespace tritium::test
