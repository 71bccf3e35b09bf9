// What people read when a worker did not answer.
#include "job/worker_failure.h"

#include <gtest/gtest.h>
#include <csignal>

namespace tritium {
namespace {

const WorkerMoment kDenoising{"preparing the request", Progress{"denoise", 12, 100, 0.4, 3}, {}};

TEST(WorkerFailure, SaysWhereItWas) {
  EXPECT_EQ(kDenoising.text(), "in stage denoise, step 12 of 100");
  WorkerMoment on_device = kDenoising;
  on_device.stages.resize(2);
  on_device.stages[0].name = "text";
  on_device.stages[0].device = "CPU";
  on_device.stages[1].name = "denoise";
  on_device.stages[1].device = "Vulkan0";
  EXPECT_EQ(on_device.text(), "in stage denoise on Vulkan0, step 12 of 100");
  EXPECT_EQ((WorkerMoment{"", Progress{"write", 0, 0, 1, -1}, {}}.text()), "in stage write");
  EXPECT_EQ((WorkerMoment{"opening the model", {}, {}}.text()), "while opening the model");
}

TEST(WorkerFailure, ItsCodeFollowsFromTheEnding) {
  const auto code = [](const std::optional<Ending>& ending) { return worker_died(ending, kDenoising, "").code; };
  EXPECT_EQ(code(Ending{true, SIGKILL}), ErrorCode::does_not_fit);
  EXPECT_EQ(code(Ending{true, SIGABRT}), ErrorCode::device);
  EXPECT_EQ(code(Ending{true, SIGSEGV}), ErrorCode::device);
  EXPECT_EQ(code(Ending{false, 3}), ErrorCode::model);
  EXPECT_EQ(code(Ending{false, 4}), ErrorCode::does_not_fit);
  EXPECT_EQ(code(Ending{false, 5}), ErrorCode::device);
  for (const int status : {0, 1, 2, 6, 7, 127, 130, 255}) EXPECT_EQ(code(Ending{false, status}), ErrorCode::device) << status;
  EXPECT_EQ(code(std::nullopt), ErrorCode::device);
}

TEST(WorkerFailure, HasTheLastWords) {
  const Error error = worker_died(Ending{true, SIGKILL}, kDenoising, "one\ntwo\n");
  EXPECT_EQ(error.message,
            "the worker process ended with signal 9 (Killed) in stage denoise, step 12 of 100, most likely because the system ran out of "
            "memory; the last it said: one / two");
  EXPECT_NE(error.hint, "");
  EXPECT_EQ(worker_died(Ending{false, 5}, kDenoising, "\n\r\n").message,
            "the worker process ended with status 5 in stage denoise, step 12 of 100");
}

TEST(WorkerFailure, LastLinesFitOnOneLine) {
  EXPECT_EQ(last_lines(""), "");
  EXPECT_EQ(last_lines("1\n2\n3\n4\n5\n6\n7"), "3 / 4 / 5 / 6 / 7");
  EXPECT_EQ(last_lines("\r[###  ]\r\x1b[Kgone\x07\n"), "[###  ] / [Kgone");
  const std::string longest = last_lines(std::string(5000, 'a') + "\xc3\xa9");
  EXPECT_LE(longest.size(), 1003u);
  EXPECT_TRUE(longest.starts_with("...a"));
  std::string accents;
  for (int i = 0; i < 2000; ++i) accents += "\xc3\xa9";
  EXPECT_EQ(last_lines("x" + accents).substr(3, 2), "\xc3\xa9") << "cut within a character";
}

}  // namespace
}  // namespace tritium
