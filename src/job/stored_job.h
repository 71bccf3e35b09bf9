// Jobs as documents: what a store keeps of them beside the columns it searches by, and the copy in the folder of each job.
#pragma once

#include "job/job.h"

#include <tritium/result.h>

#include <functional>
#include <string_view>

namespace tritium {

// JSON, exactly as in worker_codec.h. Documents of other versions can be read: a field that is missing keeps its default, an unknown one
// is passed over. Error (failure): no JSON, or a field of another type.
std::string encode_job(const Job& job);
Result<Job> decode_job(std::string_view text);

// What makes two submissions the same: everything asked for but the id, with a file's content in place of its name. Error (usage): a file
// cannot be read.
Result<std::string> request_fingerprint(const JobSpec& spec);

// Calls back for every file of the client that the request names, with the name of its field ("references[0].file"). Adapters are the
// model's, not the client's.
void for_each_input(Request& request, const std::function<void(const std::string& field, std::filesystem::path& file)>& visit);

}  // namespace tritium
