// Arithmetic as the node ComfyMathExpression writes it: numbers, names, + - * / // % **, comparisons, "and", "or", "not",
// "x if c else y", and the functions sum min max abs round pow sqrt ceil floor log log2 log10 sin cos tan int float, with Python's rules:
// whole numbers stay whole except under "/", % and // go towards minus infinity, round() goes to the even neighbour.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace tritium::server::comfy {

using Number = std::variant<std::int64_t, double>;

double as_double(const Number& number);

// `names`: a, b, ...; "values" is the list of all of them. Errors (usage) say what is wrong and where: syntax, an unknown name or function,
// division by zero, a result that is not finite or has no place in 64 bits, more than 1000 characters or 100 levels.
Result<Number> evaluate_expression(const std::string& text, const std::map<std::string, Number>& names);

}  // namespace tritium::server::comfy
