// Options for pictures, videos and sounds.
#pragma once

#include <tritium/request.h>
#include <tritium/result.h>
#include <CLI/CLI.hpp>
#include <memory>

namespace tritium::cli {

struct InputOptions {
  CLI::App* app = nullptr;  // the order of the references is that of the command line
  std::string first_frame, last_frame, reference_size = "match", fit = "cover", aspect, retake, sound_for, video_for;
  std::vector<std::string> images, videos, sounds, video_sounds, retake_frames, retake_seconds;
};
void add_input_options(CLI::App& app, InputOptions& options);

// Into the request's fields. Errors (usage) name the option.
Result<void> read_input_options(const InputOptions& options, Request& request);

}  // namespace tritium::cli
