// JSON forms shared by the plan's printer and the metadata of results.
#pragma once

#include <nlohmann/json.hpp>
#include <tritium/plan.h>

namespace tritium {

nlohmann::ordered_json to_json(const Adjustment& adjustment);
nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace tritium
