// Resizing pictures: against a twin written from the definition, borders, extreme sizes, refusals. Exactness against the reference
// implementations is tested with the golden data (golden_preprocess).
#include "media/resample.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace tritium {
namespace {

Picture noise(int width, int height, unsigned seed) {
  std::mt19937 engine(seed);
  Picture out{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)};
  for (std::uint8_t& value : out.rgb) value = static_cast<std::uint8_t>(engine() >> 24);
  return out;
}

double kernel(ResampleFilter filter, double x) {
  const double a = std::abs(x), angle = a * std::numbers::pi;
  if (filter == ResampleFilter::lanczos) return a == 0 ? 1 : a >= 3 ? 0 : 3 * std::sin(angle) * std::sin(angle / 3) / (angle * angle);
  return a < 1 ? 1.5 * a * a * a - 2.5 * a * a + 1 : a < 2 ? -0.5 * a * a * a + 2.5 * a * a - 4 * a + 2 : 0;
}

// One axis in double precision: a value of `get` for every new sample, rounded to a byte.
template <class Get>
std::vector<std::uint8_t> twin_axis(int in, int out, ResampleFilter filter, Get get) {
  std::vector<std::uint8_t> result;
  const double scale = static_cast<double>(in) / out, stretch = std::max(1.0, scale);
  const double support = stretch * (filter == ResampleFilter::lanczos ? 3 : 2);
  for (int i = 0; i < out; ++i) {
    const double centre = scale * (i + 0.5);
    double sum = 0, total = 0;
    for (int j = std::max(0, static_cast<int>(centre - support + 0.5)); j < std::min(in, static_cast<int>(centre + support + 0.5)); ++j) {
      const double weight = kernel(filter, (j - centre + 0.5) / stretch);
      sum += weight * get(j);
      total += weight;
    }
    result.push_back(static_cast<std::uint8_t>(std::clamp(std::floor(sum / total + 0.5), 0.0, 255.0)));
  }
  return result;
}

Picture twin(const Picture& source, int width, int height, ResampleFilter filter) {
  const auto at = [](Picture& p, int x, int y, int c) -> std::uint8_t& {
    return p.rgb[(static_cast<std::size_t>(y) * static_cast<std::size_t>(p.width) + static_cast<std::size_t>(x)) * 3 +
                 static_cast<std::size_t>(c)];
  };
  Picture in = source, middle = noise(width, source.height, 0), out = noise(width, height, 0);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < source.height; ++y) {
      const auto row = twin_axis(source.width, width, filter, [&](int x) { return at(in, x, y, c); });
      for (int x = 0; x < width; ++x) at(middle, x, y, c) = width == source.width ? at(in, x, y, c) : row[static_cast<std::size_t>(x)];
    }
    for (int x = 0; x < width; ++x) {
      const auto column = twin_axis(source.height, height, filter, [&](int y) { return at(middle, x, y, c); });
      for (int y = 0; y < height; ++y)
        at(out, x, y, c) = height == source.height ? at(middle, x, y, c) : column[static_cast<std::size_t>(y)];
    }
  }
  return out;
}

class Resample : public ::testing::TestWithParam<ResampleFilter> {};

TEST_P(Resample, AgreesWithTheDefinition) {
  const int sizes[][4] = {{7, 5, 13, 11}, {40, 30, 9, 31}, {1, 1, 8, 8},   {5, 5, 64, 64},  {33, 17, 33, 40},
                          {64, 3, 5, 3},  {3, 64, 3, 5},   {2, 90, 90, 2}, {97, 101, 1, 1}, {6000, 2, 3, 3}};
  for (const auto& [w, h, new_w, new_h] : sizes) {
    const Picture source = noise(w, h, static_cast<unsigned>(w * 1000 + h));
    const auto result = resample(source, new_w, new_h, GetParam());
    ASSERT_TRUE(result.ok()) << result.error().text();
    const Picture expected = twin(source, new_w, new_h, GetParam());
    ASSERT_EQ(result->rgb.size(), expected.rgb.size());
    int worst = 0;
    for (std::size_t i = 0; i < expected.rgb.size(); ++i) worst = std::max(worst, std::abs(int{result->rgb[i]} - int{expected.rgb[i]}));
    // Weights of 15 bits, and a byte in between that may round the other way.
    EXPECT_LE(worst, 2) << w << 'x' << h << " to " << new_w << 'x' << new_h;
  }
}

TEST_P(Resample, OneColourStaysThatColour) {
  for (const int value : {0, 1, 127, 128, 254, 255})
    for (const auto& [w, h] : {std::pair(1, 1), std::pair(31, 200), std::pair(300, 7)}) {
      const auto grey = static_cast<std::uint8_t>(value);
      const Picture source{w, h, std::vector<std::uint8_t>(static_cast<std::size_t>(w * h * 3), grey)};
      const auto result = resample(source, 77, 50, GetParam());
      ASSERT_TRUE(result.ok()) << result.error().text();
      EXPECT_EQ(result->rgb, std::vector<std::uint8_t>(77 * 50 * 3, grey)) << value << ' ' << w << 'x' << h;
    }
}

TEST_P(Resample, SameSizeIsACopy) {
  const Picture source = noise(19, 23, 5);
  const auto result = resample(source, 19, 23, GetParam());
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->rgb, source.rgb);
}

// Strong contrast overshoots on both sides of the range; windows of every width touch every border.
TEST_P(Resample, AnySizeStaysInsideThePicture) {
  std::mt19937 engine(9);
  const auto side = [&engine](int most) { return 1 + static_cast<int>(engine() % static_cast<unsigned>(most)); };
  for (int i = 0; i < 300; ++i) {
    Picture source = noise(side(i % 10 == 0 ? 900 : 40), side(40), static_cast<unsigned>(i));
    for (std::uint8_t& value : source.rgb) value = value < 128 ? 0 : 255;
    const int width = side(60), height = side(i % 7 == 0 ? 500 : 60);
    const auto result = resample(source, width, height, GetParam());
    ASSERT_TRUE(result.ok()) << result.error().text();
    EXPECT_EQ(result->rgb.size(), static_cast<std::size_t>(width * height * 3));
  }
}

TEST_P(Resample, WindowsOfManyThousandSamples) {
  const Picture source = noise(300000, 1, 3);
  const auto result = resample(source, 2, 1, GetParam());
  ASSERT_TRUE(result.ok()) << result.error().text();
  for (const std::uint8_t value : result->rgb) EXPECT_NEAR(value, 127, 3);  // the mean of noise
}

TEST_P(Resample, RefusesWhatIsNoPicture) {
  const Picture source = noise(4, 4, 1);
  EXPECT_FALSE(resample(source, 0, 4, GetParam()).ok());
  EXPECT_FALSE(resample(source, 4, -1, GetParam()).ok());
  EXPECT_FALSE(resample(source, kMaxResampleSide + 1, 1, GetParam()).ok());
  EXPECT_FALSE(resample(source, 1 << 15, 1 << 15, GetParam()).ok());
  EXPECT_FALSE(resample(PictureView{}, 4, 4, GetParam()).ok());
  EXPECT_FALSE(resample(PictureView(5, 4, source.rgb), 4, 4, GetParam()).ok());
  EXPECT_FALSE(resample(PictureView(-4, -4, source.rgb), 4, 4, GetParam()).ok());
}

INSTANTIATE_TEST_SUITE_P(Filters, Resample, ::testing::Values(ResampleFilter::lanczos, ResampleFilter::bicubic),
                         [](const auto& filter) { return filter.param == ResampleFilter::lanczos ? "Lanczos" : "Bicubic"; });

}  // namespace
}  // namespace tritium
