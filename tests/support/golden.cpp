#include "support/golden.h"

#include "base/files.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tritium::golden {
namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "golden data: %s\n", what.c_str());
  std::exit(1);
}

Checkpoint open_or_die(const std::string& relative) {
  auto opened = Checkpoint::open(path(relative));
  if (!opened.ok()) die(opened.error().text());
  return std::move(opened).value();
}

template <class Stored, class Out>
std::vector<Out> cast_all(const std::vector<std::uint8_t>& bytes) {
  std::vector<Out> out(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(value);
  }
  return out;
}

std::vector<std::uint8_t> bytes_or_die(const Checkpoint& checkpoint, const TensorInfo& info) {
  std::vector<std::uint8_t> bytes(info.bytes);
  if (const auto done = checkpoint.read(info, bytes); !done.ok()) die(done.error().text());
  return bytes;
}

}  // namespace

std::filesystem::path root() {
  if (const char* given = std::getenv("TRITIUM_GOLDEN"); given != nullptr && *given != '\0') return given;
  return std::filesystem::path(TRITIUM_SOURCE_DIR) / "tests/golden/data";
}

bool has(const std::string& relative) {
  std::error_code ignored;
  return std::filesystem::exists(path(relative), ignored);
}

nlohmann::json json(const std::string& relative) {
  const auto text = read_file(path(relative));
  if (!text.ok()) die(text.error().text());
  auto parsed = nlohmann::json::parse(*text, nullptr, false);
  if (parsed.is_discarded()) die(relative + " is not valid JSON");
  return parsed;
}

Tensors::Tensors(const std::string& relative) : file_(relative), checkpoint_(open_or_die(relative)) {}

const TensorInfo& Tensors::info(const std::string& key) const {
  const TensorInfo* found = checkpoint_.find(key);
  if (found == nullptr) die(file_ + " has no tensor '" + key + "'");
  return *found;
}

std::vector<std::int64_t> Tensors::shape(const std::string& key) const { return info(key).shape; }

std::vector<float> Tensors::f32(const std::string& key) const {
  auto out = checkpoint_.read_f32(info(key));
  if (!out.ok()) die(out.error().text());
  return std::move(out).value();
}

std::vector<std::int64_t> Tensors::i64(const std::string& key) const {
  const TensorInfo& tensor = info(key);
  const auto bytes = bytes_or_die(checkpoint_, tensor);
  switch (tensor.dtype) {
    case DType::i64:
      return cast_all<std::int64_t, std::int64_t>(bytes);
    case DType::i32:
      return cast_all<std::int32_t, std::int64_t>(bytes);
    case DType::u8:
    case DType::boolean:
      return cast_all<std::uint8_t, std::int64_t>(bytes);
    default:
      die(file_ + ": '" + key + "' does not hold integers");
  }
}

std::vector<double> Tensors::f64(const std::string& key) const {
  const TensorInfo& tensor = info(key);
  if (tensor.dtype == DType::f64) return cast_all<double, double>(bytes_or_die(checkpoint_, tensor));
  const auto single = f32(key);
  return {single.begin(), single.end()};
}

double max_abs_diff(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, d);
  }
  return worst;
}

double rel_l2(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  const double out = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
  return std::isfinite(out) ? out : std::numeric_limits<double>::infinity();
}

void expect_within(const std::string& case_name, double error, double tolerance) {
  std::printf("golden %-60s error %.3g (tolerance %.3g)\n", case_name.c_str(), error, tolerance);
  EXPECT_LE(error, tolerance) << case_name;
}

}  // namespace tritium::golden
