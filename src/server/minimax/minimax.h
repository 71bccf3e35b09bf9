// The dialect of MiniMax's open platform: /v2/video_generation with its content list, the older /v1/video_generation, and files.
// docs/minimax.md says what is understood.
#pragma once

#include "job/service.h"
#include "server/http/router.h"
#include "server/input/media_input.h"

namespace tritium::server::minimax {

struct Options {
  std::filesystem::path data;                  // uploaded files and the key of signed links; empty: "minimax" in the service's folder
  std::filesystem::path spool;                 // inputs of requests lie here until the job has its own
  UrlPolicy urls;                              // of pictures, videos and sounds that a request names by address, and of callbacks
  std::string public_url;                      // in front of links, "https://video.example"; empty: the host that the request named
  bool https = false;                          // of links without a public_url
  bool sign_links = false;                     // links hold a signature that expires: for servers with API keys
  double link_seconds = 86400;                 // that a signed link is good for
  std::uint64_t max_file_bytes = 20ull << 30;  // of one owner's uploaded files together
  double keep_files_days = 30;                 // since the upload; 0: for ever
};

// Paths that are answered without an API key: links to results carry their own proof.
std::vector<std::string> public_paths();

// The router keeps what the routes need; it has to go before the service.
void add_routes(http::Router& router, JobService& service, const Options& options);

}  // namespace tritium::server::minimax
