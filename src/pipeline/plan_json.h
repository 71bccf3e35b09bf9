// JSON forms shared by the plan's printer and the metadata of results.
#pragma once

#include <tritium/plan.h>
#include <nlohmann/json.hpp>

namespace tritium {

nlohmann::ordered_json to_json(const Adjustment& adjustment);
nlohmann::ordered_json to_json(const LoraPlan& lora);
nlohmann::ordered_json to_json(const Acceleration& acceleration);  // what is on
nlohmann::ordered_json to_json(const Plan& plan);
nlohmann::ordered_json memory_json(const std::vector<StagePlan>& stages, const std::vector<MemoryPeak>& memories);

}  // namespace tritium
