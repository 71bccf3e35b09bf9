// The service with the limits of API keys: how many jobs of one key may wait.
#pragma once

#include "job/service.h"
#include "server/http/keys.h"

namespace tritium::cli {

// Everything goes on to `inner`, which has to outlive it; a submission beyond its key's max_queued is refused as busy.
std::unique_ptr<JobService> with_key_limits(JobService& inner, std::shared_ptr<http::ApiKeys> keys);

}  // namespace tritium::cli
