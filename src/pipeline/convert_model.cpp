#include "pipeline/convert_model.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "model/text/text_config.h"
#include "model/video_vae/config.h"
#include "pipeline/model_config.h"
#include "weights/text_names.h"
#include "weights/vae_names.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

std::optional<PartKind> kind_of(PartRole role) {
  switch (role) {
    case PartRole::dit:
      return PartKind::dit;
    case PartRole::text_encoder:
      return PartKind::text;
    case PartRole::video_vae:
      return PartKind::video_vae;
    case PartRole::audio_vae:
      return PartKind::audio_vae;
    default:
      return std::nullopt;
  }
}

Result<ConvertSource> open_dit_source(const PartCandidate& file, std::shared_ptr<const Checkpoint> checkpoint,
                                      const std::optional<Partition>& partition) {
  ConvertSource out;
  const Identity& identity = file.identity;
  TRITIUM_TRY(check_stated_order(identity, file.path));
  if (identity.order_doubtful)
    return Error{ErrorCode::model,
                 fmt::format("cannot tell the order of the attention rows of '{}': {}", file.path.string(), identity.layout_reason),
                 "model",
                 "say --qkv-order interleaved if it is made of the original repository's files, --qkv-order plain if it is a repack"};
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  Naming naming = dit_naming(tensors, identity.dit_layout);
  out.part = WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
  TRITIUM_TRY_ASSIGN(const std::string config, dit_config_text(file, *out.part));
  if (!config.empty()) out.metadata.emplace_back("tritium.config", config);
  if (partition) out.metadata.emplace_back("tritium.partition", *partition == Partition::fl2va ? "fl2va" : "ref2va");
  return out;
}

Result<ConvertSource> open_text_source(const PartCandidate& file, std::shared_ptr<const Checkpoint> checkpoint) {
  ConvertSource out;
  out.kind = PartKind::text;
  TRITIUM_TRY_ASSIGN(out.part, open_text_encoder(std::move(checkpoint)));
  TRITIUM_TRY_ASSIGN(const std::string config, text_config_text(file, *out.part));
  TRITIUM_TRY_ASSIGN(const TextConfig parsed, parse_text_config(config));
  out.metadata.emplace_back("tritium.config", config);
  out.metadata.emplace_back("minimax_h3_te",
                            nlohmann::ordered_json{{"num_hidden_layers", parsed.layers},
                                                   {"output", fmt::format("unnormalized_hidden_after_layer_{}", parsed.layers)}}
                                .dump());
  return out;
}

Result<ConvertSource> open_video_source(const PartCandidate& file, const std::shared_ptr<const Checkpoint>& checkpoint) {
  ConvertSource out;
  out.kind = PartKind::video_vae;
  constexpr std::int64_t kReleasedHeadDim = 64;
  TRITIUM_TRY_ASSIGN(out.part, open_video_vae(checkpoint, kReleasedHeadDim));
  TRITIUM_TRY_ASSIGN(const VideoVaeTexts texts, video_vae_config_texts(file, *out.part));
  TRITIUM_TRY_ASSIGN(const auto config, video_vae::VideoVaeConfig::parse(texts.config, texts.source));
  if (config.head_dim != kReleasedHeadDim) { TRITIUM_TRY_ASSIGN(out.part, open_video_vae(checkpoint, config.head_dim)); }
  const auto parsed = nlohmann::ordered_json::parse(texts.config), source = nlohmann::ordered_json::parse(texts.source);
  out.metadata.emplace_back("tritium.config", nlohmann::ordered_json{{"config", parsed}, {"source", source}}.dump());
  return out;
}

Result<ConvertSource> open_audio_source(const PartCandidate& file, std::shared_ptr<const Checkpoint> checkpoint) {
  ConvertSource out;
  out.kind = PartKind::audio_vae;
  TRITIUM_TRY_ASSIGN(out.part, open_audio_vae(std::move(checkpoint)));
  TRITIUM_TRY_ASSIGN(const AudioVaeTexts texts, audio_vae_config_texts(file, *out.part));
  nlohmann::ordered_json document;
  document["config"] = nlohmann::ordered_json::parse(texts.config);
  if (!texts.metadata.empty()) document["metadata"] = nlohmann::ordered_json::parse(texts.metadata);
  out.metadata.emplace_back("tritium.config", document.dump());
  return out;
}

Result<ConvertSource> open_source(PartKind kind, const PartCandidate& file, const std::optional<Partition>& partition) {
  TRITIUM_TRY_ASSIGN(Checkpoint opened, Checkpoint::open(file.path));
  auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  ConvertSource out;
  switch (kind) {
    case PartKind::dit: {
      TRITIUM_TRY_ASSIGN(out, open_dit_source(file, std::move(checkpoint), partition));
      break;
    }
    case PartKind::text: {
      TRITIUM_TRY_ASSIGN(out, open_text_source(file, std::move(checkpoint)));
      break;
    }
    case PartKind::video_vae: {
      TRITIUM_TRY_ASSIGN(out, open_video_source(file, checkpoint));
      break;
    }
    case PartKind::audio_vae: {
      TRITIUM_TRY_ASSIGN(out, open_audio_source(file, std::move(checkpoint)));
      break;
    }
  }
  out.names = convertible_names(kind, *out.part, kTextLayersUsed);
  // What was folded into the source stays known, unless more is merged now (the new list then holds both).
  for (const TensorFile& f : out.part->checkpoint().files())
    if (const auto merged = f.header().metadata.find("tritium.merged_loras"); merged != f.header().metadata.end())
      out.metadata.emplace_back("tritium.merged_loras", merged->second);
  return out;
}

bool is_wanted(PartKind kind, const std::vector<PartKind>& wanted) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), kind) != wanted.end();
}

void find_companions(const fs::path& text_folder, const fs::path& root, ConvertModel& out) {
  std::error_code ignored;
  for (const char* name : {"preprocessor_config.json", "video_preprocessor_config.json"})
    for (const fs::path& folder :
         {text_folder, text_folder.parent_path() / "processor", out.tokenizer, out.tokenizer.parent_path() / "processor"})
      if (const fs::path path = folder / name; !folder.empty() && fs::is_regular_file(path, ignored)) {
        out.processors.push_back(path);
        break;
      }
  if (const fs::path path = root / "tritium.json"; fs::is_regular_file(path, ignored)) out.descriptions.push_back(path);
}

// The transformer alone should know the sizes it was trained for, too.
Result<void> add_defaults(const fs::path& description, ConvertModel& out) {
  std::error_code ignored;
  if (!fs::is_regular_file(description, ignored)) return {};
  TRITIUM_TRY_ASSIGN(const std::string text, read_file(description));
  const auto parsed = nlohmann::ordered_json::parse(text, nullptr, false);
  for (ConvertSource& part : out.parts)
    if (part.kind == PartKind::dit && parsed.is_object()) part.metadata.emplace_back("tritium.defaults", parsed.dump());
  return {};
}

// The part of model_index.json that says which noise schedule belongs to the model.
Result<std::string> schedule_of(const fs::path& index) {
  TRITIUM_TRY_ASSIGN(const std::string text, read_file(index));
  const auto parsed = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("_minimax_h3")) return std::string();
  return nlohmann::ordered_json{{"_minimax_h3", parsed["_minimax_h3"]}}.dump(2) + "\n";
}

}  // namespace

Result<ConvertModel> open_convert_model(const fs::path& path, const std::vector<PartKind>& wanted, const ModelSelection& selection) {
  ConvertModel out;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Error{ErrorCode::model, fmt::format("'{}' does not exist", path.string()), "source", ""};
  auto single = part_candidate(path, selection.qkv_order);
  if (single.ok() || !fs::is_directory(path, ignored)) {
    if (!single.ok()) return std::move(single).error();
    const auto kind = kind_of(single->identity.role);
    if (!kind)
      return Error{ErrorCode::model,
                   fmt::format("'{}' is no part that can be converted: {}", path.string(), role_name(single->identity.role)), "source",
                   single->identity.role == PartRole::lora ? "give --to-dialect for a LoRA" : single->identity.reason};
    if (!is_wanted(*kind, wanted))
      return Error{ErrorCode::usage, fmt::format("'{}' is a {}", path.string(), role_name(single->identity.role)), "part",
                   "leave --part out"};
    out.partition = selection.partition ? selection.partition : single->identity.partition.verdict();
    TRITIUM_TRY_ASSIGN(ConvertSource source, open_source(*kind, *single, out.partition));
    out.parts.push_back(std::move(source));
    return out;
  }
  TRITIUM_TRY_ASSIGN(const ModelFiles files, find_model_files(path, selection, host_memory().available));
  out.whole = true;
  out.partition = files.partition;
  out.tokenizer = files.tokenizer;
  out.notes = files.notes;
  const std::string stem = fs::weakly_canonical(files.root).filename() == partition_name(files.partition)
                               ? fs::weakly_canonical(files.root).parent_path().filename().string()
                               : fs::weakly_canonical(files.root).filename().string();
  out.name = fmt::format("{}_{}", stem.empty() ? "minimax_h3" : stem, files.partition == Partition::fl2va ? "fl2va" : "ref2va");
  for (const ChosenPart* chosen : {&files.dit, &files.text_encoder, &files.video_vae, &files.audio_vae}) {
    const auto kind = kind_of(chosen->file.identity.role);
    if (!kind || !is_wanted(*kind, wanted)) continue;
    TRITIUM_TRY_ASSIGN(ConvertSource source, open_source(*kind, chosen->file, out.partition));
    out.parts.push_back(std::move(source));
  }
  TRITIUM_TRY(add_defaults(files.root / "tritium.json", out));
  find_companions(files.text_encoder.file.folder, files.root, out);
  if (const fs::path index = files.root / "model_index.json"; fs::is_regular_file(index, ignored)) out.descriptions.push_back(index);
  return out;
}

fs::path comfy_path(PartKind kind, const ConvertModel& model, const TargetFormat& format, Container container) {
  constexpr std::array<const char*, 4> kFolders = {"diffusion_models", "text_encoders", "vae", "vae"};
  constexpr std::array<const char*, 4> kSuffixes = {"", "_text_encoder", "_video_vae", "_audio_vae"};
  const auto i = static_cast<std::size_t>(kind);
  std::string form = format.name;
  std::replace(form.begin(), form.end(), '-', '_');
  return fs::path(kFolders[i]) /
         fmt::format("{}{}_{}{}", model.name, kSuffixes[i], form, container == Container::gguf ? ".gguf" : ".safetensors");
}

Result<void> copy_companions(const ConvertModel& model, const fs::path& folder) {
  std::error_code code;
  const auto copy = [&](const fs::path& from, const fs::path& to) -> Result<void> {
    TRITIUM_TRY_ASSIGN(const std::string text, read_file(from));
    fs::create_directories(to.parent_path(), code);
    return write_file_atomically(to, text);
  };
  if (!model.tokenizer.empty())
    for (const fs::directory_entry& entry : fs::directory_iterator(model.tokenizer, code))
      if (entry.is_regular_file(code) && (entry.path().extension() == ".json" || entry.path().extension() == ".txt"))
        TRITIUM_TRY(copy(entry.path(), folder / "tokenizer" / entry.path().filename()));
  for (const fs::path& file : model.processors) TRITIUM_TRY(copy(file, folder / "tokenizer" / file.filename()));
  for (const fs::path& file : model.descriptions) {
    if (file.filename() != "model_index.json") {
      TRITIUM_TRY(copy(file, folder / file.filename()));
      continue;
    }
    TRITIUM_TRY_ASSIGN(const std::string text, schedule_of(file));
    if (!text.empty()) TRITIUM_TRY(write_file_atomically(folder / file.filename(), text));
  }
  return {};
}

}  // namespace tritium
