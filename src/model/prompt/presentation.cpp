#include "model/prompt/presentation.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <utility>

namespace tritium {
namespace {

constexpr std::int64_t kMerge = 2;          // patches per token along each side
constexpr std::int64_t kMaxSide = 1 << 20;  // keeps products of grid sides inside 64 bits
constexpr double kSampledPerSecond = 2;
constexpr double kFramesPerSecond = 24;
constexpr int kMinVideoFrames = 22;
constexpr std::size_t kMaxPictures = 9, kMaxVideos = 3, kMaxAudios = 3, kMaxReferences = 12;
constexpr std::size_t kMaxWarnedMentions = 8;

Error contradiction(std::string what) {
  return Error{ErrorCode::failure, "internal error in the presentation: " + std::move(what), "", ""};
}
Error prompt_error(std::string what, std::string hint) { return Error{ErrorCode::usage, std::move(what), "prompt", std::move(hint)}; }

Result<void> check_grid(const PatchGrid& grid, const char* what) {
  const bool in_range = grid.t >= 1 && grid.h >= kMerge && grid.w >= kMerge && std::max({grid.t, grid.h, grid.w}) <= kMaxSide;
  if (in_range && grid.h % kMerge == 0 && grid.w % kMerge == 0) return {};
  return contradiction(fmt::format("{} has the patch grid {}x{}x{}; sides must be even and positive", what, grid.t, grid.h, grid.w));
}

std::int64_t block_tokens(const PatchGrid& grid) { return (grid.h / kMerge) * (grid.w / kMerge); }

// The walk of §3.2. `current` stays far inside 32 bits: it never exceeds the number of tokens plus the longest side.
class PositionWalk {
 public:
  explicit PositionWalk(std::vector<TokenPosition>& out) : out_(out) {}

  void text(std::size_t tokens) {
    for (std::size_t i = 0; i < tokens; ++i, ++current_) out_.push_back({current_, current_, current_});
  }
  // One picture, or one temporal block of a video.
  void block(const PatchGrid& grid) {
    const auto rows = static_cast<std::int32_t>(grid.h / kMerge), columns = static_cast<std::int32_t>(grid.w / kMerge);
    for (std::int32_t r = 0; r < rows; ++r)
      for (std::int32_t c = 0; c < columns; ++c) out_.push_back({current_, current_ + r, current_ + c});
    current_ += std::max(rows, columns);
  }

 private:
  std::vector<TokenPosition>& out_;
  std::int32_t current_ = 0;
};

struct VisionIds {
  std::int32_t start = -1, end = -1;
  VisionPads pads;
};

Result<VisionIds> vision_ids(const Tokenizer& tokenizer) {
  VisionIds out;
  for (const auto& [content, id] : {std::pair("<|vision_start|>", &out.start), std::pair("<|vision_end|>", &out.end),
                                    std::pair("<|image_pad|>", &out.pads.image), std::pair("<|video_pad|>", &out.pads.video)}) {
    const auto found = tokenizer.token_id(content);
    if (!found)
      return Error{ErrorCode::model, fmt::format("the tokenizer has no token '{}', so it cannot take pictures", content), "",
                   "use the tokenizer files of the release"};
    *id = *found;
  }
  return out;
}

struct Counts {
  unsigned pictures = 0, videos = 0, audios = 0;
};

// Warns once per label in the prompt, such as "<Picture 3>", that no input has.
void warn_of_missing_labels(std::string_view prompt, const Counts& counts, std::vector<std::string>& warnings) {
  std::set<std::string> seen;
  for (std::size_t open = prompt.find('<'); open != std::string_view::npos; open = prompt.find('<', open + 1)) {
    for (const auto& [word, count] :
         {std::pair("Picture ", counts.pictures), std::pair("Video ", counts.videos), std::pair("Audio ", counts.audios)}) {
      const std::string_view rest = prompt.substr(open + 1);
      if (!rest.starts_with(word)) continue;
      const std::string_view digits = rest.substr(std::string_view(word).size(), 10);
      unsigned number = 0;
      const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (code != std::errc() || stop == digits.data() + digits.size() || *stop != '>' || (number >= 1 && number <= count)) continue;
      if (seen.size() == kMaxWarnedMentions || !seen.insert(fmt::format("{}{}", word, number)).second) continue;
      warnings.push_back(fmt::format("the prompt names <{}{}>, but the request has {} of that kind", word, number,
                                     count == 0 ? "none" : fmt::format("only {}", count)));
    }
  }
}

class Builder {
 public:
  Builder(const Tokenizer& tokenizer, const PresentationLimits& limits) : tokenizer_(tokenizer), limits_(limits) {}

  Result<void> text(std::string_view label) {
    TRITIUM_TRY_ASSIGN(const auto ids, tokenizer_.encode(label));
    return append_text(ids);
  }

  Result<void> picture(const PatchGrid& grid) {
    TRITIUM_TRY(check_grid(grid, "a picture"));
    if (grid.t != 1) return contradiction(fmt::format("a picture has {} temporal blocks", grid.t));
    TRITIUM_TRY(text(fmt::format("<Picture {}>: ", ++counts_.pictures)));
    return block(grid, false);
  }

  Result<void> audio() { return text(fmt::format("<Audio {}>: ", ++counts_.audios)); }

  Result<void> video(const PromptReference& reference) {
    TRITIUM_TRY(check_grid(reference.grid, "a video"));
    const auto times = block_times(sampled_frame_count(reference.frames));
    if (static_cast<std::int64_t>(times.size()) != reference.grid.t)
      return contradiction(
          fmt::format("{} video frames give {} timestamps for {} temporal blocks", reference.frames, times.size(), reference.grid.t));
    if (reference.with_sound) TRITIUM_TRY(audio());
    TRITIUM_TRY(text(fmt::format("<Video {}>: ", ++counts_.videos)));
    for (const double seconds : times) {
      TRITIUM_TRY(text(timestamp_label(seconds)));
      TRITIUM_TRY(block(reference.grid, true));
    }
    return {};
  }

  Result<Presentation> finish(std::string_view prompt) {
    auto ids = tokenizer_.encode(prompt);
    if (!ids.ok()) {
      Error error = std::move(ids).error();
      error.field = "prompt";
      return error;
    }
    for (const char* pad : {"<|image_pad|>", "<|video_pad|>"}) {
      const auto id = tokenizer_.token_id(pad);
      if (!id || std::find(ids->begin(), ids->end(), *id) == ids->end()) continue;
      if (counts_.pictures + counts_.videos > 0)
        return prompt_error(fmt::format("the prompt contains '{}', which stands for the pixels of a picture or video", pad),
                            "remove it; name pictures as <Picture 1>");
      out_.warnings.push_back(
          fmt::format("the prompt contains '{}'; there is no picture or video, so it is read as an ordinary token", pad));
    }
    warn_of_missing_labels(prompt, counts_, out_.warnings);
    TRITIUM_TRY(append_text(*ids));
    return std::move(out_);
  }

 private:
  Result<void> reserve(std::int64_t more) const {
    const std::int64_t total = static_cast<std::int64_t>(out_.ids.size()) + more;
    if (total <= limits_.max_tokens) return {};
    const bool vision = counts_.pictures + counts_.videos > 0;
    return prompt_error(fmt::format("{} at least {} tokens, more than the limit of {}",
                                    vision ? "prompt and references need" : "the prompt needs", total, limits_.max_tokens),
                        vision ? "shorten the prompt, or give fewer or smaller references" : "shorten the prompt");
  }

  Result<void> append_text(std::span<const std::int32_t> ids) {
    TRITIUM_TRY(reserve(static_cast<std::int64_t>(ids.size())));
    out_.ids.insert(out_.ids.end(), ids.begin(), ids.end());
    out_.tags.resize(out_.ids.size(), 1);
    walk_.text(ids.size());
    return {};
  }

  // Start token, pads, end token: all tagged 0; only the pads have two-dimensional positions.
  Result<void> block(const PatchGrid& grid, bool video) {
    TRITIUM_TRY_ASSIGN(const VisionIds vision, vision_ids(tokenizer_));
    TRITIUM_TRY(reserve(block_tokens(grid) + 2));
    out_.ids.push_back(vision.start);
    out_.ids.insert(out_.ids.end(), static_cast<std::size_t>(block_tokens(grid)), video ? vision.pads.video : vision.pads.image);
    out_.ids.push_back(vision.end);
    out_.tags.resize(out_.ids.size(), 0);
    walk_.text(1);
    walk_.block(grid);
    walk_.text(1);
    return {};
  }

  const Tokenizer& tokenizer_;
  const PresentationLimits& limits_;
  Presentation out_;
  PositionWalk walk_{out_.positions};
  Counts counts_;
};

Error empty_prompt() { return prompt_error("the prompt is empty", "give at least one character"); }

}  // namespace

Result<Presentation> present_t2va(const Tokenizer& tokenizer, std::string_view prompt, const PresentationLimits& limits) {
  if (prompt.empty()) return empty_prompt();
  return Builder(tokenizer, limits).finish(prompt);
}

Result<Presentation> present_fl2va(const Tokenizer& tokenizer, std::string_view prompt, std::span<const PatchGrid> keyframes,
                                   const PresentationLimits& limits) {
  if (keyframes.empty() || keyframes.size() > 2)
    return Error{ErrorCode::usage, fmt::format("this task takes 1 or 2 keyframes, not {}", keyframes.size()), "",
                 "give a first frame, a last frame or both"};
  Builder builder(tokenizer, limits);
  for (const PatchGrid& grid : keyframes) TRITIUM_TRY(builder.picture(grid));
  auto out = builder.finish(prompt);
  if (out.ok() && prompt.empty()) out->warnings.push_back("the prompt is empty; only the keyframes guide the video");
  return out;
}

Result<Presentation> present_ref2va(const Tokenizer& tokenizer, std::string_view prompt, std::span<const PromptReference> references,
                                    const PresentationLimits& limits) {
  if (prompt.empty()) return empty_prompt();
  Builder builder(tokenizer, limits);
  for (const PromptReference& reference : references) {
    switch (reference.kind) {
      case PromptReference::Kind::image:
        TRITIUM_TRY(builder.picture(reference.grid));
        break;
      case PromptReference::Kind::audio:
        TRITIUM_TRY(builder.audio());
        break;
      case PromptReference::Kind::video:
        TRITIUM_TRY(builder.video(reference));
        break;
    }
  }
  return builder.finish(prompt);
}

Result<void> check_references(std::span<const PromptReference> references) {
  const auto refuse = [](std::string what, std::string hint) {
    return Error{ErrorCode::usage, std::move(what), "references", std::move(hint)};
  };
  std::size_t pictures = 0, videos = 0, audios = 0;
  for (const PromptReference& reference : references) {
    if (reference.kind == PromptReference::Kind::image) ++pictures;
    if (reference.kind == PromptReference::Kind::audio) ++audios;
    if (reference.kind != PromptReference::Kind::video) continue;
    ++videos;
    if (reference.frames < kMinVideoFrames)
      return refuse(fmt::format("reference video {} lasts {:.2f} s ({} frames at 24 fps)", videos, reference.frames / kFramesPerSecond,
                                reference.frames),
                    fmt::format("give at least {:.2f} s ({} frames)", kMinVideoFrames / kFramesPerSecond, kMinVideoFrames));
  }
  if (references.empty()) return refuse("there is no reference", "give at least one picture or video");
  if (pictures + videos == 0) return refuse("all references are audio", "add at least one picture or video");
  for (const auto& [count, limit, what] :
       {std::tuple(pictures, kMaxPictures, "pictures"), std::tuple(videos, kMaxVideos, "videos"),
        std::tuple(audios, kMaxAudios, "audio clips"), std::tuple(references.size(), kMaxReferences, "references")})
    if (count > limit) return refuse(fmt::format("there are {} {}, more than the {} allowed", count, what, limit), "leave some out");
  return {};
}

int sampled_frame_count(int frames) { return frames <= 0 ? 0 : (frames - 1) / kSampleStep + 1; }

std::vector<double> block_times(int sampled_frames) {
  std::vector<double> out;
  for (int first = 0; first < sampled_frames; first += 2) {
    const int last = std::min(first + 1, sampled_frames - 1);
    out.push_back((first / kSampledPerSecond + last / kSampledPerSecond) / 2);
  }
  return out;
}

std::string timestamp_label(double seconds) { return fmt::format("<{:.1f} seconds>", seconds); }

Result<std::vector<TokenPosition>> vision_positions(std::span<const std::int32_t> ids, VisionPads pads, std::span<const PatchGrid> images,
                                                    std::span<const PatchGrid> videos) {
  for (const PatchGrid& grid : images) TRITIUM_TRY(check_grid(grid, "an image"));
  for (const PatchGrid& grid : videos) TRITIUM_TRY(check_grid(grid, "a video"));
  std::vector<TokenPosition> out;
  PositionWalk walk(out);
  std::size_t image = 0, video = 0;
  std::int64_t video_block = 0;
  for (std::size_t i = 0; i < ids.size();) {
    const std::int32_t id = ids[i];
    if (id != pads.image && id != pads.video) {
      walk.text(1);
      ++i;
      continue;
    }
    const bool is_image = id == pads.image;
    if (is_image ? image == images.size() : video == videos.size())
      return contradiction(fmt::format("token {} is a pad without a grid", i));
    const PatchGrid& grid = is_image ? images[image] : videos[video];
    const std::int64_t tokens = block_tokens(grid);
    const auto run = ids.subspan(i, static_cast<std::size_t>(std::min(tokens, static_cast<std::int64_t>(ids.size() - i))));
    if (static_cast<std::int64_t>(run.size()) < tokens ||
        std::any_of(run.begin(), run.end(), [&](std::int32_t other) { return other != id; }))
      return contradiction(fmt::format("a run of {} pads should start at token {}", tokens, i));
    walk.block(grid);
    i += run.size();
    if (is_image)
      ++image;
    else if (++video_block == grid.t)
      ++video, video_block = 0;
  }
  if (image != images.size() || video != videos.size())
    return contradiction(fmt::format("{} of {} images and {} of {} videos have pads", image, images.size(), video, videos.size()));
  return out;
}

}  // namespace tritium
