// The field "acceleration": {"reuse_velocity": 3, "reuse_core": 3, "easycache": 0.2 or {"threshold", "start", "end"}, "blocks": 40,
// "draft": true}.
#pragma once

#include "server/native/fields.h"

namespace tritium::server::native {

// Into the request's fields; the engine checks ranges and what excludes what. `warnings` gets what is not known.
Acceleration read_acceleration(Fields& fields, std::vector<std::string>& warnings);

// The engine's name of a field and the client's.
inline constexpr std::pair<const char*, const char*> kAccelerationNames[] = {{"reuse_velocity", "acceleration.reuse_velocity"},
                                                                             {"reuse_core", "acceleration.reuse_core"},
                                                                             {"easycache", "acceleration.easycache"},
                                                                             {"easycache_start", "acceleration.easycache.start"},
                                                                             {"blocks", "acceleration.blocks"}};

}  // namespace tritium::server::native
