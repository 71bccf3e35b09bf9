// Early return on error. TRITIUM_TRY(expr) for Result<void>; TRITIUM_TRY_ASSIGN(decl, expr) for Result<T>.
#pragma once

#include <tritium/result.h>

#define TRITIUM_CONCAT_INNER(a, b) a##b
#define TRITIUM_CONCAT(a, b) TRITIUM_CONCAT_INNER(a, b)

#define TRITIUM_TRY(expr)                                                                                         \
  do {                                                                                                            \
    if (auto tritium_try_result = (expr); !tritium_try_result.ok()) return std::move(tritium_try_result).error(); \
  } while (false)

#define TRITIUM_TRY_ASSIGN(decl, expr) TRITIUM_TRY_ASSIGN_INNER(TRITIUM_CONCAT(tritium_try_, __LINE__), decl, expr)
#define TRITIUM_TRY_ASSIGN_INNER(temp, decl, expr) \
  auto temp = (expr);                              \
  if (!temp.ok()) return std::move(temp).error();  \
  decl = std::move(temp).value()
