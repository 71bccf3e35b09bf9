// Devices for stages as users write them.
#include "pipeline/placement.h"

#include <gtest/gtest.h>

namespace tritium {
namespace {

TEST(Placement, OneDeviceIsForEverything) {
  const auto placement = parse_placement("CPU");
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->devices(), std::vector<std::string>{"CPU"});
  for (const char* stage : {"inputs", "text", "denoise", "video", "audio"}) EXPECT_EQ(placement->of_stage(stage), nullptr) << stage;
  EXPECT_TRUE(parse_placement("")->devices().empty());
}

TEST(Placement, StagesHaveDevicesOfTheirOwn) {
  const auto placement = parse_placement("text=CPU,dit=GPU0*60+GPU1*40,vae=GPU1");
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->of_stage("text")->front().name, "CPU");
  const auto& dit = *placement->of_stage("denoise");
  ASSERT_EQ(dit.size(), 2u);
  EXPECT_EQ(dit[0].name, "GPU0");
  EXPECT_DOUBLE_EQ(dit[0].share, 60);
  EXPECT_DOUBLE_EQ(dit[1].share, 40);
  for (const char* stage : {"inputs", "video", "audio"}) EXPECT_EQ(placement->of_stage(stage)->front().name, "GPU1") << stage;
  EXPECT_EQ(placement->devices().size(), 3u);
}

TEST(Placement, EndpointsHaveColonsAndDots) {
  const auto placement = parse_placement("dit=rpc://127.0.0.1:50052*2+CPU*1");
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->of_stage("denoise")->front().name, "rpc://127.0.0.1:50052");
}

TEST(Placement, SharesForEverythingDivideTheTransformer) {
  const auto placement = parse_placement("GPU0*3+GPU1*1");
  ASSERT_TRUE(placement.ok());
  ASSERT_NE(placement->of_stage("denoise"), nullptr);
  EXPECT_EQ(placement->of_stage("text"), nullptr);
  EXPECT_EQ(parse_placement("GPU0+GPU1")->of_stage("denoise"), nullptr) << "without shares the plan decides";
}

TEST(Placement, WhatMakesNoSenseIsRefusedWithAnExample) {
  for (const char* text : {",", "text=", "dit=A*0", "dit=A*x", "dit=A*-1", "dit=A*inf", "sound=CPU", "text=A+B", "vae=A+B", "text=A,text=B",
                           "dit=A*2+B", "A,B", "dit=+A", "=CPU"}) {
    const auto placement = parse_placement(text);
    ASSERT_FALSE(placement.ok()) << text;
    EXPECT_EQ(placement.error().code, ErrorCode::usage) << text;
    EXPECT_EQ(placement.error().field, "device") << text;
    EXPECT_NE(placement.error().text().find("for example"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tritium
