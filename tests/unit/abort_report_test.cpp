// The line that a process says when a compute backend ends it.
#include "device/abort_report.h"

#include <ggml.h>
#include <gtest/gtest.h>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace tritium {
namespace {

std::string report(const char* message, std::size_t size = 1024) {
  std::string out(size, '#');
  out.resize(write_abort_report(out.data(), size, message));
  return out;
}

TEST(AbortReport, NamesStageStepDevicesAndReason) {
  EXPECT_EQ(report("why"), "tritium: a compute backend failed: why\n");
  note_stage("denoise", 12, 100);
  {
    const DeviceInUse first("RPC0[127.0.0.1:50052]"), second("CPU");
    EXPECT_EQ(
        report("x.cpp:1: lost"),
        "tritium: a compute backend failed in stage denoise, step 12 of 100; devices in use: RPC0[127.0.0.1:50052], CPU: x.cpp:1: lost\n");
  }
  note_stage("load", 0, 0);
  EXPECT_EQ(report("two\nlines"), "tritium: a compute backend failed in stage load: two lines\n");
  note_stage("", 0, 0);
}

TEST(AbortReport, IsCutWhereThereIsNoRoom) {
  for (const std::size_t size : {2u, 10u, 39u, 40u, 41u, 60u}) {
    const std::string line = report("a reason that is longer than the room there is", size);
    EXPECT_LE(line.size(), size);
    EXPECT_EQ(line.back(), '\n');
  }
  note_stage(std::string(500, 's'), 1, 2);
  EXPECT_NE(report("why").find("ssss, step 1 of 2: why"), std::string::npos);
  note_stage("", 0, 0);
}

TEST(AbortReport, MoreDevicesThanThereIsRoomFor) {
  std::vector<std::unique_ptr<DeviceInUse>> many;
  for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<DeviceInUse>("D" + std::to_string(i)));
  EXPECT_NE(report("why", 4096).find("D0, D1, "), std::string::npos);
  many.clear();
  EXPECT_EQ(report("why"), "tritium: a compute backend failed: why\n");
}

TEST(AbortReportDeathTest, EndsTheProcessWithTheStatusThatIsWanted) {
  EXPECT_EXIT(
      {
        note_stage("denoise", 1, 2);
        exit_on_abort(5);
        ggml_abort("backend.cpp", 42, "lost %s", "everything");
      },
      ::testing::ExitedWithCode(5), "tritium: a compute backend failed in stage denoise, step 1 of 2: .*backend.cpp:42: lost everything");
}

TEST(AbortReportDeathTest, AbortsWhereNoStatusIsWanted) {
  EXPECT_EXIT(
      {
        report_aborts();
        ggml_abort("backend.cpp", 42, "lost %s", "everything");
      },
      ::testing::KilledBySignal(SIGABRT), "tritium: a compute backend failed: .*lost everything");
}

}  // namespace
}  // namespace tritium
