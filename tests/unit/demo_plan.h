// Requests to plans of the demonstration model: only its configurations and headers are read.
#pragma once

#include "pipeline/plan.h"

#include <gtest/gtest.h>
#include <filesystem>

namespace tritium::test {

class DemoPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = open_model(std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo");
    ASSERT_TRUE(model.ok()) << model.error().text();
    const auto weights = stage_weights(*model, "f32");
    ASSERT_TRUE(weights.ok()) << weights.error().text();
    in.defaults = model->defaults;
    in.text = model->text_config;
    in.dit = model->dit_config;
    in.video_vae = model->video_vae_config;
    in.audio_vae = model->audio_vae_config;
    in.text_weights = weights->text;
    in.dit_weights = weights->dit;
    in.video_weights = weights->video;
    in.audio_weights = weights->audio;
    in.text_tokens = 9;
    request.prompt = "a red circle";
    request.seed = 7;
  }

  // Of a request that has to be accepted.
  [[nodiscard]] Plan plan() const {
    auto made = make_plan(request, in, 99);
    EXPECT_TRUE(made.ok()) << made.error().text();
    return made.ok() ? std::move(*made) : Plan{};
  }

  PlanInputs in;
  Request request;
};

}  // namespace tritium::test
