// Fields of a JSON object, with errors that name them.
#pragma once

#include "server/minimax/creation.h"

namespace tritium::server::minimax {

Error wrong(std::string field, std::string message, std::string hint = {});

// A field that is absent or null gives nothing.
Result<std::optional<std::string>> string_field(const Json& object, const std::string& name, const std::string& shown);
Result<std::optional<std::int64_t>> integer_field(const Json& object, const std::string& name, std::int64_t least, std::int64_t most);
Result<bool> boolean_field(const Json& object, const std::string& name);  // false when it is absent

// The value, if it is one of these.
Result<std::string> one_of(const std::string& field, const std::string& value, const std::vector<std::string>& allowed,
                           const std::string& hint = {});

std::size_t characters(const std::string& utf8);

// Everything that is not in `known` is noted as ignored.
void note_unknown(const Json& object, const std::vector<std::string>& known, std::vector<Note>& notes);

}  // namespace tritium::server::minimax
