// Fields of other programs that mean nothing for this model, or something it cannot do.
#pragma once

#include "server/native/fields.h"

namespace tritium::server::native {

// What would change the clip is refused; what would not is recorded as an adjustment or a warning.
void refuse_what_cannot_be(Fields& fields, std::vector<Adjustment>& adjustments, std::vector<std::string>& warnings);

}  // namespace tritium::server::native
