#include "pipeline/model_files.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <tuple>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kFilesShown = 4;

// A part with its option and the words that paths of its files contain.
struct PartKind {
  PartRole role;
  const char *option, *field;
  std::array<std::string_view, 4> words;
  const char* expected;  // the place in the official tree
};
constexpr std::array<PartKind, 4> kKinds = {{
    {PartRole::dit, "--dit", "dit", {"transformer", "diffusion_models", "unet", "2v"}, "transformer/"},
    {PartRole::text_encoder, "--text-encoder", "text-encoder", {"text_encoder", "clip", "qwen", "text-encoder"}, "text_encoder/"},
    {PartRole::video_vae, "--video-vae", "video-vae", {"video_vae", "visual_vae", "video-vae", "/vae/"}, "video_vae/source/"},
    {PartRole::audio_vae, "--audio-vae", "audio-vae", {"audio_vae", "audio-vae", "audio", "audio"}, "audio_vae/"},
}};
const PartKind& kind_of(PartRole role) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [&](const PartKind& kind) { return kind.role == role; });
}

Error bad(std::string message, std::string hint = {}, std::string field = "model") {
  return Error{ErrorCode::model, std::move(message), std::move(field), std::move(hint)};
}

std::string relative_name(const fs::path& path, const fs::path& root) {
  const fs::path relative = path.lexically_relative(root);
  return relative.empty() || *relative.begin() == ".." ? path.string() : relative.string();
}

// Why a part was not found: a file that should have been it and cannot be used, or nothing there.
Error missing_part(const ModelFolder& folder, const PartKind& kind) {
  for (const UnusableFile& file : folder.unusable) {
    const std::string name = "/" + relative_name(file.path, folder.root);
    for (const std::string_view word : kind.words)
      if (name.find(word) != std::string::npos)
        return bad(fmt::format("{}: {}", role_name(kind.role), file.error.message), file.error.hint, file.error.field);
  }
  std::string unreadable;
  for (const UnusableFile& file : folder.unusable) unreadable += "; " + file.error.message;
  const std::string also = fmt::format("{}{}", fmt::join(folder.notes, "; "), unreadable.substr(0, 600));
  if (kind.role == PartRole::dit)
    return bad(fmt::format("'{}' is not a MiniMax-H3 model folder: no diffusion transformer is in it{}{}", folder.root.string(),
                           also.empty() ? "" : "; ", also),
               "expected is e.g. the official layout, FL2VA/{transformer,text_encoder,tokenizer,video_vae,audio_vae}, or ComfyUI's models "
               "folder; or name the file with --dit");
  return bad(fmt::format("no {} in '{}' (the official place is {}){}{}", role_name(kind.role), folder.root.string(), kind.expected,
                         also.empty() ? "" : "; ", also),
             fmt::format("name the file with {}", kind.option));
}

bool belongs(const Identity& part, const Identity& dit) {
  const auto fits = [](std::int64_t a, std::int64_t b) { return a == 0 || b == 0 || a == b; };
  switch (part.role) {
    case PartRole::text_encoder:
      return fits(part.text_width, dit.text_width);
    case PartRole::video_vae:
      return fits(part.video_channels, dit.video_channels);
    case PartRole::audio_vae:
      return fits(part.audio_channels, dit.audio_channels);
    default:
      return true;
  }
}

class Chooser {
 public:
  Chooser(const ModelFolder& folder, const ModelSelection& selection, std::uint64_t memory)
      : folder_(folder), selection_(selection), memory_(memory) {}

  Result<ModelFiles> choose() {
    ModelFiles out;
    TRITIUM_TRY_ASSIGN(out.dit, transformer(out));
    const PartCandidate& dit = out.dit.file;
    TRITIUM_TRY(check_stated_order(dit.identity, dit.path));
    TRITIUM_TRY_ASSIGN(out.text_encoder, other(PartRole::text_encoder, selection_.text_encoder, dit));
    TRITIUM_TRY_ASSIGN(out.video_vae, other(PartRole::video_vae, selection_.video_vae, dit));
    TRITIUM_TRY_ASSIGN(out.audio_vae, other(PartRole::audio_vae, selection_.audio_vae, dit));
    TRITIUM_TRY_ASSIGN(out.tokenizer, find_tokenizer(folder_, out.text_encoder.file, selection_.tokenizer));
    out.root = dit.tree.empty() ? folder_.root : dit.tree;
    out.notes = folder_.notes;
    for (const UnusableFile& file : folder_.unusable) out.notes.push_back("not used: " + file.error.message);
    return out;
  }

 private:
  Result<ChosenPart> named(PartRole role, const fs::path& path) {
    const PartKind& kind = kind_of(role);
    auto candidate = part_candidate(path, selection_.qkv_order);
    if (!candidate.ok())
      return bad(fmt::format("{}: {}", role_name(role), candidate.error().message), candidate.error().hint,
                 candidate.error().field.empty() ? "model" : candidate.error().field);
    if (candidate->identity.role != role)
      return bad(fmt::format("'{}' is no {} but: {} ({})", path.string(), role_name(role), role_name(candidate->identity.role),
                             candidate->identity.reason),
                 "", kind.field);
    ChosenPart out{std::move(*candidate), fmt::format("named with {}", kind.option), {}};
    for (const PartCandidate* each : folder_.of_role(role))
      if (each->path != path) out.alternatives.push_back(candidate_line(*each, folder_.root));
    return out;
  }

  Result<ChosenPart> transformer(ModelFiles& out) {
    if (!selection_.dit.empty()) {
      TRITIUM_TRY_ASSIGN(ChosenPart chosen, named(PartRole::dit, selection_.dit));
      TRITIUM_TRY(decide_partition({&chosen.file}, out));
      return chosen;
    }
    std::vector<const PartCandidate*> all = folder_.of_role(PartRole::dit);
    if (all.empty()) return missing_part(folder_, kind_of(PartRole::dit));
    TRITIUM_TRY(decide_partition(all, out));
    const auto other_partition = [&](const PartCandidate* each) {
      const auto verdict = each->identity.partition.verdict();
      return verdict ? *verdict != out.partition : !selection_.partition;
    };
    std::vector<const PartCandidate*> usable = all;
    std::erase_if(usable, other_partition);
    const auto proven = [&](const PartCandidate& each) { return each.identity.partition.verdict() == out.partition; };
    return best(usable, all, proven, fs::path());
  }

  // Sets the partition, or says why it cannot be told.
  Result<void> decide_partition(const std::vector<const PartCandidate*>& all, ModelFiles& out) const {
    const auto with = [&](std::optional<Partition> wanted) {
      return std::find_if(all.begin(), all.end(), [&](const PartCandidate* each) { return each->identity.partition.verdict() == wanted; });
    };
    if (selection_.partition) {
      out.partition = *selection_.partition;
      out.partition_reason = "named with --partition";
      if (with(selection_.partition) != all.end() || with(std::nullopt) != all.end()) return {};
      return bad(fmt::format("'{}' is the {} model ({}), --partition asks for {}", all.front()->path.string(),
                             partition_name(*all.front()->identity.partition.verdict()), all.front()->identity.partition.text(),
                             partition_name(out.partition)),
                 "the two cannot stand in for each other; name the other transformer with --dit or -m", "partition");
    }
    const Partition second = selection_.preferred == Partition::fl2va ? Partition::ref2va : Partition::fl2va;
    for (const Partition partition : {selection_.preferred, second})
      if (const auto found = with(partition); found != all.end()) {
        out.partition = partition;
        out.partition_reason = (*found)->identity.partition.text();
        return {};
      }
    return bad(fmt::format("cannot tell whether '{}' is the FL2VA or the Ref2VA model: {}", all.front()->path.string(),
                           all.front()->identity.partition.text()),
               "say --partition fl2va or --partition ref2va; their files differ in nothing but the values");
  }

  Result<ChosenPart> other(PartRole role, const fs::path& name, const PartCandidate& dit) {
    if (!name.empty()) return named(role, name);
    const std::vector<const PartCandidate*> all = folder_.of_role(role);
    if (all.empty()) return missing_part(folder_, kind_of(role));
    return best(
        all, all, [&](const PartCandidate& each) { return belongs(each.identity, dit.identity); }, dit.tree);
  }

  // The first by the rule. `tree`: the preferred tree; empty: any.
  template <class Belongs>
  ChosenPart best(const std::vector<const PartCandidate*>& usable, const std::vector<const PartCandidate*>& all, Belongs belongs_to,
                  const fs::path& tree) const {
    const auto fits = [&](const PartCandidate* each) { return each->identity.bytes <= memory_; };
    const bool any_fits = std::any_of(usable.begin(), usable.end(), fits);
    const auto in_tree = [&](const PartCandidate* each) { return tree.empty() ? !each->tree.empty() : each->tree == tree; };
    const auto rank = [&](const PartCandidate* each) {
      const auto bytes = static_cast<std::int64_t>(each->identity.bytes);
      return std::tuple(!belongs_to(*each), !each->identity.missing.empty(), !fits(each), !in_tree(each), any_fits ? -bytes : bytes,
                        each->path);
    };
    const auto first = std::min_element(usable.begin(), usable.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
    ChosenPart out{**first, "", {}};
    out.why = all.size() == 1      ? "the only one"
              : !any_fits          ? fmt::format("the smallest; none fits into the {} available", format_bytes(memory_))
              : in_tree(*first)    ? "in the official tree"
              : usable.size() == 1 ? fmt::format("the only one for {}", partition_name(selection_.partition.value_or(selection_.preferred)))
                                   : fmt::format("the largest that fits into the {} available", format_bytes(memory_));
    for (const PartCandidate* each : all)
      if (each != *first) out.alternatives.push_back(candidate_line(*each, folder_.root));
    return out;
  }

  const ModelFolder& folder_;
  const ModelSelection& selection_;
  std::uint64_t memory_;
};

// A file stands for its folder; what is not there may be in the folders beside it.
Result<ModelFolder> scan_around_file(const fs::path& file, std::optional<DitLayout> order) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  TRITIUM_TRY_ASSIGN(ModelFolder out, scan_model_folder(folder, order));
  const bool complete = std::all_of(kKinds.begin(), kKinds.end(), [&](const PartKind& kind) { return !out.of_role(kind.role).empty(); });
  if (complete) return out;
  std::error_code ignored;
  const fs::path above = fs::absolute(folder, ignored).lexically_normal().parent_path();
  constexpr int kSiblingDepth = 3;
  return above.has_relative_path() ? scan_model_folder(above, order, kSiblingDepth) : std::move(out);
}

}  // namespace

Result<ModelSelection> parse_model_selection(const std::string& partition, const std::string& qkv_order) {
  ModelSelection out;
  if (!partition.empty()) {
    out.partition = partition_from_name(partition);
    if (!out.partition) return Error{ErrorCode::usage, fmt::format("'{}' is not one of fl2va, ref2va", partition), "partition", ""};
  }
  if (qkv_order == "interleaved")
    out.qkv_order = DitLayout::interleaved;
  else if (qkv_order == "plain")
    out.qkv_order = DitLayout::plain;
  else if (!qkv_order.empty())
    return Error{ErrorCode::usage, fmt::format("'{}' is not one of interleaved, plain", qkv_order), "qkv-order", ""};
  return out;
}

std::string candidate_line(const PartCandidate& candidate, const fs::path& root) {
  const Identity& identity = candidate.identity;
  return fmt::format("{}: {}{}, {}{}", relative_name(candidate.path, root), identity.main_format, identity.pruned ? " pruned" : "",
                     format_bytes(identity.bytes), identity.missing.empty() ? "" : ", incomplete");
}

Result<ModelFiles> find_model_files(const fs::path& path, const ModelSelection& selection, std::uint64_t available_memory) {
  std::error_code ignored;
  ModelSelection wanted = selection;
  ModelFolder folder;
  if (fs::is_regular_file(path, ignored)) {
    TRITIUM_TRY_ASSIGN(folder, scan_around_file(path, selection.qkv_order));
    if (wanted.dit.empty()) wanted.dit = path;
  } else if (!path.empty()) {
    TRITIUM_TRY_ASSIGN(folder, scan_model_folder(path, selection.qkv_order));
  } else if (!wanted.dit.empty()) {
    TRITIUM_TRY_ASSIGN(folder, scan_around_file(wanted.dit, selection.qkv_order));
  }
  return Chooser(folder, wanted, available_memory).choose();
}

}  // namespace tritium
