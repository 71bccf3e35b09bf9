// What identify() found, for people and machines.
#pragma once

#include "pipeline/model_scan.h"

#include <nlohmann/json_fwd.hpp>

namespace tritium {

nlohmann::ordered_json identity_json(const Identity& identity);

// Lines, each indented and ended; what is empty or as it should be is left out.
std::string identity_text(const Identity& identity);

// Element types as stored, by bytes: "BF16 1.20 GiB, F32 3.00 KiB".
std::string dtypes_text(const Checkpoint& checkpoint);
nlohmann::ordered_json checkpoint_json(const Checkpoint& checkpoint);

}  // namespace tritium
