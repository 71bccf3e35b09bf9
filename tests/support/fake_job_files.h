// What FakeJobService needs besides keeping its list: plans without a model, and files of jobs.
#pragma once

#include <tritium/plan.h>
#include <tritium/result.h>

#include <filesystem>
#include <string_view>

namespace tritium::test {

// Sizes, lengths, steps and modes of the released model. A picture among the inputs gives the shape where none is asked for.
Result<Plan> plan_like_the_engine(const Request& request);

// The request with copies of all its files in `folder`.
Request with_own_files(Request request, const std::filesystem::path& folder);

std::filesystem::path write_whole(const std::filesystem::path& file, std::string_view content);

}  // namespace tritium::test
