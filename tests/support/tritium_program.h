// The command line in a folder of its own.
#pragma once

#include "support/build.h"
#include "support/process.h"
#include "unit/temp_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tritium::test {

using Arguments = std::vector<std::string>;

// Runs "tritium <arguments>" in an empty folder of the test's own.
class TritiumProgram : public ::testing::Test {
 protected:
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder() / name).string(); }

  [[nodiscard]] Command command(const Arguments& arguments) const {
    Command out;
    out.arguments = {tritium_binary()};
    out.arguments.insert(out.arguments.end(), arguments.begin(), arguments.end());
    out.folder = folder();
    return out;
  }
  [[nodiscard]] Outcome tritium(const Arguments& arguments) const { return run(command(arguments)); }
  // Of a run that has to succeed.
  [[nodiscard]] Outcome succeed(const Arguments& arguments) const {
    const Outcome outcome = tritium(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  }
  // Standard output of a run that has to succeed and print JSON.
  [[nodiscard]] nlohmann::json json(const Arguments& arguments) const { return parse(succeed(arguments).out); }

  static nlohmann::json parse(const std::string& text) {
    auto out = nlohmann::json::parse(text, nullptr, false);
    EXPECT_FALSE(out.is_discarded()) << "not JSON: " << text;
    return out;
  }

  // Names of everything in the folder, hidden or not.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) out.insert(entry.path().filename().string());
    return out;
  }

  TempFolder folder_;
};

// `first` and what follows: for common options.
inline Arguments operator+(Arguments first, const Arguments& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace tritium::test
