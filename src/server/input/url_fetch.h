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

// Sends a JSON document and gives the answer's body, at most 64 KiB of it. Redirects are not followed; addresses are looked at in the same
// way. Errors: usage, without a field; also for an answer with another status than 200 to 299.
Result<std::string> post_json(const std::string& url, const UrlPolicy& policy, const std::string& document, double max_seconds);

}  // namespace tritium::server
