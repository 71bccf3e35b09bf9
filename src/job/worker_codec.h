// Structs to and from JSON, exactly: every value comes back with the same bits, also numbers that are not finite and names of files that
// are not UTF-8. The fields are listed in worker_fields.h.
//
// Strings that are not UTF-8 become {"hex": "..."}; infinities and NaN become "inf", "-inf" and "nan"; an absent optional becomes null.
#pragma once

#include "job/worker_messages.h"

#include <tritium/result.h>

#include <string>
#include <string_view>

namespace tritium {

// T: one of the messages of worker_messages.h, or Plan, Progress, Artifact.
template <class T>
std::string encode_message(const T& message);

// Error (failure) names the field: unknown, missing, of another type or out of range.
template <class T>
Result<T> decode_message(std::string_view text);

}  // namespace tritium
