#include "sampler/easy_cache.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tritium {
namespace {

std::vector<float> chosen(const std::vector<float>& values, const std::vector<std::size_t>& elements, float sign) {
  std::vector<float> out;
  out.reserve(elements.size());
  for (const std::size_t i : elements) out.push_back(sign * values[i]);
  return out;
}

double mean_magnitude(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::abs(value);
  return sum / static_cast<double>(values.size());
}

double mean_difference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

}  // namespace

bool EasyCache::is_active(int step) const {
  const double done = static_cast<double>(step) / steps_;
  return step > 0 && step < steps_ - 1 && evaluations_ >= 2 && options_.start <= done && done < options_.end;
}

VelocitySource EasyCache::choose(int step, const Latents& x) {
  if (!is_active(step)) return VelocitySource::model;
  // Of every stream that is made at all; a sum that is not a number is below nothing.
  const auto is_quiet = [this](Stream& stream, const std::vector<float>& values, const std::vector<std::size_t>& elements) {
    if (elements.empty()) return true;
    const double moved = mean_difference(chosen(values, elements, 1), stream.in);
    stream.change += static_cast<float>(stream.rate * moved / mean_magnitude(stream.out));
    return static_cast<double>(stream.change) < options_.threshold;
  };
  const bool video = is_quiet(video_, x.video, elements_.video), audio = is_quiet(audio_, x.audio, elements_.audio);
  return video && audio ? VelocitySource::estimate : VelocitySource::model;
}

void EasyCache::learn(int, const Latents& x, const Latents& velocity) {
  const auto update = [this](Stream& stream, const std::vector<float>& in, const std::vector<float>& v,
                             const std::vector<std::size_t>& elements) {
    std::vector<float> now_in = chosen(in, elements, 1), now_out = chosen(v, elements, -1);
    if (evaluations_ > 0) stream.rate = static_cast<float>(mean_difference(now_out, stream.out) / mean_difference(now_in, stream.in));
    stream.in = std::move(now_in);
    stream.out = std::move(now_out);
    stream.change = 0;
    stream.difference.resize(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) stream.difference[i] = -v[i] - in[i];
  };
  update(video_, x.video, velocity.video, elements_.video);
  update(audio_, x.audio, velocity.audio, elements_.audio);
  evaluations_ = std::min(evaluations_ + 1, 2);
}

Latents EasyCache::estimate(int, const Latents& x) const {
  const auto velocity = [](const std::vector<float>& in, const std::vector<float>& difference) {
    std::vector<float> out(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = -(in[i] + difference[i]);
    return out;
  };
  return {velocity(x.video, video_.difference), velocity(x.audio, audio_.difference)};
}

std::optional<PolicyMemory> EasyCache::memory(int) const {
  PolicyMemory out{{"numbers", {static_cast<float>(evaluations_), video_.rate, video_.change, audio_.rate, audio_.change}}};
  const auto add = [&out](const std::string& name, const Stream& stream) {
    out[name + ".in"] = stream.in;
    out[name + ".out"] = stream.out;
    out[name + ".difference"] = stream.difference;
  };
  add("video", video_);
  add("audio", audio_);
  return out;
}

Result<void> EasyCache::restore(PolicyMemory memory) {
  const std::vector<float> numbers = memory["numbers"];
  const auto stream = [&](const std::string& name, float rate, float change) {
    return Stream{std::move(memory[name + ".in"]), std::move(memory[name + ".out"]), rate, change, std::move(memory[name + ".difference"])};
  };
  if (numbers.size() != 5) return Error{ErrorCode::failure, "the statistics of earlier steps are missing", "checkpoint", ""};
  evaluations_ = static_cast<int>(numbers[0]);
  video_ = stream("video", numbers[1], numbers[2]);
  audio_ = stream("audio", numbers[3], numbers[4]);
  if (video_.in.size() == elements_.video.size() && audio_.in.size() == elements_.audio.size()) return {};
  return Error{ErrorCode::failure, "the statistics of earlier steps do not fit the clip", "checkpoint", ""};
}

}  // namespace tritium
