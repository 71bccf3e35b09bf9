// Fetches that end in the middle: killed, interrupted, on a full disk, or beside another one.
#include "fault/fetch_program.h"

#include <chrono>
#include <csignal>
#include <thread>

namespace tritium::test {
namespace {

using FetchEnds = FetchProgram;

Page slow_page(std::size_t size, std::uint64_t bytes_per_second, std::uint32_t seed = 1) {
  Page out;
  out.content = noise_bytes(size, seed);
  out.bytes_per_second = bytes_per_second;
  return out;
}

// Every moment from the start of the program to the last bytes; where a fetch was complete before its moment came, a new one begins.
TEST_F(FetchEnds, KilledAtAnyTime) {
  constexpr int kKills = 24;
  int kills = 0, with_progress = 0, late = 0;
  for (std::uint32_t file = 1; kills < kKills; ++file) {
    ASSERT_LT(file, 40U);
    one_file(slow_page(12 * kMiB, 3 * kMiB, file));  // per connection; parts of 256 KiB
    std::filesystem::remove_all(path("out"));
    server_.forget_log();
    for (bool complete = false; !complete;) {
      const auto known = journalled();
      const std::string part = content("out/model.bin.tritium-part");
      for (const auto& [first, end] : known)
        ASSERT_TRUE(end <= part.size() && part.compare(first, end - first, content_, first, end - first) == 0)
            << "the journal says what is not so";
      server_.forget_log();
      Process process(command(fetch_arguments()));
      if (kills < kKills) {
        // Every third only after it has kept something more, however slow the machine is.
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (kills % 3 == 2 && journalled().size() <= known.size() && !exists("out/model.bin") &&
               std::chrono::steady_clock::now() < give_up)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::this_thread::sleep_for(std::chrono::milliseconds(15 + 37 * (kills % 17)));
        process.send(SIGKILL);
      }
      const Outcome outcome = process.finish();
      complete = outcome.status == 0;
      if (!complete) {
        ASSERT_EQ(outcome.status, 128 + SIGKILL) << outcome.err;
        ++kills;
        if (journalled().size() > known.size()) ++with_progress;
        if (exists("out/model.bin")) ++late;
      }
      expect_not_served(known);
      if (exists("out/model.bin")) { EXPECT_TRUE(content("out/model.bin") == content_); }
    }
    server_.forget_log();
    expect_complete(fetch());
    EXPECT_TRUE(server_.log().empty());
  }
  EXPECT_GE(with_progress, 5) << "of " << kills << " kills; " << late << " came after the file was complete";
}

TEST_F(FetchEnds, InterruptedAndContinued) {
  one_file(slow_page(8 * kMiB, kMiB));
  Process process(command(fetch_arguments()));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"fetch\""));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(process.wait_for_more_error_text());
  process.send(SIGINT);
  expect_refused(process.finish(), 130, {"interrupted", "are kept", "run the same command again"});
  const auto known = journalled();
  EXPECT_FALSE(known.empty());
  server_.forget_log();
  expect_complete(fetch());
  expect_not_served(known);
}

TEST_F(FetchEnds, AFullDisk) {
  one_file(slow_page(8 * kMiB, 0));
  Command limited = command(fetch_arguments());
  limited.file_size_limit = 3 * kMiB;
  expect_refused(run(limited), 4, {"model.bin.tritium-part", "File too large", "what was fetched is kept"});
  const auto known = journalled();
  EXPECT_FALSE(known.empty());
  server_.forget_log();
  expect_complete(fetch());
  expect_not_served(known);
}

TEST_F(FetchEnds, ADiskThatIsTooSmallIsNoticedBefore) {
  manifest(nlohmann::json::array({{{"path", "model.bin"}, {"bytes", std::uint64_t{1} << 49}}}));
  expect_refused(fetch(), 4, {"are needed in 'out'", "-o DIR"});
  EXPECT_TRUE(server_.log().empty());
}

TEST_F(FetchEnds, TwoAtOnce) {
  one_file(slow_page(4 * kMiB, kMiB / 4));
  Process first(command(fetch_arguments()));
  ASSERT_TRUE(first.wait_for_error_text("\"stage\":\"fetch\""));
  const Outcome refused = fetch();
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("tritium: process "), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--wait"), std::string::npos);
  Process second(command(fetch_arguments({"--wait"})));
  ASSERT_TRUE(second.wait_for_error_text("waiting for process "));
  expect_complete(first.finish());
  expect_complete(second.finish());
  EXPECT_EQ(server_.served_bytes("/model.bin"), content_.size());
}

class DamagedParts : public FetchEnds {
 protected:
  // A fetch that ended after some parts.
  void begin() {
    one_file(slow_page(8 * kMiB, 0));
    Command limited = command(fetch_arguments());
    limited.file_size_limit = 4 * kMiB;
    ASSERT_EQ(run(limited).status, 4);
    known_ = journalled();
    ASSERT_GE(known_.size(), 4U);
    server_.forget_log();
  }
  void change(const std::string& name, const std::function<void(std::string&)>& edit) const {
    std::string bytes = content(name);
    edit(bytes);
    folder_.write(name, bytes);
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> known_;
  const std::string part_ = "out/model.bin.tritium-part", journal_ = "out/model.bin.tritium-part.json";
};

TEST_F(DamagedParts, AFlippedBitCostsItsOwnPart) {
  begin();
  change(part_, [&](std::string& bytes) { bytes[known_[1].first + 5] = static_cast<char>(bytes[known_[1].first + 5] ^ 4); });
  expect_complete(fetch());
  known_.erase(known_.begin() + 1);
  expect_not_served(known_);
}

TEST_F(DamagedParts, ATruncatedPartFile) {
  begin();
  change(part_, [](std::string& bytes) { bytes.resize(bytes.size() / 3); });
  expect_complete(fetch());
}

TEST_F(DamagedParts, AJournalThatWasCutOff) {
  begin();
  change(journal_, [](std::string& text) { text.resize(text.size() - 20); });
  expect_complete(fetch());
  known_.pop_back();
  expect_not_served(known_);
}

TEST_F(DamagedParts, AJournalFullOfNoise) {
  begin();
  change(journal_, [](std::string& text) { text = noise_bytes(text.size()); });
  expect_complete(fetch());
}

TEST_F(DamagedParts, AJournalThatSaysTooMuch) {
  begin();
  change(journal_, [&](std::string& text) {
    text += "{\"first\":7000000,\"bytes\":262144,\"sha256\":\"" + std::string(64, 'a') + "\"}\n";
    text += "{\"first\":18446744073709551615,\"bytes\":2,\"sha256\":\"" + std::string(64, 'a') + "\"}\n[1]\n{}\n";
  });
  expect_complete(fetch());
  expect_not_served(known_);
}

}  // namespace
}  // namespace tritium::test
