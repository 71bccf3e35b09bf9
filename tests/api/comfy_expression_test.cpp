#include "server/comfy/expression.h"

#include <gtest/gtest.h>
#include <string>

namespace tritium::server::comfy {
namespace {

const std::map<std::string, Number> kNames{{"a", 5.0}, {"b", std::int64_t{7}}};

std::string value_of(const std::string& text) {
  const auto out = evaluate_expression(text, kNames);
  if (!out.ok()) return "error: " + out.error().message;
  if (const auto* whole = std::get_if<std::int64_t>(&*out)) return std::to_string(*whole);
  return "real " + std::to_string(std::get<double>(*out));
}

TEST(ComfyExpression, FollowsPython) {
  EXPECT_EQ(value_of("1 + 2 * 3"), "7");
  EXPECT_EQ(value_of("7 / 2"), "real 3.500000");
  EXPECT_EQ(value_of("7 // 2"), "3");
  EXPECT_EQ(value_of("-7 // 2"), "-4");
  EXPECT_EQ(value_of("-7 % 17"), "10");
  EXPECT_EQ(value_of("7.5 % 2"), "real 1.500000");
  EXPECT_EQ(value_of("2 ** 10"), "1024");
  EXPECT_EQ(value_of("-2 ** 2"), "-4");
  EXPECT_EQ(value_of("2 ** -1"), "real 0.500000");
  EXPECT_EQ(value_of("round(2.5)"), "2");
  EXPECT_EQ(value_of("round(3.5)"), "4");
  EXPECT_EQ(value_of("round(2.345, 2)"), "real 2.350000");
  EXPECT_EQ(value_of("round(2.675, 2)"), "real 2.670000");  // the binary number lies below
  EXPECT_EQ(value_of("max(1, b, 3.5)"), "7");
  EXPECT_EQ(value_of("sum(values)"), "real 12.000000");
  EXPECT_EQ(value_of("ceil(a / 2) + floor(0.5) - int(-1.9)"), "4");
  EXPECT_EQ(value_of("1 if b > 6 and not a < 5 else 2"), "1");
  EXPECT_EQ(value_of("b == 7 or 0"), "1");
  EXPECT_EQ(value_of("1e3"), "real 1000.000000");
}

// The templates' way to a length of the model: 17k+5 frames, upwards.
TEST(ComfyExpression, A27_LengthsOfTheTemplates) {
  const std::string text = "max(5, round(a * 24)) + (5 - (max(5, round(a * 24)) % 17)) % 17";
  for (const auto& [seconds, frames] : {std::pair(5.0, 124), {4.0, 107}, {15.0, 362}, {0.1, 5}, {8.0, 192}}) {
    const auto out = evaluate_expression(text, {{"a", seconds}});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(as_double(*out), frames) << seconds;
  }
}

TEST(ComfyExpression, RefusesWhatIsNoNumber) {
  for (const char* text : {"",          "1 +",        "1 / 0",
                           "5 % 0",     "0 ** -1",    "c + 1",
                           "open(1)",   "1 2",        "(1",
                           "a.b",       "__import__", "9999999999 ** 99",
                           "2 ** 5000", "sqrt(-1)",   "9223372036854775807 + 1",
                           "1..2",      "max()",      "min(",
                           "'x'",       "[1]",        "1 if 2"})
    EXPECT_EQ(value_of(text).rfind("error: ", 0), 0u) << text << " gave " << value_of(text);
}

TEST(ComfyExpression, EndsOnDeepAndLongInput) {
  EXPECT_EQ(value_of(std::string(500, '(') + "1" + std::string(400, ')')).rfind("error: ", 0), 0u);
  EXPECT_EQ(value_of(std::string(900, '-') + "1").rfind("error: ", 0), 0u);
  EXPECT_EQ(value_of(std::string(2000, '1')).rfind("error: ", 0), 0u);
  std::string nots;
  for (int i = 0; i < 240; ++i) nots += "not ";
  EXPECT_EQ(value_of(nots + "1").rfind("error: ", 0), 0u);
}

}  // namespace
}  // namespace tritium::server::comfy
