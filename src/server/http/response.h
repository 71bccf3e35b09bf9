// The head of an answer as bytes.
#pragma once

#include "server/http/message.h"

namespace tritium::http {

using Fields = std::vector<std::pair<std::string, std::string>>;

const char* reason_of(int status);  // "Not Found"; "Status" for what has no name

// Names and values are written without what would end the line: whatever a handler puts there, it stays one field.
std::string head_text(int status, const Fields& fields);

std::string http_date(std::int64_t unix_seconds);  // "Mon, 30 Nov 2026 14:00:00 GMT"

// Of a file that is to be saved under this name, which may be any text.
std::string attachment(const std::string& name);

// 1 to 64 letters, digits and "-_."; clients may choose such ids themselves.
bool valid_request_id(std::string_view id);
std::string new_request_id();  // "req_" and 24 hexadecimal digits

}  // namespace tritium::http
