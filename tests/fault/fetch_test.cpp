// Servers that misbehave, and what `tritium fetch` makes of them.
#include "fault/fetch_program.h"

#include <chrono>

namespace tritium::test {
namespace {

using Fetch = FetchProgram;
using Json = nlohmann::json;

Page page_of(std::string content) {
  Page out;
  out.content = std::move(content);
  return out;
}

TEST_F(Fetch, BringsEveryByteOnceAndNothingTheSecondTime) {
  one_file(page_of(noise_bytes(9 * kMiB + 12345)));
  expect_complete(fetch());
  EXPECT_EQ(server_.served_bytes("/model.bin"), content_.size());
  EXPECT_GT(server_.log().size(), 4U) << "in parts";
  server_.forget_log();
  expect_complete(fetch());
  EXPECT_TRUE(server_.log().empty()) << "the file was there";
  const Json record = parse(content("out/tritium-manifest.json"));
  EXPECT_EQ(record["files"][0]["sha256"], sha256_hex(content_));
}

TEST_F(Fetch, SeveralFilesInFoldersWithOddNamesAndSizes) {
  Json files = Json::array();
  std::set<std::string> expected{"tritium-manifest.json"};
  int seed = 0;
  for (const auto& [name, size] :
       std::map<std::string, std::size_t>{{"a/b/empty", 0}, {"a/one", 1}, {"a/b c%d+e", 262144}, {"f", 262145}, {"g", 3 * kMiB}}) {
    const std::string bytes = noise_bytes(size, static_cast<std::uint32_t>(++seed));
    std::string path = "/" + name;
    if (name == "a/b c%d+e") path = "/a/b%20c%25d%2Be";
    server_.put(path, page_of(bytes));
    files.push_back(entry(name, bytes));
    expected.insert(name);
  }
  manifest(files);
  const Json result = Json::parse(succeed(fetch_arguments({"--json"})).out);
  EXPECT_EQ(result["files"].size(), 5U);
  EXPECT_EQ(fetched(), expected);
  EXPECT_EQ(content("out/g"), noise_bytes(3 * kMiB, 5));
  EXPECT_EQ(tritium(fetch_arguments({"--only", "*.none"})).status, 2);
}

TEST_F(Fetch, AServerThatIgnoresRange) {
  Page page = page_of(noise_bytes(3 * kMiB));
  page.ignore_range = true;
  one_file(page);
  expect_complete(fetch());
  EXPECT_LE(server_.served_bytes("/model.bin"), content_.size());
}

TEST_F(Fetch, AServerThatIgnoresRangeAndBreaksTheFirstConnections) {
  Page page = page_of(noise_bytes(3 * kMiB));
  page.ignore_range = true;
  page.break_after = 2 * kMiB + 7;
  page.breaks = 2;
  one_file(page);
  expect_complete(fetch());
}

TEST_F(Fetch, ConnectionsThatBreakAgainAndAgain) {
  Page page = page_of(noise_bytes(4 * kMiB));
  page.break_after = 150'000;
  one_file(page);
  expect_complete(fetch());
  EXPECT_EQ(server_.served_bytes("/model.bin"), content_.size()) << "each goes on where the last one broke";
}

TEST_F(Fetch, AConnectionThatStalls) {
  Page page = page_of(noise_bytes(2 * kMiB));
  page.stalls = 2;
  one_file(page);
  expect_complete(fetch({"--timeout", "1"}));
  EXPECT_EQ(server_.served_bytes("/model.bin"), content_.size());
}

TEST_F(Fetch, AFileThatChangesMeanwhile) {
  for (const std::size_t size : {std::size_t{4} * kMiB, 3 * kMiB + 99}) {
    Page page = page_of(noise_bytes(4 * kMiB));
    page.changes_after = 4;
    page.next_content = noise_bytes(size, 2);
    page.next_etag = "\"v2\"";
    server_.put("/model.bin", page);
    content_ = page.next_content;
    manifest(Json::array({{{"path", "model.bin"}}}));
    const Outcome outcome = fetch();
    expect_complete(outcome);
    EXPECT_NE(outcome.err.find("starting over"), std::string::npos) << outcome.err;
    std::filesystem::remove_all(path("out"));
  }
}

TEST_F(Fetch, AFileThatChangedSinceTheInterruption) {
  Page page = page_of(noise_bytes(4 * kMiB));
  page.break_after = 600'000;
  page.breaks = 1;
  page.statuses = {};
  server_.put("/model.bin", page);
  manifest(Json::array({{{"path", "model.bin"}}}));
  Command limited = command(fetch_arguments({"--connections", "1"}));
  limited.file_size_limit = 2 * kMiB;
  EXPECT_EQ(run(limited).status, 4);
  ASSERT_FALSE(journalled().empty());
  content_ = noise_bytes(4 * kMiB, 7);
  Page next = page_of(content_);
  next.etag = "\"v2\"";
  server_.put("/model.bin", next);
  const Outcome outcome = fetch();
  expect_complete(outcome);
  EXPECT_NE(outcome.err.find("has changed"), std::string::npos) << outcome.err;
}

TEST_F(Fetch, RefusalsNameTheReasonAndTheWayOut) {
  for (const auto& [status, words] : std::map<int, std::vector<std::string>>{{401, {"model.bin", "401", "--token-file", "HF_TOKEN"}},
                                                                             {403, {"model.bin", "403", "--token-file"}},
                                                                             {404, {"model.bin", "404", "Not Found"}},
                                                                             {410, {"410"}},
                                                                             {418, {"418"}}}) {
    Page page = page_of(noise_bytes(1000));
    page.statuses.assign(20, status);
    one_file(page);
    expect_refused(fetch(), 1, words);
  }
}

TEST_F(Fetch, BusyServersAreAskedAgain) {
  Page page = page_of(noise_bytes(2 * kMiB));
  page.statuses = {500, 502, 429};
  page.retry_after = 1;
  one_file(page);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = fetch();
  expect_complete(outcome);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << "Retry-After";
  EXPECT_NE(outcome.err.find("429"), std::string::npos);
  page.statuses.assign(100, 503);
  page.retry_after = 0;
  std::filesystem::remove_all(path("out"));
  one_file(page);
  expect_refused(fetch({"--retries", "1"}), 1, {"503", "2 times in a row"});
  page.statuses.assign(100, 429);
  page.retry_after = 7200;
  one_file(page);
  expect_refused(fetch(), 1, {"429", "7200 s"});
}

TEST_F(Fetch, LiesAboutLength) {
  for (const std::int64_t lie : {std::int64_t{1000}, std::int64_t{-1000}}) {
    Page page = page_of(noise_bytes(2 * kMiB));
    page.length_lie = lie;
    page.lies = 3;
    one_file(page);
    expect_complete(fetch());
    std::filesystem::remove_all(path("out"));
  }
  Page page = page_of(noise_bytes(2 * kMiB));
  page.total_lie = 5;
  one_file(page);
  expect_refused(fetch(), 1, {"has 2097157 bytes, the manifest says 2097152"});
  page.total_lie = 0;
  page.no_length = true;
  one_file(page);
  expect_complete(fetch());
}

TEST_F(Fetch, AServerThatHasLessThanTheManifestSays) {
  content_ = noise_bytes(2 * kMiB);
  server_.put("/model.bin", page_of(content_.substr(0, kMiB)));
  manifest(Json::array({entry("model.bin", content_)}));
  expect_refused(fetch(), 1, {"has 1048576 bytes, the manifest says 2097152"});
}

TEST_F(Fetch, AWrongHashIsNeverPublished) {
  one_file(page_of(noise_bytes(kMiB)));
  server_.put("/model.bin", page_of(noise_bytes(kMiB, 2)));
  expect_refused(fetch(), 3, {"model.bin", "SHA-256", sha256_hex(content_)});
  EXPECT_TRUE(journalled().empty());
  server_.put("/mirror/org/model/main/model.bin", page_of(content_));
  expect_complete(fetch({"--mirror", server_.url("/mirror/{repo}/{revision}/{path}")}));
}

TEST_F(Fetch, TheNextAddressWhenOneFails) {
  one_file(page_of(noise_bytes(2 * kMiB)));
  Page broken = page_of(content_);
  broken.break_after = 1'500'000;
  server_.put("/a/model.bin", broken);
  // Nothing listens on port 1.
  const Outcome outcome = fetch({"--retries", "1", "--mirror", server_.url("/none/{path}"), "--mirror", "http://127.0.0.1:1/{path}"});
  expect_complete(outcome);
  EXPECT_NE(outcome.err.find("trying the next address"), std::string::npos);
  EXPECT_EQ(server_.served_bytes("/model.bin"), content_.size());
}

TEST_F(Fetch, TheTokenStaysWithTheHostItIsFor) {
  HttpServer elsewhere;
  one_file(page_of(noise_bytes(kMiB)));
  elsewhere.put("/far", page_of(content_));
  Page page = page_of("");
  page.token = "secret-word";
  page.redirect = elsewhere.url("/far");
  server_.put("/model.bin", page);
  expect_refused(fetch(), 1, {"401", "--token-file"});
  Command with_token = command(fetch_arguments({"--mirror", elsewhere.url("/mirror/{path}")}));
  with_token.environment["TRITIUM_TOKEN"] = "secret-word";
  const Outcome outcome = run(with_token);
  expect_complete(outcome);
  EXPECT_EQ(outcome.err.find("secret"), std::string::npos) << "never printed";
  for (const Served& served : server_.log()) EXPECT_TRUE(served.authorization == "Bearer secret-word" || served.status == 401);
  EXPECT_FALSE(elsewhere.log().empty());
  for (const Served& served : elsewhere.log()) EXPECT_EQ(served.authorization, "") << served.path;

  std::filesystem::remove_all(path("out"));
  Command wrong = with_token;
  wrong.arguments = command(fetch_arguments()).arguments;
  wrong.environment["TRITIUM_TOKEN"] = "secret-but-wrong";
  const Outcome refused = run(wrong);
  expect_refused(refused, 1, {"401", "the token was sent"});
  EXPECT_EQ(refused.err.find("secret"), std::string::npos);
  Command foreign = wrong;
  foreign.environment = {{"HF_TOKEN", "secret-word"}, {"no_proxy", "127.0.0.1"}};  // belongs to another host
  expect_refused(run(foreign), 1, {"401", "--token-file"});
}

TEST_F(Fetch, EndlessRedirectsEnd) {
  Page page = page_of("");
  one_file(page_of(noise_bytes(100)));
  page.redirect = server_.url("/model.bin");
  server_.put("/model.bin", page);
  expect_refused(fetch(), 1, {"redirects"});
  page.redirect = "file:///etc/passwd";
  server_.put("/model.bin", page);
  expect_refused(fetch(), 1, {"not followed"});
}

TEST_F(Fetch, ThroughAProxy) {
  content_ = noise_bytes(kMiB);
  server_.put("http://weights.invalid/model.bin", page_of(content_));
  manifest(Json::array({entry("model.bin", content_)}), "http://weights.invalid/{path}");
  expect_complete(fetch({"--proxy", server_.origin()}));
  std::filesystem::remove_all(path("out"));
  Command by_environment = command(fetch_arguments());
  by_environment.environment["http_proxy"] = server_.origin();
  expect_complete(run(by_environment));
}

TEST_F(Fetch, SizesThatTheManifestDoesNotKnow) {
  for (const bool no_head : {false, true}) {
    Page page = page_of(noise_bytes(kMiB + 5));
    page.no_head = no_head;
    one_file(page);
    manifest(Json::array({{{"path", "model.bin"}}, {{"path", "extra.json"}, {"optional", true}}}));
    const Outcome outcome = fetch();
    expect_complete(outcome);
    EXPECT_NE(outcome.err.find("extra.json is optional"), std::string::npos);
    server_.forget_log();
    expect_complete(fetch());
    for (const Served& served : server_.log()) EXPECT_EQ(served.path, "/extra.json");
    std::filesystem::remove_all(path("out"));
  }
}

// B1: damaged files that look finished.
TEST_F(Fetch, B1FilesThatAreThereButWrongAreReplaced) {
  one_file(page_of(noise_bytes(kMiB)));
  expect_complete(fetch());
  std::string flipped = content_;
  flipped[kMiB / 2] = static_cast<char>(flipped[kMiB / 2] ^ 1);
  for (const std::string& damaged : {flipped, content_.substr(0, kMiB / 2)}) {
    folder_.write("out/model.bin", damaged);
    const Outcome outcome = fetch();
    expect_complete(outcome);
    EXPECT_NE(outcome.err.find("model.bin is there, but"), std::string::npos) << outcome.err;
  }
}

TEST_F(Fetch, ARateIsKept) {
  one_file(page_of(noise_bytes(2 * kMiB)));
  const auto begin = std::chrono::steady_clock::now();
  expect_complete(fetch({"--rate-limit", "1M"}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST_F(Fetch, MistakesInTheRequest) {
  const auto refused = [&](const Arguments& arguments, const std::string& words) {
    const Outcome outcome = tritium(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
    EXPECT_FALSE(exists("out"));
  };
  refused({"fetch"}, "--list");
  refused({"fetch", "no-such-set"}, "no-such-set");
  for (const char* bad : {"../up", "/etc/passwd", "a/../../b", "a//b", "", "a/.", "c\\d", "x.tritium-part"}) {
    manifest(Json::array({{{"path", bad}, {"bytes", 1}}}));
    refused(fetch_arguments(), "files[0]");
  }
  manifest(Json::array({{{"path", "a"}, {"size", 1}}}));
  refused(fetch_arguments(), "unknown key \"size\"");
  manifest(Json::array({{{"path", "a"}, {"sha256", "12"}}}));
  refused(fetch_arguments(), "64 hexadecimal digits");
  manifest(Json::array({{{"path", "a"}}, {{"path", "a"}}}));
  refused(fetch_arguments(), "twice");
  manifest(Json::array({{{"path", "a"}}}));
  refused(fetch_arguments({"--rate-limit", "fast"}), "rate-limit");
  refused(fetch_arguments({"--mirror", "ftp://x/{path}"}), "https://");
  refused(fetch_arguments({"--mirror", "https://x/{name}"}), "{name}");
  refused(fetch_arguments({"--token-file", "none"}), "token-file");
}

TEST_F(Fetch, ListAndDryRunNeedNoNetwork) {
  EXPECT_NE(succeed({"fetch", "--list"}).out.find("official-fl2va"), std::string::npos);
  const Json list = Json::parse(succeed({"fetch", "--list", "--json"}).out);
  EXPECT_GT(list.size(), 10U);
  const Json plan = Json::parse(succeed({"fetch", "comfy-fl2va-int8", "--dry-run", "--json"}).out);
  EXPECT_EQ(plan["folder"], "comfy-fl2va-int8");
  EXPECT_FALSE(exists("comfy-fl2va-int8"));
}

}  // namespace
}  // namespace tritium::test
