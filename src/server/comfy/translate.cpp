#include "server/comfy/translate.h"

#include "server/comfy/names.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

struct Run {
  OutputNode output;
  VideoValue video;
};

// VHS's own options that would change what is saved.
void check_vhs(NodeInputs& in) {
  in.integer("loop_count");
  in.text("format");
  if (in.boolean("pingpong")) in.refuse("pingpong", "not offered; allowed is false");
  if (!in.boolean("save_output")) in.note("save_output", "false", "true", "clips are kept with their job");
  if (const std::string format = in.text("pix_fmt"); format != "yuv420p" && !in.failed())
    in.refuse("pix_fmt", fmt::format("'{}' is not offered; allowed is yuv420p", format));
  if (in.boolean("trim_to_audio")) in.note("trim_to_audio", "true", "false", "pictures and sound of a clip have the same length");
}

std::optional<Run> run_output(NodeInputs& in, std::int64_t now) {
  std::optional<VideoValue> video;
  if (in.node().class_type == "VHS_VideoCombine") {
    video = combine(in, "frame_rate");
    check_vhs(in);
  } else {
    video = in.link<VideoValue>("video");
    for (const char* each : {"format", "codec", "format.codec", "codec.encoding", "format.codec.encoding"})
      if (in.node().input(each) != nullptr) in.text(each);
  }
  const std::string prefix = in.text("filename_prefix");
  if (!video || in.failed()) return std::nullopt;
  auto name = output_name(prefix, video->made->latent.width, video->made->latent.height, now);
  if (!name.ok()) {
    in.refuse("filename_prefix", name.error().text());
    return std::nullopt;
  }
  return Run{{in.node().id, in.node().class_type, name->subfolder, name->stem}, std::move(*video)};
}

Request request_of(const Generation& made) {
  Request out;
  out.prompt = made.positive.prompt;
  out.width = made.latent.width;
  out.height = made.latent.height;
  out.frames = made.latent.length;
  out.steps = made.steps;
  out.seed = made.seed;
  out.video_shift = made.model.video_shift;
  out.audio_shift = made.model.audio_shift;
  out.loras = made.model.loras;
  out.acceleration = made.model.acceleration;
  out.noise = "comfyui";
  out.first_frame = made.positive.first_frame;
  out.last_frame = made.positive.last_frame;
  out.references = made.positive.references;
  out.official_reference_size = made.positive.official_reference_size;
  const bool stretch = made.positive.first_frame.empty() ? made.positive.last_is_stretched : made.positive.first_is_stretched;
  out.fit = stretch ? Fit::stretch : Fit::cover;
  return out;
}

// Fields whose problems only the planner knows, and where they come from.
void add_sources(const Generation& made, Translation& out) {
  const std::string& canvas = made.latent.node;
  for (const char* each : {"width", "height"}) out.sources[each] = {canvas, each};
  for (const char* each : {"frames", "seconds"}) out.sources[each] = {canvas, "length"};
  out.sources["prompt"] = {made.positive.node, made.positive.prompt_input};
  out.sources["seed"] = {made.seed_node, made.seed_input};
  out.sources["steps"] = {made.steps_node, "steps"};
  for (const char* each : {"first_frame", "last_frame"}) out.sources[each] = {made.positive.node, each};
  for (const char* each : {"references", "reference_image", "image"}) out.sources[each] = {made.positive.node, "ref_images"};
  for (const char* each : {"reference_video", "video"}) out.sources[each] = {made.positive.node, "ref_videos"};
  for (const char* each : {"reference_audio", "audio"}) out.sources[each] = {made.positive.node, "ref_audios"};
  out.sources["official_reference_size"] = {made.positive.node, "ref_image_size"};
  for (const char* each : {"model", "lora", "video_shift", "audio_shift"}) out.sources[each] = {made.model.loader, ""};
  if (made.model.accelerator.empty()) return;
  out.sources["easycache"] = {made.model.accelerator, "reuse_threshold"};
  out.sources["easycache_start"] = {made.model.accelerator, "start_percent"};
}

void add_stages(const Run& run, Translation& out) {
  const Generation& made = *run.video.made;
  out.stages = {{"load", made.model.loader},       {"inputs", made.positive.node},
                {"text", made.positive.node},      {"denoise", made.sampler},
                {"video", run.video.picture_node}, {"audio", run.video.sound_node.empty() ? run.video.picture_node : run.video.sound_node},
                {"write", run.output.id}};
}

void note_frames(const Generation& made, std::vector<Note>& notes) {
  const ConditioningValue& c = made.positive;
  if (c.first_frame.empty() || c.last_frame.empty() || c.first_is_stretched == c.last_is_stretched) return;
  notes.push_back({c.node, "", "last_frame", "cut to the canvas", "stretched to it", "both keyframes are fitted in the same way here"});
}

PromptError failure(std::string type, std::string message, std::string details, Json node_errors) {
  PromptError out;
  out.type = std::move(type);
  out.message = std::move(message);
  out.details = std::move(details);
  out.node_errors = std::move(node_errors);
  return out;
}

// "16 (MiniMaxH3ImageToVideo) length: Value 3 smaller than min of 5"
std::string summary(const Json& node_errors) {
  std::string out;
  for (const auto& [id, node] : node_errors.items())
    for (const auto& error : node["errors"])
      out += fmt::format("{}{} (#{}): {}: {}", out.empty() ? "" : "; ", node["class_type"].get<std::string>(), id,
                         error["message"].get<std::string>(), error["details"].get<std::string>());
  return out.size() > 2000 ? out.substr(0, 2000) + "..." : out;
}

}  // namespace

Translated translate(const Json& prompt, const std::vector<std::string>& targets, const GraphEnvironment& environment, std::int64_t now) {
  Translated out;
  ReadGraph read = read_graph(prompt);
  if (read.error) {
    out.node_errors = read.error->node_errors;
    out.error = std::move(read.error);
    return out;
  }
  const auto wanted = [&](const Node& node) {
    return node.spec->is_output && (targets.empty() || std::find(targets.begin(), targets.end(), node.id) != targets.end());
  };
  Problems problems;
  std::vector<Run> runs;
  std::vector<Note> notes;
  std::vector<std::string> order;
  bool any = false;
  for (const Node& node : read.graph.nodes) {
    if (!wanted(node)) continue;
    any = true;
    std::vector<Note> found;
    Evaluator evaluator(read.graph, environment, problems, found);
    NodeInputs inputs(evaluator, node);
    auto run = run_output(inputs, now);
    if (run && !runs.empty() && runs.front().video.made->sampler != run->video.made->sampler)
      inputs.refuse(
          "",
          fmt::format("comes from another sampler (#{}) than output #{} (#{}): one prompt makes one clip; send it as a prompt of its own",
                      run->video.made->sampler, runs.front().output.id, runs.front().video.made->sampler));
    problems.blame(node.id);
    if (!run || inputs.failed()) continue;
    for (Note& each : found) notes.push_back(std::move(each));
    for (const std::string& id : evaluator.order())
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    order.push_back(node.id);
    runs.push_back(std::move(*run));
  }
  out.node_errors = problems.to_json();
  if (!any) {
    out.error =
        failure("prompt_no_outputs", "Prompt has no outputs", "it needs a node that saves: SaveVideo or VHS_VideoCombine", out.node_errors);
    return out;
  }
  if (runs.empty()) {
    out.error = failure("prompt_outputs_failed_validation", "Prompt outputs failed validation", summary(out.node_errors), out.node_errors);
    return out;
  }
  Translation work;
  const Generation& made = *runs.front().video.made;
  work.request = request_of(made);
  note_frames(made, notes);
  for (Note& each : notes)
    if (std::none_of(work.notes.begin(), work.notes.end(),
                     [&](const Note& n) { return n.node == each.node && n.input == each.input && n.reason == each.reason; }))
      work.notes.push_back(std::move(each));
  for (Run& run : runs) work.outputs.push_back(run.output);
  add_stages(runs.front(), work);
  add_sources(made, work);
  work.order = std::move(order);
  out.work = std::move(work);
  return out;
}

Json node_error(const Json& prompt, const std::string& node, const std::string& input, const std::string& message) {
  const auto found = prompt.find(node);
  Json extra = Json::object();
  if (!input.empty()) extra["input_name"] = input;
  return {{node,
           {{"errors", Json::array({{{"type", "custom_validation_failed"},
                                     {"message", "Custom validation failed for node"},
                                     {"details", input.empty() ? message : fmt::format("{}: {}", input, message)},
                                     {"extra_info", extra}}})},
            {"dependent_outputs", Json::array()},
            {"class_type", found != prompt.end() ? (*found)["class_type"] : Json("")}}}};
}

}  // namespace tritium::server::comfy
