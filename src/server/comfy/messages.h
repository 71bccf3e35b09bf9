// Jobs as ComfyUI's clients see them: in the queue, in the history, and as events.
#pragma once

#include "job/job.h"
#include "server/comfy/record.h"

namespace tritium::server::comfy {

// {"type": type, "data": data}
std::string message(const std::string& type, const Json& data);

// [number, id, prompt, extra_data, outputs to execute]
Json queue_item(const Job& job, const Record& record);
double queue_number(const Job& job, const Record& record);

// What each output node made: {"92": {"images": [...], "animated": [true], "videos": [...]}}. Empty unless the job is completed.
Json outputs_json(const Job& job, const Record& record);
Json node_output(const Job& job, const Record& record, std::size_t index);

// A finished job that was begun: {"prompt", "outputs", "status", "meta", "adjustments"}.
Json history_entry(const Job& job, const Record& record);
// A cancelled job that never ran is in no history, as in ComfyUI.
bool in_history(const Job& job);

// A job of /api/jobs. `whole`: with outputs, status and workflow.
Json job_json(const Job& job, const Record& record, bool whole);

// The event that ends a job: "execution_success", "execution_error" or "execution_interrupted".
struct EndEvent {
  std::string type;
  Json data;
};
EndEvent end_event(const Job& job, const Record& record);

// What was adjusted: by this dialect and by the planner.
Json adjustments_json(const Plan& plan, const std::vector<Note>& notes);

// Binary events. Without `metadata` the old form: 1, format 1 (JPEG), picture; with it: 4, length of the document, document, picture.
std::string preview_message(const std::string& jpeg);
std::string preview_message(const std::string& jpeg, const Json& metadata);

}  // namespace tritium::server::comfy
