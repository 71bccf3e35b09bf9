// Downloads from an address that a client named, so that the client reaches nothing by it that it could not reach itself.
#pragma once

#include "server/input/media_input.h"

namespace tritium::server {

struct FetchedUrl {
  std::string content_type;
  std::uint64_t bytes = 0;
};

// Gives the content to `sink`. Every connection, also those of redirects (at most five), goes to an address that has been looked at: the
// check is made on the very address that is connected to, after the name was resolved, so a name cannot point elsewhere a moment later.
// Proxies of the environment are not used: they would resolve names themselves. Errors: usage, without a field; those of the sink.
Result<FetchedUrl> fetch_url(const std::string& url, const UrlPolicy& policy, const std::function<Result<void>(std::string_view)>& sink);

}  // namespace tritium::server
