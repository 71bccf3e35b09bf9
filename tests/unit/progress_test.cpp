// Progress over the stages of a request: fractions by their weights, timings of each.
#include "pipeline/progress.h"

#include <gtest/gtest.h>

namespace tritium {
namespace {

struct Seen {
  std::vector<Progress> events;
  ProgressCallback callback() {
    return [this](const Progress& p) { events.push_back(p); };
  }
  [[nodiscard]] const Progress& last() const { return events.back(); }
};

TEST(ProgressTracker, AFractionCountsStagesByTheirWeight) {
  Seen seen;
  ProgressTracker tracker({{"load", 1}, {"denoise", 6}, {"write", 3}}, seen.callback());
  tracker.begin("load");
  EXPECT_EQ(seen.last().stage, "load");
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0);
  EXPECT_LT(seen.last().eta_seconds, 0) << "nothing is known yet";
  tracker.report(1, 2);
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0.05);
  tracker.begin("denoise");
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0.1);
  tracker.report(3, 4);
  EXPECT_EQ(seen.last().step, 3);
  EXPECT_EQ(seen.last().of, 4);
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0.55);
  EXPECT_GE(seen.last().eta_seconds, 0);
  tracker.begin("write");
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0.7);
  tracker.report(3, 3);
  EXPECT_DOUBLE_EQ(seen.last().fraction, 1);
}

TEST(ProgressTracker, EachStageThatRanIsTimed) {
  ProgressTracker tracker({{"load", 1}, {"text", 1}, {"denoise", 1}, {"write", 1}}, {});
  EXPECT_TRUE(tracker.timings().empty());
  tracker.begin("load");
  tracker.begin("denoise");  // a stage that is left out counts as done, without a timing
  tracker.begin("write");
  ASSERT_EQ(tracker.timings().size(), 2u) << "the last stage still runs";
  tracker.finish();
  ASSERT_EQ(tracker.timings().size(), 3u);
  const char* names[] = {"load", "denoise", "write"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tracker.timings()[i].stage, names[i]);
    EXPECT_GE(tracker.timings()[i].seconds, 0);
  }
  tracker.finish();
  EXPECT_EQ(tracker.timings().size(), 3u) << "a second end adds nothing";
}

TEST(ProgressTracker, AStageThatWasLeftOutCountsAsDone) {
  Seen seen;
  ProgressTracker tracker({{"load", 5}, {"text", 3}, {"denoise", 2}}, seen.callback());
  tracker.begin("denoise");
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0.8);
}

TEST(ProgressTracker, AnUnknownStageIsSilent) {
  Seen seen;
  ProgressTracker tracker({{"load", 1}}, seen.callback());
  tracker.begin("no such stage");
  tracker.report(1, 2);
  tracker.finish();
  EXPECT_TRUE(seen.events.empty());
  EXPECT_TRUE(tracker.timings().empty());
}

TEST(ProgressTracker, WithoutWeightsOrStepsNothingIsDividedByZero) {
  Seen seen;
  ProgressTracker tracker({{"load", 0}}, seen.callback());
  tracker.begin("load");
  tracker.report(0, 0);
  EXPECT_DOUBLE_EQ(seen.last().fraction, 0);
  ProgressTracker nothing({}, seen.callback());
  nothing.begin("load");
  nothing.finish();
  EXPECT_EQ(seen.events.size(), 2u);
}

}  // namespace
}  // namespace tritium
