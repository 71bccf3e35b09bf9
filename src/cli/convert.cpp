#include "cli/common.h"
#include "cli/convert_report.h"
#include "cli/progress_bar.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "pipeline/compare.h"
#include "pipeline/convert_model.h"
#include "weights/convert/lora_merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>

namespace tritium::cli {
namespace fs = std::filesystem;
namespace {

struct ConvertCommand {
  std::string source, target, format, dialect, report, progress = "auto", partition, qkv_order, base;
  std::vector<std::string> parts, loras, keep;
  std::optional<std::int64_t> prune;
  std::optional<double> lora_alpha;
  int threads = 0;
  bool overwrite = false, compare = false, json = false, force = false;
};

Error usage(std::string field, std::string what, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(what), std::move(field), std::move(hint)};
}

Result<TargetFormat> format_named(const std::string& name, const char* field) {
  if (const auto format = target_format(name)) return *format;
  return usage(field, fmt::format("'{}' is no format", name), fmt::format("one of {}", fmt::join(target_format_names(), ", ")));
}

std::string lower_suffix(const fs::path& path) {
  std::string out = path.extension().string();
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "FILE" or "FILE:STRENGTH".
Result<MergedLora> parse_lora(const std::string& text, std::optional<double> alpha) {
  MergedLora out{text, 1, alpha};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return out;
  double strength = 0;
  const auto [end, code] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), strength);
  if (code != std::errc() || end != text.data() + text.size()) return out;  // a colon of the name
  if (!(std::abs(strength) <= 1000)) return usage("lora", fmt::format("the strength {} is not from -1000 to 1000", strength));
  out.path = text.substr(0, colon);
  out.strength = strength;
  return out;
}

// Names of files of other kinds: none of them is meant as a folder, and none can be written.
Result<void> check_suffix(const std::string& target) {
  constexpr std::array<std::string_view, 12> kOther = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".onnx",
                                                       ".npz", ".h5", ".zip", ".tar",  ".gz",  ".7z"};
  const std::string suffix = lower_suffix(target);
  if (std::find(kOther.begin(), kOther.end(), suffix) == kOther.end()) return {};
  return usage("target", fmt::format("'{}': {} files are not written", target, suffix),
               "end the name with .safetensors or .gguf for a file; anything else is a folder");
}

// A folder that is converted must not grow by what is written.
Result<void> check_apart(const fs::path& source, const fs::path& target) {
  std::error_code code;
  if (!fs::is_directory(source, code)) return {};
  const auto canonical = [&](const fs::path& path) {
    const fs::path out = fs::weakly_canonical(fs::absolute(path, code), code);
    return out.has_filename() ? out : out.parent_path();  // "x/", where there is no x yet
  };
  const fs::path from = canonical(source), to = canonical(target);
  if (std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first != from.end()) return {};
  return usage("target", fmt::format("'{}' is the source folder '{}' or lies inside it", target.string(), source.string()),
               "name a folder beside it");
}

struct Wishes {
  std::vector<PartKind> parts;  // empty: all
  TargetFormat format;
  std::vector<KeepRule> keep;
  std::vector<MergedLora> loras;
  bool to_folder = false;
};

Result<Wishes> read_wishes(const ConvertCommand& o) {
  Wishes out;
  if (o.format.empty() && !o.prune && o.loras.empty())
    return usage("to", "nothing to do: no format, no --prune, no --lora", fmt::format("--to {}", fmt::join(target_format_names(), "|")));
  TRITIUM_TRY_ASSIGN(out.format, format_named(o.format.empty() ? "keep" : o.format, "to"));
  TRITIUM_TRY(check_suffix(o.target));
  const std::string suffix = lower_suffix(o.target);
  out.to_folder = suffix != ".safetensors" && suffix != ".gguf";
  if (out.to_folder) TRITIUM_TRY(check_apart(o.source, o.target));
  bool all = o.parts.empty() && out.to_folder;
  for (const std::string& name : o.parts) {
    all |= name == "all";
    if (const auto kind = part_kind_from_name(name)) out.parts.push_back(*kind);
  }
  if (all) out.parts.clear();
  if (all && !out.to_folder) return usage("target", fmt::format("'{}' is one file, there are several parts", o.target), "name a folder");
  if (out.parts.size() > 1 && !out.to_folder)
    return usage("target", fmt::format("'{}' is one file, {} parts are asked for", o.target, out.parts.size()), "name a folder");
  for (const std::string& rule : o.keep) {
    const std::size_t at = rule.rfind('=');
    if (at == std::string::npos || at == 0)
      return usage("keep", fmt::format("'{}' is not GLOB=FORMAT", rule), "such as --keep 'blocks.0.*=bf16'");
    TRITIUM_TRY_ASSIGN(TargetFormat format, format_named(rule.substr(at + 1), "keep"));
    out.keep.push_back({rule.substr(0, at), std::move(format)});
  }
  for (const std::string& text : o.loras) {
    TRITIUM_TRY_ASSIGN(MergedLora lora, parse_lora(text, o.lora_alpha));
    out.loras.push_back(std::move(lora));
  }
  return out;
}

class Converter {
 public:
  Converter(const ConvertCommand& command, Wishes wishes)
      : o_(command),
        w_(std::move(wishes)),
        style_(o_.json && o_.progress == "auto" ? ProgressStyle::none : progress_style(o_.progress)),
        printer_(style_) {}

  Result<void> run() {
    TRITIUM_TRY_ASSIGN(const ModelSelection selection, parse_model_selection(o_.partition, o_.qkv_order));
    // One file of a model folder is the transformer unless another part is named.
    std::error_code ignored;
    const bool folder = fs::is_directory(o_.source, ignored);
    TRITIUM_TRY_ASSIGN(model_, open_convert_model(o_.source, w_.parts, selection));
    if (!w_.to_folder && model_.parts.size() > 1 && folder)
      std::erase_if(model_.parts, [](const ConvertSource& part) { return part.kind != PartKind::dit; });
    for (const std::string& note : model_.notes) say(note);
    if (model_.name.empty()) model_.name = fs::path(o_.source).stem().string();
    if (w_.to_folder) TRITIUM_TRY(make_folder(o_.target));
    const bool has_dit =
        std::any_of(model_.parts.begin(), model_.parts.end(), [](const ConvertSource& p) { return p.kind == PartKind::dit; });
    if (!has_dit && (o_.prune || !w_.loras.empty()))
      return usage(o_.prune ? "prune" : "lora", "only a transformer can be pruned or take a LoRA, and none is converted", "");
    note_idle_rules();
    for (const ConvertSource& part : model_.parts) TRITIUM_TRY(convert(part));
    if (w_.to_folder && model_.whole) TRITIUM_TRY(copy_companions(model_, o_.target));
    if (o_.compare) TRITIUM_TRY(compare());
    return print();
  }

 private:
  void say(const std::string& text) {
    printer_.finish();
    std::fprintf(stderr, "%s\n", text.c_str());
  }

  static Result<void> make_folder(const fs::path& folder) {
    std::error_code code;
    fs::create_directories(folder, code);
    if (code)
      return Error{ErrorCode::failure, fmt::format("cannot make the folder '{}': {}", folder.string(), code.message()), "target", ""};
    return {};
  }

  // Asked for by name, a VAE gets the format; as one of all parts it stays as it is: few bytes, and every pixel passes through it.
  [[nodiscard]] TargetFormat format_of(const ConvertSource& part) const {
    const bool vae = part.kind == PartKind::video_vae || part.kind == PartKind::audio_vae;
    return vae && w_.parts.empty() && model_.whole ? *target_format("keep") : w_.format;
  }

  void note_idle_rules() {
    for (const KeepRule& rule : w_.keep) {
      const auto matches = [&](const ConvertSource& part) {
        return std::any_of(part.names.begin(), part.names.end(), [&](const std::string& name) {
          return glob_matches(rule.glob, name) || glob_matches(rule.glob, comfy_name(part.kind, name));
        });
      };
      if (std::none_of(model_.parts.begin(), model_.parts.end(), matches))
        say(fmt::format("--keep '{}={}' matches no tensor", rule.glob, rule.format.name));
    }
  }

  Result<void> convert(const ConvertSource& part) {
    ConvertOptions options;
    options.format = format_of(part);
    fs::path target = o_.target;
    if (w_.to_folder) {
      options.container = options.format.block_type() ? Container::gguf : Container::safetensors;
      target /= comfy_path(part.kind, model_, options.format, options.container);
      TRITIUM_TRY(make_folder(target.parent_path()));
    } else {
      TRITIUM_TRY_ASSIGN(options.container, target_container(options.format, o_.target));
    }
    options.keep = w_.keep;
    options.threads = o_.threads > 0 ? o_.threads : usable_cpus();
    options.overwrite = o_.overwrite;
    options.version = version();
    std::unique_ptr<LoraDelta> delta;
    if (part.kind == PartKind::dit) {
      options.prune_rank = o_.prune.value_or(0);
      if (!w_.loras.empty()) {
        std::vector<std::string> notices;
        TRITIUM_TRY_ASSIGN(delta, LoraDelta::create(w_.loras, *part.part, notices, &interrupt_token(), o_.force));
        for (const std::string& notice : notices) say(notice);
        options.delta = delta.get();
      }
    }
    const double start = monotonic_seconds();
    ConvertHooks hooks;
    hooks.notice = [&](const std::string& text) { say(text); };
    hooks.progress = [&](const ConvertProgress& p) {
      const double fraction = p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 0,
                   passed = monotonic_seconds() - start;
      printer_({fmt::format("convert {}", part_kind_name(part.kind)), 0, 0, fraction, fraction > 0.01 ? passed / fraction - passed : -1});
    };
    TRITIUM_TRY_ASSIGN(ConvertReport report, convert_part(part, target, options, hooks, &interrupt_token()));
    printer_.finish();
    reports_.push_back({std::string(part_kind_name(part.kind)), options.format.name, std::move(report)});
    return {};
  }

  Result<void> compare() {
    if (!model_.whole) return usage("compare", "an end-to-end comparison needs a whole model as the source", "give the model's folder");
    EngineOptions reference, other;
    reference.model = other.model = o_.source;
    reference.threads = other.threads = o_.threads;
    if (w_.to_folder && w_.parts.empty()) {
      other.model = o_.target;
    } else {
      for (const PartReport& part : reports_) {
        fs::path& place = part.part == "dit"         ? other.dit
                          : part.part == "text"      ? other.text_encoder
                          : part.part == "video-vae" ? other.video_vae
                                                     : other.audio_vae;
        place = part.report.target;
      }
    }
    reference.partition = other.partition = o_.partition;
    TRITIUM_TRY_ASSIGN(const CompareRequest what, default_comparison(o_.source));
    const auto progress = [&](const Progress& p) { printer_(p); };
    TRITIUM_TRY_ASSIGN(compared_, compare_models(reference, other, what, progress, &interrupt_token()));
    printer_.finish();
    return {};
  }

  Result<void> print() {
    const std::string json = convert_report_json(o_.source, reports_, compared_);
    if (!o_.report.empty()) TRITIUM_TRY(write_file_atomically(o_.report, json + "\n"));
    std::fputs(o_.json ? (json + "\n").c_str() : convert_report_text(reports_, compared_).c_str(), stdout);
    return {};
  }

  const ConvertCommand& o_;
  Wishes w_;
  ProgressStyle style_;
  ProgressPrinter printer_;
  ConvertModel model_;
  std::vector<PartReport> reports_;
  std::vector<ComparedPrompt> compared_;
};

Result<void> convert_lora(const ConvertCommand& o) {
  const auto dialect = lora_dialect_from_name(o.dialect);
  if (!dialect) return usage("to-dialect", fmt::format("'{}' is no dialect", o.dialect), "one of diffusers, comfy, diffsynth, kohya, bare");
  if (!o.format.empty() || o.prune || !o.loras.empty())
    return usage("to-dialect", "it stands alone: a LoRA is rewritten, no model converted");
  TRITIUM_TRY(check_suffix(o.target));
  TRITIUM_TRY_ASSIGN(const auto file, LoraFile::open(o.source));
  std::vector<LoraTarget> targets = released_lora_targets();
  if (!o.base.empty()) {
    TRITIUM_TRY_ASSIGN(const ModelSelection selection, parse_model_selection(o.partition, o.qkv_order));
    TRITIUM_TRY_ASSIGN(const ConvertModel base, open_convert_model(o.base, {PartKind::dit}, selection));
    targets = lora_targets(*base.parts.front().part);
  }
  LoraMatchOptions options;
  options.alpha = o.lora_alpha;
  auto match = match_lora(file, std::move(targets), options);
  if (!match.ok()) {
    Error error = std::move(match).error();
    if (o.base.empty() && error.hint.empty()) error.hint = "if it is for another model than the released one, name that with --base";
    return error;
  }
  TRITIUM_TRY(drop_not_finite(*match, &interrupt_token()));
  for (const std::string& line : lora_report_lines(match->report, file->name(), 1)) std::fprintf(stderr, "%s\n", line.c_str());
  TRITIUM_TRY(write_lora(*match, *dialect, o.target, o.overwrite));
  std::printf("%s: %zu layers, %s\n", o.target.c_str(), match->adapters.size(), dialect_name(*dialect));
  return {};
}

}  // namespace

Runner add_convert(CLI::App& app) {
  auto o = std::make_shared<ConvertCommand>();
  app.add_option("source", o->source, "A model folder, a part's folder, a weight file, or a LoRA with --to-dialect")
      ->required()
      ->check(not_empty());
  app.add_option("target", o->target, "A .safetensors or .gguf file for one part; a folder for several")->required()->check(not_empty());
  app.add_option("--to", o->format, fmt::format("Format: {}; as it is when absent", fmt::join(target_format_names(), ", ")));
  app.add_option("--part", o->parts, "Which parts: dit, text, video-vae, audio-vae or all")
      ->check(CLI::IsMember({"dit", "text", "video-vae", "audio-vae", "all"}))
      ->delimiter(',');
  app.add_option("--prune", o->prune, "Replace the time embedding by a curve table of this rank; 8 when no number is given")
      ->expected(0, 1)
      ->default_str("8")
      ->check(between(1, 1024));
  app.add_option("--lora", o->loras, "Fold a LoRA into the transformer: FILE or FILE:STRENGTH; may be repeated");
  app.add_option("--lora-alpha", o->lora_alpha, "Alpha of the LoRAs in place of what their files say");
  app.add_flag("--force", o->force, "Merge what contradicts a LoRA's training: a second step-distilled one, one that is merged already");
  app.add_option("--keep", o->keep, "GLOB=FORMAT: tensors whose names match get this format; the first match counts");
  app.add_option("--to-dialect", o->dialect, "Rewrite a LoRA as diffusers, comfy, diffsynth, kohya or bare");
  app.add_option("--base", o->base, "With --to-dialect: the model it is for, if not the released one")->check(not_empty());
  app.add_option("--partition", o->partition, "Which model a folder with both is meant: fl2va or ref2va");
  app.add_option("--qkv-order", o->qkv_order, "Order of the attention rows where it cannot be told: interleaved or plain");
  app.add_option("--threads", o->threads, "CPU threads; 0 = all usable processors")->check(between(0, 4096))->envname("TRITIUM_THREADS");
  app.add_option("--report", o->report, "Write sizes and errors of every tensor to this JSON file")->check(not_empty());
  app.add_flag("--compare", o->compare, "Generate a short clip with source and target and report how far they differ");
  app.add_flag("--overwrite", o->overwrite, "Replace files that exist");
  app.add_flag("--json", o->json, "Print the report as JSON");
  app.add_option("--progress", o->progress, "auto, bar, lines, json or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}));
  return [o] {
    if (!o->dialect.empty()) {
      const Result<void> done = convert_lora(*o);
      return done.ok() ? 0 : fail(done.error());
    }
    auto wishes = read_wishes(*o);
    if (!wishes.ok()) return fail(wishes.error());
    const Result<void> done = Converter(*o, std::move(*wishes)).run();
    return done.ok() ? 0 : fail(done.error());
  };
}

}  // namespace tritium::cli
