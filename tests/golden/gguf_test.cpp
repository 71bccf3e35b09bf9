// GGUF cases of golden/weights: valid files decode to the listed values, malformed ones are refused before anything large is allocated,
// and a real header is understood.
#include "support/golden.h"
#include "support/largest_allocation.h"
#include "unit/temp_folder.h"
#include "weights/quant/logical_tensors.h"
#include "weights/quant/matrix_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tritium {
namespace {

constexpr std::size_t kMostAllocated = 64u << 20;  // golden/weights/README.md, spec/weights.md §9.5
constexpr double kTolerance = 1e-6;                // of the largest value, spec/weights.md §9.1

// Whether the letters of `part` are in `whole` in this order: the reference shortens the names of files.
bool shortened(std::string_view part, std::string_view whole) {
  std::size_t i = 0;
  for (const char c : whole)
    if (i < part.size() && part[i] == c) ++i;
  return i == part.size();
}

// The key of a tensor in ref.safetensors: "<file stem or short form of it>/<tensor name>".
std::string reference_key(const golden::Tensors& reference, const std::string& stem, const std::string& tensor) {
  if (reference.has(stem + "/" + tensor)) return stem + "/" + tensor;
  for (const std::string& key : reference.names())
    if (key.ends_with("/" + tensor) && shortened(key.substr(0, key.find('/')), stem)) return key;
  return "";
}

// Five and more dimensions do not fit the container: the outermost are merged.
std::vector<std::int64_t> stored_shape(std::vector<std::int64_t> shape) {
  while (shape.size() > 4) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  return shape;
}

void expect_tensor(const golden::Tensors& reference, const std::string& key, const LogicalTensors& tensors, const LogicalTensor& tensor) {
  const std::vector<float> expected = reference.f32(key);
  const auto shape = reference.shape(key);
  EXPECT_TRUE(tensor.shape == shape || tensor.shape == stored_shape(shape)) << key << ": " << shape_text(tensor.shape);
  const auto whole = tensors.checkpoint().read_f32(*tensor.stored);
  ASSERT_TRUE(whole.ok()) << key << ": " << whole.error().text();
  double largest = 1e-30;
  for (const float v : expected) largest = std::max(largest, static_cast<double>(std::abs(v)));
  golden::expect_within(fmt::format("gguf {} {}", tensor.format_name(), key), golden::max_abs_diff(*whole, expected) / largest, kTolerance);

  const auto reader = MatrixReader::open(tensors.checkpoint(), tensor);
  ASSERT_TRUE(reader.ok()) << key;
  std::vector<float> rows(whole->size());
  for (std::int64_t i = reader->rows(); i-- > 0;) {
    const auto width = static_cast<std::size_t>(reader->columns());
    const auto done = reader->decode_rows(i, i + 1, std::span(rows).subspan(static_cast<std::size_t>(i) * width, width));
    ASSERT_TRUE(done.ok()) << key << ": " << done.error().text();
  }
  EXPECT_EQ(rows, *whole) << key << ": row by row it is the same";
}

TEST(GoldenGguf, ValidFilesDecodeToTheReference) {
  const auto index = golden::json("weights/gguf/index.json");
  const golden::Tensors reference("weights/gguf/" + index["ref"].get<std::string>().substr(0, index["ref"].get<std::string>().find(' ')));
  std::size_t compared = 0;
  for (const auto& [file, about] : index["files"].items()) {
    const auto checkpoint = Checkpoint::open(golden::path("weights/gguf/" + file));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
    EXPECT_EQ(checkpoint->files().front().container(), Container::gguf) << file;
    const auto tensors = LogicalTensors::open(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.error().text();
    for (const auto& [name, tensor] : tensors->all()) {
      const std::string key = reference_key(reference, file.substr(0, file.rfind('.')), tensor.stored->name);
      ASSERT_FALSE(key.empty()) << file << " " << name << " is not in the reference";
      expect_tensor(reference, key, *tensors, tensor);
      ++compared;
    }
  }
  EXPECT_EQ(compared, reference.names().size()) << "every tensor of the reference is in a file";
}

TEST(GoldenGguf, MalformedFilesAreRefusedWithAReason) {
  const auto index = golden::json("weights/bad_gguf/index.json");
  ASSERT_FALSE(index.empty());
  for (const auto& [file, why] : index.items()) {
    const auto path = golden::path("weights/bad_gguf/" + file);
    test::forget_allocations();
    const auto begin = std::chrono::steady_clock::now();
    const auto opened = Checkpoint::open(path);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const std::size_t allocated = test::largest_allocation();
    ASSERT_FALSE(opened.ok()) << file << ": " << why;
    EXPECT_EQ(opened.error().code, ErrorCode::model);
    EXPECT_NE(opened.error().message.find(file), std::string::npos) << opened.error().text();
    EXPECT_LE(allocated, kMostAllocated) << file;
    EXPECT_LT(seconds.count(), 1.0) << file;
    std::printf("golden bad_gguf/%s: %s\n", file.c_str(), opened.error().text().c_str());
  }
}

// The header of a real file in a sparse file of its size.
TEST(GoldenGguf, RealHeadersAreUnderstood) {
  if (!golden::has("weights/headers/index.json")) GTEST_SKIP() << "this tree holds no real headers";
  const auto index = golden::json("weights/headers/index.json");
  std::size_t seen = 0;
  for (const auto& [name, facts] : index["files"].items()) {
    if (!name.ends_with(".gguf")) continue;
    ++seen;
    const test::TempFolder folder;
    const auto path = folder.path() / name;
    std::filesystem::copy_file(golden::path("weights/headers/" + facts["hdr"].get<std::string>()), path);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::filesystem::resize_file(path, facts["sparse_file_size"].get<std::uint64_t>());
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
    EXPECT_EQ(checkpoint->names().size(), facts["tensors"].get<std::size_t>()) << name;
    const auto tensors = LogicalTensors::open(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.error().text();
    std::map<std::string_view, std::size_t> formats;
    std::uint64_t end = 0;
    for (const auto& [tensor, logical] : tensors->all()) {
      ++formats[logical.format_name()];
      end = std::max(end, logical.stored->offset + logical.stored->bytes);
      const auto reader = MatrixReader::open(*checkpoint, logical);
      ASSERT_TRUE(reader.ok()) << tensor;
      EXPECT_TRUE(reader->has_whole_rows()) << tensor;
      std::vector<float> row(static_cast<std::size_t>(reader->columns()), 1.0f);
      ASSERT_TRUE(reader->decode_rows(reader->rows() - 1, reader->rows(), row).ok()) << tensor;
      EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float v) { return v == 0; })) << tensor << ": the sparse file holds zeros";
    }
    EXPECT_LE(facts["sparse_file_size"].get<std::uint64_t>() - end, 64u) << name << ": the tensors fill the file";
    for (const auto& [format, count] : formats)
      std::printf("golden headers/%s: %zu %s\n", name.c_str(), count, std::string(format).c_str());
  }
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace tritium
