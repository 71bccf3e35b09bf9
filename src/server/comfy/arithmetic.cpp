#include "server/comfy/arithmetic.h"

#include "base/try.h"

#include <fmt/format.h>
#include <cstdlib>
#include <limits>

namespace tritium::server::comfy {

double as_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

namespace arithmetic {
namespace {

constexpr double kMaxExponent = 4000;

bool is_whole(const Number& n) { return std::holds_alternative<std::int64_t>(n); }
std::int64_t whole(const Number& n) { return std::get<std::int64_t>(n); }
// A real number as a whole one, where it has a place.
Result<Number> to_whole(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 9.2e18) return wrong(fmt::format("{} has no place in 64 bits", value));
  return Number(static_cast<std::int64_t>(value));
}

Result<Number> overflow() { return wrong("the result has no place in 64 bits"); }

}  // namespace

Error wrong(std::string message) { return Error{ErrorCode::usage, std::move(message), "expression", ""}; }

bool is_true(const Number& n) { return as_double(n) != 0; }
Number truth(bool value) { return std::int64_t{value ? 1 : 0}; }

Result<Number> checked(double value) {
  if (!std::isfinite(value)) return wrong("the result is not finite");
  return Number(value);
}

Result<Number> add(const Number& a, const Number& b) {
  std::int64_t out = 0;
  if (!is_whole(a) || !is_whole(b)) return checked(as_double(a) + as_double(b));
  return __builtin_add_overflow(whole(a), whole(b), &out) ? overflow() : Result<Number>(out);
}

Result<Number> subtract(const Number& a, const Number& b) {
  std::int64_t out = 0;
  if (!is_whole(a) || !is_whole(b)) return checked(as_double(a) - as_double(b));
  return __builtin_sub_overflow(whole(a), whole(b), &out) ? overflow() : Result<Number>(out);
}

Result<Number> multiply(const Number& a, const Number& b) {
  std::int64_t out = 0;
  if (!is_whole(a) || !is_whole(b)) return checked(as_double(a) * as_double(b));
  return __builtin_mul_overflow(whole(a), whole(b), &out) ? overflow() : Result<Number>(out);
}

Result<Number> floor_divide(const Number& a, const Number& b, bool remainder) {
  if (as_double(b) == 0) return wrong("division by zero");
  if (!is_whole(a) || !is_whole(b)) {
    const double quotient = std::floor(as_double(a) / as_double(b));
    return checked(remainder ? as_double(a) - quotient * as_double(b) : quotient);
  }
  const std::int64_t x = whole(a), y = whole(b);
  if (y == -1) return remainder ? Result<Number>(std::int64_t{0}) : subtract(std::int64_t{0}, a);
  const bool down = x % y != 0 && ((x < 0) != (y < 0));
  return remainder ? Number(down ? x % y + y : x % y) : Number(down ? x / y - 1 : x / y);
}

Result<Number> power(const Number& a, const Number& b) {
  if (std::abs(as_double(b)) > kMaxExponent) return wrong(fmt::format("exponent {} is above {}", as_double(b), kMaxExponent));
  if (!is_whole(a) || !is_whole(b) || whole(b) < 0) {
    if (as_double(a) == 0 && as_double(b) < 0) return wrong("division by zero");
    return checked(std::pow(as_double(a), as_double(b)));
  }
  Number out = std::int64_t{1};
  for (std::int64_t i = 0; i < whole(b); ++i) { TRITIUM_TRY_ASSIGN(out, multiply(out, a)); }
  return out;
}

namespace {

Result<Number> round_number(const std::vector<Number>& args) {
  if (args.size() == 1) return is_whole(args[0]) ? Result<Number>(args[0]) : to_whole(std::nearbyint(as_double(args[0])));
  if (!is_whole(args[1]) || whole(args[1]) < 0 || whole(args[1]) > 15) return wrong("round() takes 0 to 15 digits");
  if (is_whole(args[0])) return args[0];
  // Written with so many digits, a number is rounded by its exact value, as Python does it.
  return checked(std::strtod(fmt::format("{:.{}f}", as_double(args[0]), whole(args[1])).c_str(), nullptr));
}

Result<Number> extreme(const std::vector<Number>& args, bool most) {
  Number out = args[0];
  for (const Number& each : args)
    if (most ? as_double(each) > as_double(out) : as_double(each) < as_double(out)) out = each;
  return out;
}

Function real(double (*f)(double)) {
  return {1, 1, [f](const std::vector<Number>& a) { return checked(f(as_double(a[0]))); }};
}

}  // namespace

const std::map<std::string, Function>& functions() {
  using Args = std::vector<Number>;
  constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max();
  static const std::map<std::string, Function> all{
      {"sum",
       {0, kMany,
        [](const Args& a) -> Result<Number> {
          Number out = std::int64_t{0};
          for (const Number& each : a) { TRITIUM_TRY_ASSIGN(out, add(out, each)); }
          return out;
        }}},
      {"min", {1, kMany, [](const Args& a) { return extreme(a, false); }}},
      {"max", {1, kMany, [](const Args& a) { return extreme(a, true); }}},
      {"abs", {1, 1, [](const Args& a) { return as_double(a[0]) < 0 ? subtract(std::int64_t{0}, a[0]) : Result<Number>(a[0]); }}},
      {"round", {1, 2, round_number}},
      {"pow", {2, 2, [](const Args& a) { return power(a[0], a[1]); }}},
      {"sqrt", real(std::sqrt)},
      {"ceil", {1, 1, [](const Args& a) { return to_whole(std::ceil(as_double(a[0]))); }}},
      {"floor", {1, 1, [](const Args& a) { return to_whole(std::floor(as_double(a[0]))); }}},
      {"log", {1, 2, [](const Args& a) { return checked(std::log(as_double(a[0])) / (a.size() == 2 ? std::log(as_double(a[1])) : 1)); }}},
      {"log2", real(std::log2)},
      {"log10", real(std::log10)},
      {"sin", real(std::sin)},
      {"cos", real(std::cos)},
      {"tan", real(std::tan)},
      {"int", {1, 1, [](const Args& a) { return is_whole(a[0]) ? Result<Number>(a[0]) : to_whole(std::trunc(as_double(a[0]))); }}},
      {"float", {1, 1, [](const Args& a) { return checked(as_double(a[0])); }}},
  };
  return all;
}

}  // namespace arithmetic
}  // namespace tritium::server::comfy
