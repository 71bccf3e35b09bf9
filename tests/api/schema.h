// As much of JSON Schema as the description of the interface uses.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tritium::test {

// What about `value` contradicts `schema`, one sentence each. `document` holds what is referred to. A keyword that is not known here is a
// problem, too: it would not be checked.
std::vector<std::string> schema_problems(const nlohmann::json& document, const nlohmann::json& schema, const nlohmann::json& value,
                                         const std::string& at = "$");

}  // namespace tritium::test
