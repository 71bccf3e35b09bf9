// The parts of fetch that need no server: manifests, the journal, ranges, addresses, answers' headers, rates.
#include "fetch/fetch.h"
#include "base/system.h"
#include "fetch/retry.h"
#include "unit/temp_folder.h"

#include <gmock/gmock.h>
#include <thread>

namespace tritium::fetch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  const auto manifest = parse_manifest(text, "m.json");
  if (manifest.ok()) return "accepted";
  EXPECT_EQ(manifest.error().code, ErrorCode::usage);
  EXPECT_THAT(manifest.error().message, HasSubstr("m.json"));
  return manifest.error().message;
}

TEST(Manifest, ReadsWhatItWrites) {
  const std::string hash(64, 'A');
  const auto manifest =
      parse_manifest(R"({"name":"n","repo":"o/m","base_urls":["https://h/{repo}/{revision}/{path}"],"files":[
    {"path":"a/b.bin","bytes":12,"sha256":")" +
                         hash + R"(","url":"https://x/y"},{"path":"c","revision":"v2","optional":true,"sha256":null,"bytes":null}]})",
                     "m.json");
  ASSERT_TRUE(manifest.ok()) << manifest.error().text();
  ASSERT_EQ(manifest->files.size(), 2U);
  EXPECT_EQ(manifest->files[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(manifest->files[0].revision, "main");
  EXPECT_EQ(manifest->files[1].revision, "v2");
  EXPECT_TRUE(manifest->files[1].optional);
  EXPECT_EQ(manifest->known_bytes(), 12U);
  const auto again = parse_manifest(manifest_json(*manifest), "again");
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(manifest_json(*again), manifest_json(*manifest));
}

TEST(Manifest, RefusesWhatItCannotTrust) {
  const auto with = [](const std::string& file) { return R"({"files":[)" + file + "]}"; };
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("\"files\""));
  EXPECT_THAT(refusal(R"({"files":[]})"), HasSubstr("\"files\""));
  EXPECT_THAT(refusal(with("3")), HasSubstr("files[0]: not an object"));
  EXPECT_THAT(refusal(with(R"({"path":"a","bytes":-1})")), HasSubstr("-1"));
  EXPECT_THAT(refusal(with(R"({"path":"a","bytes":1.5})")), HasSubstr("1.5"));
  EXPECT_THAT(refusal(with(R"({"path":"a\u0000b"})")), HasSubstr("control character"));
  EXPECT_THAT(refusal(with(R"({"path":"a\nb"})")), HasSubstr("control character"));
  EXPECT_THAT(refusal(with(R"({"path":"../a"})")), HasSubstr("'..'"));
  EXPECT_THAT(refusal(with(R"({"path":"/a"})")), HasSubstr("not relative"));
  EXPECT_THAT(refusal(R"({"files":[{"path":"a"}],"fiels":[]})"), HasSubstr("fiels"));
}

TEST(Manifest, BuiltinOnesAreSound) {
  for (const Manifest& manifest : builtin_manifests()) {
    const auto again = parse_manifest(manifest_json(manifest), manifest.name);
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(path_problem(manifest.name), "");
    const auto plan = plan_fetch(manifest, {"/nonexistent/folder", {}, "", {}, 0, false});
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    for (const PlannedFile& file : *plan) EXPECT_THAT(file.urls.at(0), HasSubstr("https://huggingface.co/"));
  }
  EXPECT_EQ(builtin_manifest("no such"), nullptr);
}

TEST(Manifest, AFoldersOwnKeepsWhatItKnew) {
  const test::TempFolder folder;
  EXPECT_TRUE(read_folder_manifest(folder.path()).files.empty());
  ManifestFile a, b;
  a.path = "a";
  a.bytes = 1;
  b.path = "b";
  b.bytes = 2;
  ASSERT_TRUE(update_folder_manifest(folder.path(), "first", {a}).ok());
  a.bytes = 3;
  ASSERT_TRUE(update_folder_manifest(folder.path(), "second", {b, a}).ok());
  const Manifest all = read_folder_manifest(folder.path());
  EXPECT_EQ(all.name, "first");
  ASSERT_EQ(all.files.size(), 2U);
  EXPECT_EQ(all.find("a")->bytes, 3U);
  folder.write(kFolderManifest, "{ damaged");
  EXPECT_TRUE(read_folder_manifest(folder.path()).files.empty());
}

TEST(Ranges, AreMergedAndLeaveGaps) {
  Ranges ranges;
  EXPECT_THAT(ranges.gaps(10), ElementsAre(ByteRange{0, 10}));
  ranges.add({4, 6});
  ranges.add({8, 8});
  EXPECT_EQ(ranges.prefix(), 0U);
  EXPECT_THAT(ranges.gaps(10), ElementsAre(ByteRange{0, 4}, ByteRange{6, 10}));
  ranges.add({0, 4});
  EXPECT_EQ(ranges.prefix(), 6U);
  ranges.add({9, 10});
  EXPECT_THAT(ranges.gaps(10), ElementsAre(ByteRange{6, 9}));
  EXPECT_TRUE(ranges.overlaps({5, 7}));
  EXPECT_FALSE(ranges.overlaps({6, 9}));
  EXPECT_EQ(ranges.total(), 7U);
  ranges.add({2, 9});
  EXPECT_TRUE(ranges.gaps(10).empty());
}

class JournalFile : public ::testing::Test {
 protected:
  test::TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.tritium-part.json";
  const JournalHead head_{1000, "https://host/a \"b\"", "\"e\xC3\xBC\""};
  const HashedRange first_{{0, 100}, std::string(64, 'a')}, second_{{300, 1000}, std::string(64, 'b')};
};

TEST_F(JournalFile, GrowsLineByLine) {
  auto journal = Journal::create(path_, {head_, {first_}});
  ASSERT_TRUE(journal.ok()) << journal.error().text();
  ASSERT_TRUE(journal->append(second_).ok());
  const auto content = read_journal(path_);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->head, head_);
  EXPECT_THAT(content->ranges, ElementsAre(first_, second_));
}

TEST_F(JournalFile, WhatIsDamagedCountsAsAbsent) {
  auto journal = Journal::create(path_, {head_, {first_}});
  ASSERT_TRUE(journal.ok() && journal->append(second_).ok());
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t length = 0; length < text.size(); ++length) {  // cut off anywhere
    const auto content = parse_journal(text.substr(0, length));
    if (!content) continue;
    EXPECT_EQ(content->head, head_);
    EXPECT_LE(content->ranges.size(), 2U);
  }
  for (std::size_t at = 0; at < text.size(); ++at) {  // a byte changed anywhere: never more, never out of bounds
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
    const auto content = parse_journal(damaged);
    if (!content) continue;
    for (const HashedRange& r : content->ranges) EXPECT_TRUE(r.range.first < r.range.end && r.range.end <= content->head.size);
  }
  EXPECT_FALSE(parse_journal(""));
  EXPECT_FALSE(parse_journal("[]\n"));
  EXPECT_FALSE(parse_journal("{\"format\":2,\"size\":1,\"url\":\"\",\"identity\":\"\"}\n"));
}

TEST(Address, TokensGoWhereTheyBelong) {
  const Token token{"t", {"huggingface.co", "files.example:8443"}};
  EXPECT_TRUE(token.may_go_to("https://huggingface.co/a?b=c"));
  EXPECT_TRUE(token.may_go_to("https://HuggingFace.co:443/a"));
  EXPECT_TRUE(token.may_go_to("https://files.example:8443/a"));
  for (const char* url : {"http://huggingface.co/a", "https://huggingface.co.evil.example/", "https://evil.example/huggingface.co",
                          "https://huggingface.co:444/", "https://user@evil.example#huggingface.co", "https://files.example/",
                          "not an address", "ftp://huggingface.co/"})
    EXPECT_FALSE(token.may_go_to(url)) << url;
  EXPECT_TRUE((Token{"t", {"127.0.0.1"}}).may_go_to("http://127.0.0.1:8000/"));
  EXPECT_FALSE((Token{"t", {"127.evil.example"}}).may_go_to("http://127.evil.example/"));
  EXPECT_FALSE((Token{"", {"huggingface.co"}}).may_go_to("https://huggingface.co/a"));
}

TEST(Address, IsShownWithoutSecrets) {
  EXPECT_EQ(shown("https://user:pass@host/path?signature=1#x"), "https://host/path");
  EXPECT_THAT(shown("http://[bad"), HasSubstr("not an address"));
}

TEST(Address, PatternsAreFilledIn) {
  ManifestFile file;
  file.path = "a b/c#d?.bin";
  file.repo = "org/model";
  file.revision = "main";
  const auto url = expand_pattern("https://h/{repo}/resolve/{revision}/{path}", file);
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(*url, "https://h/org/model/resolve/main/a%20b/c%23d%3F.bin");
  file.repo.clear();
  for (const char* bad : {"https://h/{repo}", "https://h/{path", "https://h/{other}", "file:///{path}", "{path}"})
    EXPECT_FALSE(expand_pattern(bad, file).ok()) << bad;
}

TEST(Answer, HeaderLines) {
  HttpHead head;
  for (const char* line : {"HTTP/1.1 100 Continue\r\n", "ETag: \"old\"\r\n", "HTTP/2 206 \r\n", "ETAG:  \"v\" \r\n",
                           "content-range: bytes 10-19/100\r\n", "Content-Length: 10\r\n", "Last-Modified: yesterday\r\n"})
    read_header_line(line, head);
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.identity, "\"v\"");
  EXPECT_EQ(head.range, (ByteRange{10, 20}));
  EXPECT_EQ(head.total, 100U);
  EXPECT_EQ(head.length, 10U);
  for (const char* odd : {"Content-Range: bytes 5-4/9", "Content-Range: bytes x-y/z", "Content-Range: pages 1-2/3",
                          "Content-Range: bytes 0-18446744073709551615/1", "Content-Range:", "Content-Range: bytes */"}) {
    HttpHead other;
    read_header_line(odd, other);
    EXPECT_FALSE(other.range) << odd;
  }
}

TEST(Answer, WhatItMeansForTheNextTry) {
  const auto status = [](int code, double retry_after = 0) {
    HttpOutcome out;
    out.head.status = code;
    out.retry_after = retry_after;
    return judge(out, 100);
  };
  for (const int code : {408, 429, 500, 502, 503, 504, 200, 206}) EXPECT_EQ(status(code).kind, Verdict::Kind::retry) << code;
  for (const int code : {400, 401, 403, 405, 416, 418}) EXPECT_EQ(status(code).kind, Verdict::Kind::failed) << code;
  for (const int code : {404, 410}) EXPECT_EQ(status(code).kind, Verdict::Kind::absent) << code;
  EXPECT_EQ(status(429, 7).wait, 7);
  EXPECT_EQ(status(429, 1e6).kind, Verdict::Kind::failed);
  for (int failures = 1; failures < 100; ++failures) {
    const double pause = pause_before(failures, 0.5, 0);
    EXPECT_GT(pause, 0.2);
    EXPECT_LE(pause, 60);
  }
  EXPECT_GE(pause_before(1, 0.5, 12), 12);
}

TEST(Rate, Numbers) {
  EXPECT_EQ(parse_rate("500"), 500U);
  EXPECT_EQ(parse_rate("1.5K"), 1536U);
  EXPECT_EQ(parse_rate("10M"), 10U << 20);
  EXPECT_EQ(parse_rate("2g"), std::uint64_t{2} << 30);
  for (const char* bad : {"", "0", "-1", "M", "10MB", "ten", "1e30", "nan"}) EXPECT_FALSE(parse_rate(bad)) << bad;
}

TEST(Rate, IsSharedByAll) {
  RateLimiter limiter(1 << 20);
  const double begin = monotonic_seconds();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 8; ++i) limiter.take(16 << 10, [] { return true; });
      });
  }
  EXPECT_GE(monotonic_seconds() - begin, 0.45) << "512 KiB at 1 MiB/s";
  EXPECT_FALSE(limiter.take(100 << 20, [] { return false; }));
  EXPECT_TRUE(RateLimiter(0).take(std::uint64_t{1} << 40, [] { return true; }));
}

TEST(Chunks, AreSmallForSmallFilesAndNeverHuge) {
  EXPECT_EQ(chunk_bytes(0), 256U << 10);
  EXPECT_EQ(chunk_bytes(12 << 20), 256U << 10);
  EXPECT_EQ(chunk_bytes(std::uint64_t{64} << 20), 1U << 20);
  EXPECT_EQ(chunk_bytes(std::uint64_t{66} << 30), 16U << 20);
}

}  // namespace
}  // namespace tritium::fetch
