// `tritium fetch` against a server of the test's own.
#pragma once

#include "base/hash.h"
#include "support/http_server.h"
#include "support/tritium_program.h"

#include <fstream>
#include <iterator>

namespace tritium::test {

class FetchProgram : public TritiumProgram {
 protected:
  // A manifest "m.json" of files at "<server>/<path>"; each entry {"path", ...} as in a manifest.
  void manifest(nlohmann::json files) const { manifest(std::move(files), server_.url("/{path}")); }
  void manifest(nlohmann::json files, const std::string& pattern) const {
    const nlohmann::json document{{"name", "test"}, {"repo", "org/model"}, {"base_urls", {pattern}}, {"files", std::move(files)}};
    folder_.write("m.json", document.dump());
  }
  // The entry of a file with this content.
  static nlohmann::json entry(const std::string& path, const std::string& content) {
    return {{"path", path}, {"bytes", content.size()}, {"sha256", sha256_hex(content)}};
  }
  // One file "model.bin", described in full, from a page of the server.
  void one_file(Page page) {
    content_ = page.content;
    server_.put("/model.bin", std::move(page));
    manifest(nlohmann::json::array({entry("model.bin", content_)}));
  }

  // Whatever proxy or token this machine is set up with.
  [[nodiscard]] Command command(const Arguments& arguments) const {
    Command out = TritiumProgram::command(arguments);
    out.environment = {{"no_proxy", "127.0.0.1"}, {"HF_TOKEN", ""}};
    return out;
  }
  [[nodiscard]] Arguments fetch_arguments(const Arguments& more = {}) const {
    return Arguments{"fetch", "m.json", "-o", "out", "--progress=json"} + more;
  }
  [[nodiscard]] Outcome fetch(const Arguments& more = {}) const { return run(command(fetch_arguments(more))); }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(folder() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(folder() / name); }
  [[nodiscard]] std::set<std::string> fetched() const {
    std::set<std::string> out;
    for (const auto& item : std::filesystem::recursive_directory_iterator(folder() / "out"))
      if (!item.is_directory()) out.insert(item.path().lexically_relative(folder() / "out").string());
    return out;
  }
  // The file is there and right, and nothing unfinished is left.
  void expect_complete(const Outcome& outcome) const {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "out/model.bin\n");
    EXPECT_TRUE(content("out/model.bin") == content_);
    EXPECT_EQ(fetched(), (std::set<std::string>{"model.bin", "tritium-manifest.json"}));
  }
  // Nothing under the file's name, and these words in the message.
  void expect_refused(const Outcome& outcome, int status, const std::vector<std::string>& parts) const {
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(exists("out/model.bin"));
    const std::size_t at = outcome.err.find("tritium: ");
    ASSERT_NE(at, std::string::npos) << outcome.err;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part, at), std::string::npos) << "'" << part << "' is not in: " << outcome.err.substr(at);
  }

  // The ranges that the journal of the unfinished file lists.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> journalled() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
    std::ifstream file(folder() / "out/model.bin.tritium-part.json");
    for (std::string line; std::getline(file, line);) {
      const auto object = nlohmann::json::parse(line, nullptr, false);
      if (!object.is_object() || !object.contains("first")) continue;
      const auto first = object["first"].get<std::uint64_t>();
      out.emplace_back(first, first + object["bytes"].get<std::uint64_t>());
    }
    return out;
  }
  // None of what the server sent lies in one of these ranges.
  void expect_not_served(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) const {
    for (const Served& served : server_.log())
      for (const auto& [first, end] : ranges)
        EXPECT_TRUE(served.first + served.bytes <= first || served.first >= end || served.bytes == 0)
            << "bytes " << served.first << " to " << served.first + served.bytes << " were sent again; " << first << " to " << end
            << " were known to be right";
  }

  HttpServer server_;
  std::string content_;
};

constexpr std::size_t kMiB = 1 << 20;

}  // namespace tritium::test
