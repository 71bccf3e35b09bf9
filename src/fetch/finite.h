// Whether every value of a checkpoint is a finite number: a little of it in memory at a time, several tensors at once.
#pragma once

#include "base/cancel.h"
#include "weights/quant/logical_tensors.h"

#include <functional>
#include <map>
#include <string>

namespace tritium::fetch {

// The first problem of each file, by its path: values or scales that are not finite, tensors that cannot be read. Only tensors that
// `wanted` (by the path of their file) are looked at; `looked` gets the stored bytes of each tensor that was. Error: interrupted.
Result<std::map<std::string, std::string>> check_values(const LogicalTensors& tensors,
                                                        const std::function<bool(const std::string&)>& wanted,
                                                        const std::function<void(std::uint64_t)>& looked, const CancelToken* cancel);

}  // namespace tritium::fetch
