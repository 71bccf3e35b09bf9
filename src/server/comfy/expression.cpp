#include "server/comfy/expression.h"

#include "base/try.h"
#include "server/comfy/arithmetic.h"

#include <fmt/format.h>
#include <cctype>
#include <charconv>
#include <vector>

namespace tritium::server::comfy {
namespace {

using namespace arithmetic;

constexpr std::size_t kMaxLength = 1000;
constexpr int kMaxDepth = 100;

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

Result<Number> evaluate_expression(const std::string& text, const std::map<std::string, Number>& names) {
  if (text.size() > kMaxLength) return wrong(fmt::format("{} characters; allowed are {}", text.size(), kMaxLength));
  return Parser(text, names).whole_text();
}

}  // namespace tritium::server::comfy
