// The templates behind worker_codec.h and stored_job.h: structs to and from JSON by the lists of their fields. Only for .cpp files.
#pragma once

#include "job/job_fields.h"
#include "job/worker_fields.h"
#include "model/prompt/unicode.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace tritium::codec {

using Json = nlohmann::ordered_json;

template <class T>
concept Struct = requires(T& value) {
  fields::list([](const char*, auto&) {}, value);
};
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

// The values an enumeration may have; they travel as numbers.
constexpr auto values_of(Fit) { return std::array{Fit::cover, Fit::contain, Fit::stretch}; }
constexpr auto values_of(ReferenceInput::Kind) {
  return std::array{ReferenceInput::Kind::image, ReferenceInput::Kind::video, ReferenceInput::Kind::audio};
}
constexpr auto values_of(JobState) {
  return std::array{JobState::queued, JobState::running, JobState::completed, JobState::failed, JobState::cancelled};
}
constexpr auto values_of(ErrorCode) {
  return std::array{ErrorCode::failure,  ErrorCode::usage,     ErrorCode::model,    ErrorCode::does_not_fit, ErrorCode::device,
                    ErrorCode::rejected, ErrorCode::not_found, ErrorCode::conflict, ErrorCode::busy,         ErrorCode::interrupted};
}

struct Encoder {
  static Json value(bool b) { return b; }
  static Json value(Integer auto number) { return number; }
  static Json value(std::floating_point auto number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    return static_cast<double>(number);
  }
  static Json value(const std::string& text) {
    if (!unicode::invalid_utf8_at(text)) return text;
    std::string hex;
    for (const char c : text) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return {{"hex", std::move(hex)}};
  }
  static Json value(const std::filesystem::path& path) { return value(path.native()); }
  template <class T>
  requires std::is_enum_v<T>
  static Json value(T choice) { return static_cast<int>(choice); }
  template <class T>
  static Json value(const std::optional<T>& optional) {
    return optional ? value(*optional) : Json();
  }
  template <class T>
  static Json value(const std::vector<T>& list) {
    return array(list);
  }
  template <class T, std::size_t N>
  static Json value(const std::array<T, N>& list) {
    return array(list);
  }
  template <Struct T>
  static Json value(const T& object) {
    Json out = Json::object();
    fields::list([&out](const char* name, const auto& member) { out[name] = value(member); }, object);
    return out;
  }

 private:
  static Json array(const auto& list) {
    Json out = Json::array();
    for (const auto& entry : list) out.push_back(value(entry));
    return out;
  }
};

// Strict: every field is there and nothing else. Otherwise a field that is missing keeps its default and an unknown one is passed over,
// as documents of other versions need.
class Decoder {
 public:
  explicit Decoder(bool strict) : strict_(strict) {}

  // The first thing that was wrong, with the name of the field; empty if all was well.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  void read(const Json& in, bool& out) {
    if (in.is_boolean())
      out = in.get<bool>();
    else
      fail("has to be true or false");
  }
  template <Integer T>
  void read(const Json& in, T& out) {
    // Both forms fit only if the value does: a signed one is below zero or was written so.
    const bool fits = in.is_number_unsigned() ? std::in_range<T>(in.get<std::uint64_t>())
                                              : in.is_number_integer() && std::in_range<T>(in.get<std::int64_t>());
    if (fits)
      out = in.get<T>();
    else
      fail(fmt::format("has to be a whole number from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
  template <std::floating_point T>
  void read(const Json& in, T& out) {
    if (in.is_number())
      out = static_cast<T>(in.get<double>());
    else if (in == "nan")
      out = std::numeric_limits<T>::quiet_NaN();
    else if (in == "inf")
      out = std::numeric_limits<T>::infinity();
    else if (in == "-inf")
      out = -std::numeric_limits<T>::infinity();
    else
      fail("has to be a number");
  }
  void read(const Json& in, std::string& out) {
    if (in.is_string()) {
      out = in.get<std::string>();
      return;
    }
    const bool is_hex = in.is_object() && in.size() == 1 && in.contains("hex") && in["hex"].is_string();
    if (!is_hex || !from_hex(in["hex"].get<std::string>(), out)) fail("has to be a string");
  }
  void read(const Json& in, std::filesystem::path& out) {
    std::string text;
    read(in, text);
    out = text;
  }
  template <class T>
  requires std::is_enum_v<T>
  void read(const Json& in, T& out) {
    for (const T choice : values_of(T{}))
      if (in == static_cast<int>(choice)) {
        out = choice;
        return;
      }
    fail("is none of the possible values");
  }
  template <class T>
  void read(const Json& in, std::optional<T>& out) {
    out.reset();
    if (!in.is_null()) read(in, out.emplace());
  }
  template <class T>
  void read(const Json& in, std::vector<T>& out) {
    if (!in.is_array()) return fail("has to be a list");
    out.assign(in.size(), T{});
    for (std::size_t i = 0; i < out.size() && problem_.empty(); ++i) read_at(fmt::format("[{}]", i), in[i], out[i]);
  }
  template <class T, std::size_t N>
  void read(const Json& in, std::array<T, N>& out) {
    if (!in.is_array() || in.size() != N) return fail(fmt::format("has to be a list of {}", N));
    for (std::size_t i = 0; i < N && problem_.empty(); ++i) read_at(fmt::format("[{}]", i), in[i], out[i]);
  }
  template <Struct T>
  void read(const Json& in, T& out) {
    if (!in.is_object()) return fail("has to be an object");
    std::vector<std::string_view> known;
    fields::list(
        [&](const char* name, auto& member) {
          known.emplace_back(name);
          const auto found = in.find(name);
          if (!problem_.empty()) return;
          if (found == in.end()) return strict_ ? fail(fmt::format("lacks the field '{}'", name)) : void();
          read_at(path_.empty() ? name : std::string(".") + name, *found, member);
        },
        out);
    if (!strict_) return;
    for (const auto& [name, member] : in.items())
      if (std::find(known.begin(), known.end(), name) == known.end()) fail(fmt::format("has the unknown field '{}'", name));
  }

 private:
  void read_at(const std::string& step, const Json& in, auto& out) {
    const std::size_t length = path_.size();
    path_ += step;
    read(in, out);
    path_.resize(length);
  }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = path_.empty() ? "it " + what : fmt::format("'{}' {}", path_, what);
  }
  static bool from_hex(std::string_view text, std::string& out) {
    out.clear();
    for (; text.size() >= 2; text.remove_prefix(2)) {
      unsigned value = 0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + 2, value, 16);
      if (code != std::errc() || end != text.data() + 2) return false;
      out += static_cast<char>(value);
    }
    return text.empty();
  }

  bool strict_;
  std::string path_, problem_;
};

}  // namespace tritium::codec
