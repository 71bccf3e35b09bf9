// GGUF files made in memory, byte by byte, valid or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::test {

// The numbers of value types in the format.
enum class GgufValue : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

template <class T>
std::string little_endian(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
inline std::string gguf_string(std::string_view text) { return little_endian<std::uint64_t>(text.size()) + std::string(text); }

struct GgufFile {
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;                    // of the data; a key has to be added where it is not 32
  std::vector<std::string> pairs, tensors;         // encoded
  std::uint64_t tensor_count = 0, pair_count = 0;  // added to the number of entries, to lie about them
  std::string data;

  void pair(std::string_view key, GgufValue type, const std::string& value) {
    pairs.push_back(gguf_string(key) + little_endian(static_cast<std::uint32_t>(type)) + value);
  }
  void text(std::string_view key, std::string_view value) { pair(key, GgufValue::string, gguf_string(value)); }
  void u32(std::string_view key, std::uint32_t value) { pair(key, GgufValue::u32, little_endian(value)); }
  template <class T>
  void array(std::string_view key, GgufValue type, const std::vector<T>& values) {
    std::string bytes = little_endian(static_cast<std::uint32_t>(type)) + little_endian<std::uint64_t>(values.size());
    for (const T& value : values) bytes += little_endian(value);
    pair(key, GgufValue::array, bytes);
  }
  // `ne`: innermost first, as in the file.
  void tensor(std::string_view name, const std::vector<std::uint64_t>& ne, std::uint32_t type, std::uint64_t offset) {
    std::string bytes = gguf_string(name) + little_endian(static_cast<std::uint32_t>(ne.size()));
    for (const std::uint64_t n : ne) bytes += little_endian(n);
    tensors.push_back(bytes + little_endian(type) + little_endian(offset));
  }

  [[nodiscard]] std::string header() const {
    std::string out = "GGUF" + little_endian(version) + little_endian<std::uint64_t>(tensors.size() + tensor_count) +
                      little_endian<std::uint64_t>(pairs.size() + pair_count);
    for (const std::string& each : pairs) out += each;
    for (const std::string& each : tensors) out += each;
    return out;
  }
  [[nodiscard]] std::string bytes() const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

}  // namespace tritium::test
