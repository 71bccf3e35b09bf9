// `tritium verify` on sound and damaged folders.
#include "base/hash.h"
#include "support/model_copy.h"
#include "support/tritium_program.h"

#include <cmath>
#include <limits>

namespace tritium::test {
namespace {

class VerifyProgram : public TritiumProgram {
 protected:
  struct Checked {
    int status;
    std::map<std::string, std::string> bad;  // reason by path
    std::size_t files;
  };
  [[nodiscard]] Checked verify(const std::filesystem::path& what, const Arguments& more = {}) const {
    const Outcome outcome = tritium(Arguments{"verify", what.string(), "--json"} + more);
    const nlohmann::json result = parse(outcome.out);
    Checked out{outcome.status, {}, result["files"].size()};
    EXPECT_EQ(result["ok"].get<bool>(), outcome.status == 0);
    for (const auto& file : result["files"])
      if (!file["ok"].get<bool>()) out.bad[file["path"]] = file["reason"];
    return out;
  }
  static void expect_bad(const Checked& checked, const std::string& path, const std::string& words) {
    EXPECT_EQ(checked.status, 3);
    ASSERT_EQ(checked.bad.size(), 1U) << nlohmann::json(checked.bad).dump(2);
    EXPECT_EQ(checked.bad.begin()->first, path);
    EXPECT_NE(checked.bad.begin()->second.find(words), std::string::npos) << checked.bad.begin()->second;
  }
  static constexpr const char* kDit = "transformer/model.safetensors";
  ModelCopy model_;
};

TEST_F(VerifyProgram, ASoundModel) {
  for (const Arguments& how : {Arguments{}, Arguments{"--full"}}) {
    const Checked checked = verify(model_.path(), how);
    EXPECT_EQ(checked.status, 0) << nlohmann::json(checked.bad).dump(2);
    EXPECT_EQ(checked.files, 6U) << "four weight files and two indexes";
  }
  const Outcome lines = succeed({"verify", model_.path().string()});
  EXPECT_NE(lines.out.find("ok   FL2VA/transformer/model.safetensors\n"), std::string::npos) << lines.out;
  EXPECT_EQ(verify(model_.file(kDit)).files, 1U);
}

TEST_F(VerifyProgram, B1ATruncatedFile) {
  const std::string whole = model_.content(kDit);
  model_.replace(kDit, std::string_view(whole).substr(0, whole.size() / 2));
  const Checked checked = verify(model_.path());
  EXPECT_EQ(checked.status, 3);
  EXPECT_NE(checked.bad.at("FL2VA/transformer/model.safetensors").find("bytes"), std::string::npos);
  EXPECT_EQ(checked.bad.size(), 2U) << "and its index";
  expect_bad(verify(model_.file(kDit)), "model.safetensors", "bytes");
}

TEST_F(VerifyProgram, B1ALinkToNothingAndAnUnfinishedDownload) {
  std::filesystem::create_symlink("nowhere", model_.file("dangling.safetensors"));
  expect_bad(verify(model_.path()), "FL2VA/dangling.safetensors", "link");
  std::filesystem::remove(model_.file("dangling.safetensors"));
  model_.replace("transformer/x.safetensors.tritium-part", "abc");
  expect_bad(verify(model_.path()), "FL2VA/transformer/x.safetensors.tritium-part", "unfinished");
}

TEST_F(VerifyProgram, B2AMissingShard) {
  model_.remove(kDit);
  const Checked checked = verify(model_.path());
  expect_bad(checked, "FL2VA/transformer/model.safetensors.index.json", "model.safetensors");
}

TEST_F(VerifyProgram, ValuesThatAreNotFiniteNeedAFullCheck) {
  const std::string tensor = "final_layer.video_out.bias";
  model_.poke_tensor(kDit, tensor, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(verify(model_.path()).status, 0);
  expect_bad(verify(model_.path(), {"--full"}), "FL2VA/transformer/model.safetensors", tensor);
  expect_bad(verify(model_.file(kDit), {"--full"}), "model.safetensors", "nan");
}

TEST_F(VerifyProgram, AgainstAManifest) {
  const std::string name = "FL2VA/" + std::string(kDit), bytes = model_.content(kDit);
  const auto manifest = [&](std::size_t size, const std::string& hash) {
    folder_.write("m.json", nlohmann::json{{"name", "m"}, {"files", {{{"path", name}, {"bytes", size}, {"sha256", hash}}}}}.dump());
    return Arguments{"--manifest", path("m.json")};
  };
  const std::string right = sha256_hex(bytes);
  EXPECT_EQ(verify(model_.path(), manifest(bytes.size(), right) + Arguments{"--full"}).status, 0);
  expect_bad(verify(model_.path(), manifest(bytes.size() + 1, right)), name, "the manifest says");
  const Arguments wrong = manifest(bytes.size(), std::string(64, '0'));
  EXPECT_EQ(verify(model_.path(), wrong).status, 0) << "hashes need --full";
  expect_bad(verify(model_.path(), wrong + Arguments{"--full"}), name, right);
  folder_.write("m.json", R"({"name":"m","files":[{"path":"FL2VA/gone.safetensors"},{"path":"FL2VA/other","optional":true}]})");
  expect_bad(verify(model_.path(), {"--manifest", path("m.json")}), "FL2VA/gone.safetensors", "missing");
}

// The folder's own manifest counts, also for one file deep inside.
TEST_F(VerifyProgram, AgainstTheFoldersOwnManifest) {
  const std::string name = "FL2VA/" + std::string(kDit);
  const nlohmann::json own{{"name", "own"}, {"files", {{{"path", name}, {"bytes", 5}}}}};
  model_.replace("../tritium-manifest.json", own.dump());
  expect_bad(verify(model_.path()), name, "the manifest says 5");
  expect_bad(verify(model_.file(kDit)), name, "the manifest says 5");
}

TEST_F(VerifyProgram, NothingToVerify) {
  EXPECT_EQ(tritium({"verify", "none"}).status, 2);
  EXPECT_EQ(tritium({"verify", "."}).status, 2);
  EXPECT_EQ(tritium({"verify"}).status, 2);
}

}  // namespace
}  // namespace tritium::test
