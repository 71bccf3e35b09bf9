// Files as answers: ranges, conditions, names.
#include "api/client.h"
#include "api/toy_server.h"
#include "server/http/range.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace {

using namespace tritium;
using namespace tritium::test;

TEST(Files, AreSentWholeOrInPart) {
  ToyServer toy;
  const std::string all = toy.clip();
  const std::size_t size = all.size();
  struct Case {
    std::string range;
    int status;
    std::size_t first, length;
  };
  const std::vector<Case> cases = {
      {"bytes=0-0", 206, 0, 1},
      {"bytes=0-99", 206, 0, 100},
      {"bytes=100-", 206, 100, size - 100},
      {"bytes=-10", 206, size - 10, 10},
      {fmt::format("bytes={}-", size - 1), 206, size - 1, 1},
      {fmt::format("bytes=0-{}", size + 5), 206, 0, size},
      {fmt::format("bytes=-{}", size + 5), 206, 0, size},
      {"bytes=5-99999999999999999999999", 206, 5, size - 5},
      {"BYTES= 7 - 9", 206, 7, 3},
      {fmt::format("bytes={}-", size), 416, 0, 0},
      {"bytes=99999999999999999999999-", 416, 0, 0},
      {"bytes=-0", 416, 0, 0},
      {"bytes=9-5", 200, 0, size},  // not valid: as if it were not there
      {"bytes=a-b", 200, 0, size},
      {"bytes=--5", 200, 0, size},
      {"bytes=-", 200, 0, size},
      {"bytes=", 200, 0, size},
      {"bytes=0-1,4-5", 200, 0, size},  // several parts may be answered with everything
      {"frames=0-1", 200, 0, size},
  };
  for (const Case& test : cases) {
    const Answer answer = ask(toy.port(), "GET", "/file", "Range: " + test.range + "\r\n");
    EXPECT_EQ(answer.status, test.status) << test.range;
    if (test.status == 416) {
      EXPECT_EQ(answer.field("content-range"), fmt::format("bytes */{}", size));
      continue;
    }
    EXPECT_EQ(answer.body, all.substr(test.first, test.length)) << test.range;
    EXPECT_EQ(answer.field("accept-ranges"), "bytes");
    const std::string range = test.status == 206 ? fmt::format("bytes {}-{}/{}", test.first, test.first + test.length - 1, size) : "";
    EXPECT_EQ(answer.field("content-range"), range) << test.range;
  }
}

TEST(Files, HeadOfARangeTellsItsLength) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "HEAD", "/file", "Range: bytes=0-99\r\n");
  EXPECT_EQ(answer.status, 206);
  EXPECT_EQ(answer.field("content-length"), "100");
}

TEST(Files, ConditionsAreRegarded) {
  ToyServer toy;
  for (const char* tags : {"\"v1\"", "W/\"v1\"", "*", "\"a\", W/\"b\" , \"v1\""}) {
    const Answer same = ask(toy.port(), "GET", "/file", std::string("If-None-Match: ") + tags + "\r\n");
    EXPECT_EQ(same.status, 304) << tags;
    EXPECT_EQ(same.field("etag"), "\"v1\"");
    EXPECT_TRUE(same.field("content-length").empty());
  }
  for (const char* tags : {"\"v2\"", "v1", "\"v1", ",", "\"v\", \"1\""})
    EXPECT_EQ(ask(toy.port(), "GET", "/file", std::string("If-None-Match: ") + tags + "\r\n").status, 200) << tags;
  const auto with_range = [&](const std::string& tag) {
    return ask(toy.port(), "GET", "/file", "Range: bytes=0-9\r\nIf-Range: " + tag + "\r\n").status;
  };
  EXPECT_EQ(with_range("\"v1\""), 206);
  EXPECT_EQ(with_range("\"v2\""), 200);
  EXPECT_EQ(with_range("W/\"v1\""), 200);  // weak: the bytes may differ
  EXPECT_EQ(with_range("Mon, 30 Nov 2026 14:00:00 GMT"), 200);
}

TEST(Files, LargeOnesComeWhole) {
  ToyServer toy;
  const Answer answer = ask(toy.port(), "GET", "/big");
  EXPECT_EQ(answer.body.size(), 32u << 20);
  EXPECT_EQ(answer.body.find_first_not_of('b'), std::string::npos);
}

TEST(Files, AClientThatLeavesCostsNothing) {
  ToyServer toy;
  for (int i = 0; i < 10; ++i) {
    Client client(toy.port());
    client.send(request_text("GET", "/big"));
    client.read_head();
  }
  EXPECT_TRUE(eventually([&] { return toy.server().counters().connections == 0; }));
  EXPECT_EQ(ask(toy.port(), "GET", "/health").body, "well");
}

TEST(Files, OneThatIsGoneIsNotFound) {
  ToyServer toy;
  EXPECT_EQ(ask(toy.port(), "GET", "/lost").status, 404);
}

TEST(Files, NamesForSavingMayBeAnyText) {
  ToyServer toy;
  EXPECT_EQ(ask(toy.port(), "GET", "/file?name=clip%201.mp4").field("content-disposition"),
            "attachment; filename=\"clip 1.mp4\"; filename*=UTF-8''clip%201.mp4");
  EXPECT_EQ(ask(toy.port(), "GET", "/file?name=%22%0d%0a%C3%BC").field("content-disposition"),
            "attachment; filename=\"_____\"; filename*=UTF-8''%22%0D%0A%C3%BC");
  EXPECT_TRUE(ask(toy.port(), "GET", "/file").field("content-disposition").empty());
}

TEST(Files, OfNoBytesHaveNoRange) {
  EXPECT_EQ(http::choose_part({"bytes=0-", "", ""}, 0, "").status, 416);
  EXPECT_EQ(http::choose_part({"bytes=-5", "", ""}, 0, "").status, 416);
  EXPECT_EQ(http::choose_part({"", "", ""}, 0, "").status, 200);
}

}  // namespace
