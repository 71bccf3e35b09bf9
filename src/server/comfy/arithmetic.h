// Numbers as Python has them: whole ones stay whole as long as they can.
#pragma once

#include "server/comfy/expression.h"

#include <cmath>
#include <functional>
#include <vector>

namespace tritium::server::comfy::arithmetic {

Error wrong(std::string message);  // usage, field "expression"

bool is_true(const Number& n);
Number truth(bool value);
Result<Number> checked(double value);  // error: not finite
Result<Number> add(const Number& a, const Number& b);
Result<Number> subtract(const Number& a, const Number& b);
Result<Number> multiply(const Number& a, const Number& b);
// Towards minus infinity; the remainder has the sign of the divisor.
Result<Number> floor_divide(const Number& a, const Number& b, bool remainder);
Result<Number> power(const Number& a, const Number& b);

struct Function {
  std::size_t least, most;  // values that it takes
  std::function<Result<Number>(const std::vector<Number>&)> call;
};
const std::map<std::string, Function>& functions();  // by name

}  // namespace tritium::server::comfy::arithmetic
