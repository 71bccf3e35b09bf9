#include "server/comfy/evaluator.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::server::comfy {
namespace {

constexpr int kMaxDepth = 300;

}  // namespace

std::string type_name(const Value& value) {
  struct Name {
    std::string operator()(std::int64_t) const { return "INT"; }
    std::string operator()(double) const { return "FLOAT"; }
    std::string operator()(bool) const { return "BOOLEAN"; }
    std::string operator()(const std::string&) const { return "STRING"; }
    std::string operator()(const ModelValue&) const { return "MODEL"; }
    std::string operator()(const ClipValue&) const { return "CLIP"; }
    std::string operator()(const VaeValue&) const { return "VAE"; }
    std::string operator()(const FileValue& v) const {
      return v.kind == ReferenceInput::Kind::image ? "IMAGE" : v.kind == ReferenceInput::Kind::video ? "VIDEO" : "AUDIO";
    }
    std::string operator()(const TrackValue& v) const { return v.video.kind == ReferenceInput::Kind::video ? "IMAGE" : "AUDIO"; }
    std::string operator()(const ConditioningValue&) const { return "CONDITIONING"; }
    std::string operator()(const LatentValue&) const { return "LATENT"; }
    std::string operator()(const NoiseValue&) const { return "NOISE"; }
    std::string operator()(const SamplerValue&) const { return "SAMPLER"; }
    std::string operator()(const SigmasValue&) const { return "SIGMAS"; }
    std::string operator()(const GuiderValue&) const { return "GUIDER"; }
    std::string operator()(const PicturesValue&) const { return "IMAGE"; }
    std::string operator()(const SoundValue&) const { return "AUDIO"; }
    std::string operator()(const VideoValue&) const { return "VIDEO"; }
  };
  return std::visit(Name{}, value);
}

void Evaluator::note(Note note) {
  const auto same = [&](const Note& each) { return each.node == note.node && each.input == note.input && each.reason == note.reason; };
  if (std::none_of(notes_.begin(), notes_.end(), same)) notes_.push_back(std::move(note));
}

std::optional<std::vector<Value>> Evaluator::run(const Node& node) {
  if (running_.count(node.id) != 0) {
    problems_.add(node,
                  {"dependency_cycle", "Dependency cycle detected", fmt::format("node '{}' needs its own output", node.id), "", nullptr});
    return std::nullopt;
  }
  if (const auto known = done_.find(node.id); known != done_.end()) return known->second;
  if (depth_ >= kMaxDepth) {
    problems_.add(node, {"custom_validation_failed", "Too many nodes in a row", fmt::format("allowed are {}", kMaxDepth), "", nullptr});
    return std::nullopt;
  }
  const NodeFunction function = function_of(node.class_type);
  if (function == nullptr) {
    problems_.add(node, {"return_type_mismatch", "Return type mismatch between linked nodes",
                         fmt::format("what {} gives cannot be used further here", node.class_type), "", nullptr});
    return std::nullopt;
  }
  running_.insert(node.id);
  ++depth_;
  NodeInputs inputs(*this, node);
  auto out = function(inputs);
  if (inputs.failed()) out.reset();
  --depth_;
  running_.erase(node.id);
  done_[node.id] = out;
  if (out) order_.push_back(node.id);
  return out;
}

std::optional<Value> Evaluator::output(const Link& link) {
  const Node* node = graph_.find(link.node);
  if (node == nullptr) return std::nullopt;  // looked at by NodeInputs::linked
  auto out = run(*node);
  if (!out || static_cast<std::size_t>(link.slot) >= out->size()) return std::nullopt;
  return (*out)[static_cast<std::size_t>(link.slot)];
}

}  // namespace tritium::server::comfy
