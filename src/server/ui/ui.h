// The page (web/, docs/page.md), served from the program itself.
#pragma once

#include "server/http/router.h"

namespace tritium::server::ui {

// "/" and "/clips/{id}", which are one document that looks at the address; "/assets/*" and the licence of what the page contains. The
// document is asked for anew every time, assets have a hash of their content in their names and are kept for ever by browsers. Nothing from
// elsewhere is allowed on the page.
void add_routes(http::Router& router);

// These need no key, because the page is what asks for it: as http::ServerOptions::public_paths.
std::vector<std::string> public_paths();

}  // namespace tritium::server::ui
