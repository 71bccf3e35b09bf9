// The frames between a worker and its caller: cut anywhere, announced too long, or something else altogether.
#include "job/worker_protocol.h"

#include "job/worker_codec.h"

#include <gtest/gtest.h>
#include <vector>

namespace tritium {
namespace {

std::string frame(FrameType type, std::string_view body) {
  auto out = encode_frame(type, body);
  EXPECT_TRUE(out.ok());
  return out.ok() ? *out : "";
}

// All whole frames in `bytes`, fed in pieces that end at `cuts`.
std::vector<WorkerFrame> read_in_pieces(std::string_view bytes, const std::vector<std::size_t>& cuts) {
  FrameReader reader;
  std::vector<WorkerFrame> out;
  std::size_t begin = 0;
  const auto take = [&](std::size_t end) {
    reader.feed(bytes.substr(begin, end - begin));
    begin = end;
    for (;;) {
      auto next = reader.next();
      if (!next.ok()) {
        ADD_FAILURE() << next.error().text();
        return;
      }
      if (!next->has_value()) return;
      out.push_back(std::move(**next));
    }
  };
  for (const std::size_t cut : cuts) take(cut);
  take(bytes.size());
  EXPECT_FALSE(reader.inside_frame());
  return out;
}

void expect_refused(std::string_view bytes, const std::string& part) {
  FrameReader reader;
  reader.feed(bytes);
  const auto first = reader.next();
  ASSERT_FALSE(first.ok()) << "accepted: " << bytes.substr(0, 20);
  EXPECT_NE(first.error().message.find(part), std::string::npos) << first.error().message;
  reader.feed(frame(FrameType::cancel, "{}"));
  EXPECT_FALSE(reader.next().ok()) << "a stream that lost its frames cannot find them again";
}

const std::vector<std::pair<FrameType, std::string>> kFrames = {
    {FrameType::hello, "{}"}, {FrameType::cancel, ""}, {FrameType::planned, std::string(300, 'x')}, {FrameType::failed, "TrW\x01"}};

std::string stream() {
  std::string out;
  for (const auto& [type, body] : kFrames) out += frame(type, body);
  return out;
}

void expect_frames(const std::vector<WorkerFrame>& got, const std::string& what) {
  ASSERT_EQ(got.size(), kFrames.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].type, kFrames[i].first) << what;
    EXPECT_EQ(got[i].body, kFrames[i].second) << what;
  }
}

TEST(WorkerFrames, ArriveWholeHoweverTheStreamIsCut) {
  const std::string bytes = stream();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) expect_frames(read_in_pieces(bytes, {cut}), "cut at " + std::to_string(cut));
  std::vector<std::size_t> every;
  for (std::size_t i = 1; i < bytes.size(); ++i) every.push_back(i);
  expect_frames(read_in_pieces(bytes, every), "byte by byte");
}

TEST(WorkerFrames, ATruncatedOneIsWaitedFor) {
  const std::string bytes = frame(FrameType::done, std::string(100, 'y'));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    FrameReader reader;
    reader.feed(std::string_view(bytes).substr(0, length));
    const auto next = reader.next();
    ASSERT_TRUE(next.ok()) << length;
    EXPECT_FALSE(next->has_value()) << length;
    EXPECT_EQ(reader.inside_frame(), length > 0);
  }
}

TEST(WorkerFrames, HostileLengthsAreRefusedBeforeAnythingIsReserved) {
  const auto header = [](std::uint32_t length) {
    std::string out = "TrW\x01";
    for (int i = 0; i < 4; ++i) out += static_cast<char>((length >> (8 * i)) & 0xff);
    return out;
  };
  for (const std::uint32_t length : {kMaxFrameBytes + 1, kMaxFrameBytes * 2, 0x7fffffffu, 0x80000000u, 0xffffffffu})
    expect_refused(header(length), std::to_string(length));
  FrameReader reader;
  reader.feed(header(kMaxFrameBytes));
  const auto next = reader.next();
  ASSERT_TRUE(next.ok());
  EXPECT_FALSE(next->has_value());
}

TEST(WorkerFrames, AnythingElseIsRecognisedAtOnce) {
  expect_refused("H", "does not begin like one");
  expect_refused("Tr-", "does not begin like one");
  expect_refused("Usage: tritium [OPTIONS]", "Usage: tritium [OPTIONS]");
  expect_refused(std::string(1000, '\0'), "does not begin like one");
  expect_refused("\x1b[31mred", ".[31mred");
  expect_refused(std::string("TrW\0", 4), "no type 0");
  expect_refused("TrW\x0c", "no type 12");
  expect_refused("TrW\xff", "no type 255");
}

TEST(WorkerFrames, GarbageAfterAGoodOne) {
  FrameReader reader;
  reader.feed(frame(FrameType::hello, "{}") + "garbage");
  const auto good = reader.next();
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good->has_value());
  EXPECT_FALSE(reader.next().ok());
}

TEST(WorkerFrames, ADocumentAboveTheLimitIsNotSent) {
  const auto encoded = encode_frame(FrameType::generate, std::string(std::size_t{kMaxFrameBytes} + 1, ' '));
  ASSERT_FALSE(encoded.ok());
  EXPECT_EQ(encoded.error().code, ErrorCode::usage);
}

TEST(WorkerHello, OnlyTheSameProgramIsAccepted) {
  EXPECT_TRUE(check_hello({FrameType::hello, hello_body()}).ok());
  const auto refusal = [](FrameType type, const std::string& body) {
    const auto checked = check_hello({type, body});
    EXPECT_FALSE(checked.ok()) << body;
    return checked.ok() ? "" : checked.error().text();
  };
  EXPECT_NE(refusal(FrameType::hello, encode_message(HelloMessage{kWorkerProtocol, "9.9.9"})).find("9.9.9"), std::string::npos);
  EXPECT_NE(refusal(FrameType::hello, encode_message(HelloMessage{77, version()})).find("protocol 77"), std::string::npos);
  EXPECT_NE(refusal(FrameType::opened, hello_body()).find("no version"), std::string::npos);
  for (const char* body : {"", "{}", "[]", "null", "{\"protocol\":1}", "{\"protocol\":\"1\",\"version\":\"0.1.0\"}", "\xff"})
    (void)refusal(FrameType::hello, body);
}

}  // namespace
}  // namespace tritium
