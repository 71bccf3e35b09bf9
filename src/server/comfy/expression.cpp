#include "server/comfy/expression.h"

#include "base/try.h"

#include <fmt/format.h>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

namespace tritium::server::comfy {
namespace {

constexpr std::size_t kMaxLength = 1000;
constexpr int kMaxDepth = 100;
constexpr double kMaxExponent = 4000;

Error wrong(std::string message) { return Error{ErrorCode::usage, std::move(message), "expression", ""}; }

bool is_whole(const Number& n) { return std::holds_alternative<std::int64_t>(n); }
std::int64_t whole(const Number& n) { return std::get<std::int64_t>(n); }
bool is_true(const Number& n) { return as_double(n) != 0; }
Number truth(bool value) { return std::int64_t{value ? 1 : 0}; }

Result<Number> checked(double value) {
  if (!std::isfinite(value)) return wrong("the result is not finite");
  return Number(value);
}

// A real number as a whole one, where it has a place.
Result<Number> to_whole(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 9.2e18) return wrong(fmt::format("{} has no place in 64 bits", value));
  return Number(static_cast<std::int64_t>(value));
}

Result<Number> overflow() { return wrong("the result has no place in 64 bits"); }

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

// Towards minus infinity; the remainder has the sign of the divisor.
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

struct Function {
  std::size_t least, most;
  std::function<Result<Number>(const std::vector<Number>&)> call;
};

Function real(double (*f)(double)) {
  return {1, 1, [f](const std::vector<Number>& a) { return checked(f(as_double(a[0]))); }};
}

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

class Parser {
 public:
  Parser(const std::string& text, const std::map<std::string, Number>& names) : text_(text), names_(names) {}

  Result<Number> whole_text() {
    TRITIUM_TRY_ASSIGN(const Number out, conditional());
    skip();
    if (at_ < text_.size()) return here("is not expected");
    return out;
  }

 private:
  // A level of the grammar that counts towards the depth.
  struct Level {
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    int& depth_;
  };

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  Error here(const std::string& what) {
    skip();
    return wrong(at_ < text_.size() ? fmt::format("'{}' at character {} {}", text_[at_], at_ + 1, what) : "the expression ends too early");
  }
  static bool letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  bool take(std::string_view symbol) {
    skip();
    if (text_.compare(at_, symbol.size(), symbol) != 0) return false;
    if (letter(symbol[0]) && at_ + symbol.size() < text_.size() && letter(text_[at_ + symbol.size()])) return false;
    at_ += symbol.size();
    return true;
  }

  Result<Number> conditional() {
    const Level level(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("more than {} levels of brackets", kMaxDepth));
    TRITIUM_TRY_ASSIGN(const Number value, either());
    if (!take("if")) return value;
    TRITIUM_TRY_ASSIGN(const Number condition, either());
    if (!take("else")) return here("where 'else' is expected");
    TRITIUM_TRY_ASSIGN(const Number other, conditional());
    return is_true(condition) ? value : other;
  }
  Result<Number> either() {
    TRITIUM_TRY_ASSIGN(Number left, both());
    while (take("or")) {
      TRITIUM_TRY_ASSIGN(const Number right, both());
      if (!is_true(left)) left = right;
    }
    return left;
  }
  Result<Number> both() {
    TRITIUM_TRY_ASSIGN(Number left, negation());
    while (take("and")) {
      TRITIUM_TRY_ASSIGN(const Number right, negation());
      if (is_true(left)) left = right;
    }
    return left;
  }
  Result<Number> negation() {
    const Level level(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("more than {} levels", kMaxDepth));
    if (!take("not")) return comparison();
    TRITIUM_TRY_ASSIGN(const Number value, negation());
    return truth(!is_true(value));
  }
  Result<Number> comparison() {
    TRITIUM_TRY_ASSIGN(const Number left, terms());
    for (const char* sign : {"<=", ">=", "==", "!=", "<", ">"}) {
      if (!take(sign)) continue;
      TRITIUM_TRY_ASSIGN(const Number right, terms());
      const double a = as_double(left), b = as_double(right);
      const std::string_view s = sign;
      return truth(s == "<=" ? a <= b : s == ">=" ? a >= b : s == "==" ? a == b : s == "!=" ? a != b : s == "<" ? a < b : a > b);
    }
    return left;
  }
  Result<Number> terms() {
    TRITIUM_TRY_ASSIGN(Number left, factors());
    for (;;) {
      const bool plus = take("+");
      if (!plus && !take("-")) return left;
      TRITIUM_TRY_ASSIGN(const Number right, factors());
      TRITIUM_TRY_ASSIGN(left, plus ? add(left, right) : subtract(left, right));
    }
  }
  Result<Number> factors() {
    TRITIUM_TRY_ASSIGN(Number left, sign());
    for (;;) {
      const char* symbol = take("//") ? "//" : take("/") ? "/" : take("%") ? "%" : take("*") ? "*" : nullptr;
      if (symbol == nullptr) return left;
      TRITIUM_TRY_ASSIGN(const Number right, sign());
      const std::string_view s = symbol;
      if (s == "/" && as_double(right) == 0) return wrong("division by zero");
      TRITIUM_TRY_ASSIGN(left, s == "*"   ? multiply(left, right)
                               : s == "/" ? checked(as_double(left) / as_double(right))
                                          : floor_divide(left, right, s == "%"));
    }
  }
  Result<Number> sign() {
    const Level level(depth_);
    if (depth_ > kMaxDepth) return wrong(fmt::format("more than {} levels", kMaxDepth));
    if (take("+")) return sign();
    if (!take("-")) return exponent();
    TRITIUM_TRY_ASSIGN(const Number value, sign());
    return subtract(std::int64_t{0}, value);
  }
  Result<Number> exponent() {
    TRITIUM_TRY_ASSIGN(const Number base, atom());
    if (!take("**")) return base;
    TRITIUM_TRY_ASSIGN(const Number exponent, sign());
    return power(base, exponent);
  }
  Result<Number> atom() {
    if (take("(")) {
      TRITIUM_TRY_ASSIGN(const Number value, conditional());
      return take(")") ? Result<Number>(value) : here("where ')' is expected");
    }
    skip();
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.')) return literal();
    std::string name;
    while (at_ < text_.size() && letter(text_[at_])) name += text_[at_++];
    if (name.empty()) return here("is not expected");
    if (take("(")) return call(name);
    if (name == "True" || name == "False") return truth(name == "True");
    const auto found = names_.find(name);
    return found != names_.end() ? Result<Number>(found->second) : wrong(fmt::format("'{}' is no name here", name));
  }
  Result<Number> literal() {
    std::size_t end = at_;
    while (end < text_.size() && (letter(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] == 'e' || text_[end - 1] == 'E'))))
      ++end;
    const std::string_view digits = std::string_view(text_).substr(at_, end - at_);
    const char* last = digits.data() + digits.size();
    std::int64_t i = 0;
    double d = 0;
    if (const auto [stop, code] = std::from_chars(digits.data(), last, i); code == std::errc{} && stop == last) {
      at_ = end;
      return Number(i);
    }
    if (const auto [stop, code] = std::from_chars(digits.data(), last, d); code == std::errc{} && stop == last) {
      at_ = end;
      return checked(d);
    }
    return wrong(fmt::format("'{}' is no number", digits));
  }
  Result<Number> call(const std::string& name) {
    const auto found = functions().find(name);
    if (found == functions().end()) return wrong(fmt::format("'{}' is no function here", name));
    std::vector<Number> args;
    if (!take(")")) {
      do {
        const std::size_t before = at_;
        if (take("values")) {
          skip();
          if (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ')')) {
            for (const auto& [each, value] : names_) args.push_back(value);
            continue;
          }
          at_ = before;
        }
        TRITIUM_TRY_ASSIGN(Number value, conditional());
        args.push_back(value);
      } while (take(","));
      if (!take(")")) return here("where ')' is expected");
    }
    const Function& function = found->second;
    if (args.size() < function.least || args.size() > function.most)
      return wrong(fmt::format("{}() does not take {} values", name, args.size()));
    return function.call(args);
  }

  const std::string& text_;
  const std::map<std::string, Number>& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

double as_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

Result<Number> evaluate_expression(const std::string& text, const std::map<std::string, Number>& names) {
  if (text.size() > kMaxLength) return wrong(fmt::format("{} characters; allowed are {}", text.size(), kMaxLength));
  return Parser(text, names).whole_text();
}

}  // namespace tritium::server::comfy
