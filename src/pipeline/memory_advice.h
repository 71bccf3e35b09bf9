// What to say about a request that does not fit: the nearest ones that would, found by planning them.
#pragma once

#include "pipeline/memory_plan.h"

namespace tritium {

// does_not_fit: need and have in the message, what would fit in the hint.
Error refusal(const MemoryShortage& shortage, const ModelShape& model, const RequestShape& request, const Machine& machine,
              MemoryPolicy policy, const MemoryAlternatives& alternatives);

}  // namespace tritium
