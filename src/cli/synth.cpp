// For developers: models of any dimensions with random weights. Not in the main help, see CONTRIBUTING.md.
#include "cli/common.h"
#include "cli/progress_bar.h"

#include "base/system.h"
#include "base/try.h"
#include "pipeline/synth_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <cstdio>

namespace tritium::cli {
namespace {

struct SynthCommand {
  std::string target, format = "bf16", progress = "auto";
  std::vector<std::string> parts, set;
  std::optional<std::int64_t> layers, refiner_layers, text_layers, hidden, heads, ffn, prune;
  SynthModelOptions model;
};

Error usage(std::string field, std::string what, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(what), std::move(field), std::move(hint)};
}

Result<SynthModelOptions> read_options(const SynthCommand& o) {
  SynthModelOptions out = o.model;
  const auto format = target_format(o.format);
  if (!format || format->encoding == Encoding::keep)
    return usage("format", fmt::format("'{}' is no format", o.format), fmt::format("one of {}", fmt::join(target_format_names(), ", ")));
  out.format = *format;
  out.demo = demo_model();
  out.prune_rank = o.prune.value_or(0);
  if (out.threads == 0) out.threads = usable_cpus();
  for (const std::string& name : o.parts)
    if (const auto kind = part_kind_from_name(name)) out.parts.push_back(*kind);
  for (const auto& [key, value] : {std::pair("dit.num_layers", o.layers),
                                   {"dit.token_refiner_num_layers", o.refiner_layers},
                                   {"dit.hidden_size", o.hidden},
                                   {"dit.num_attention_heads", o.heads},
                                   {"dit.ffn_hidden_size", o.ffn},
                                   {"text.text_config.num_hidden_layers", o.text_layers}})
    if (value) out.set[key] = fmt::format("{}", *value);
  for (const std::string& entry : o.set) {
    const std::size_t at = entry.find('=');
    if (at == std::string::npos || at == 0) return usage("set", fmt::format("'{}' is not KEY=VALUE", entry), "--set dit.num_layers=12");
    out.set[entry.substr(0, at)] = entry.substr(at + 1);
  }
  return out;
}

Result<void> run(const SynthCommand& o) {
  TRITIUM_TRY_ASSIGN(const SynthModelOptions options, read_options(o));
  ProgressPrinter printer(progress_style(o.progress));
  const auto progress = [&](PartKind kind, std::uint64_t done, std::uint64_t total) {
    printer({fmt::format("synth {}", part_kind_name(kind)), 0, 0, static_cast<double>(done) / static_cast<double>(total), -1});
  };
  const double start = monotonic_seconds();
  TRITIUM_TRY_ASSIGN(const std::vector<SynthFile> files, write_synthetic_model(o.target, options, progress, &interrupt_token()));
  printer.finish();
  for (const SynthFile& file : files) std::printf("%s: %s\n", file.path.c_str(), format_bytes(file.bytes).c_str());
  std::fprintf(stderr, "%.1f s, peak memory %s\n", monotonic_seconds() - start, format_bytes(peak_resident_bytes()).c_str());
  return {};
}

}  // namespace

Runner add_synth(CLI::App& app) {
  auto o = std::make_shared<SynthCommand>();
  app.add_option("target", o->target, "Folder of the model")->required();
  app.add_option("--preset", o->model.preset, "Dimensions to begin with: released, demo or tiny")
      ->check(CLI::IsMember({"released", "demo", "tiny"}));
  app.add_option("--part", o->parts, "Which parts: dit, text, video-vae, audio-vae; all when absent")
      ->check(CLI::IsMember({"dit", "text", "video-vae", "audio-vae"}))
      ->delimiter(',');
  app.add_option("--format", o->format, fmt::format("Format: {}", fmt::join(target_format_names(), ", ")));
  app.add_option("--pruned", o->prune, "A curve table of this rank in place of the time embedding; 8 when no number is given")
      ->expected(0, 1)
      ->default_str("8")
      ->check(between(1, 1024));
  app.add_option("--layers", o->layers, "Blocks of the transformer");
  app.add_option("--refiner-layers", o->refiner_layers, "Blocks of its token refiner");
  app.add_option("--hidden", o->hidden, "Width of the transformer");
  app.add_option("--heads", o->heads, "Its attention heads");
  app.add_option("--ffn", o->ffn, "Inner width of its feed-forward layers");
  app.add_option("--text-layers", o->text_layers, "Layers of the text encoder");
  app.add_option("--vocabulary", o->model.vocabulary, "Tokens of the text encoder; below 100000 with the demo model's tokenizer")
      ->check(between(0, 1 << 24));
  app.add_option("--set", o->set, "PART.KEY=JSON: any key of a configuration, e.g. text.text_config.hidden_size=256; may be repeated");
  app.add_option("--seed", o->model.seed, "Same seed, same bytes");
  app.add_option("--threads", o->model.threads, "CPU threads; 0 = all usable processors")
      ->default_val(0)
      ->check(between(0, 4096))
      ->envname("TRITIUM_THREADS");
  app.add_flag("--overwrite", o->model.overwrite, "Replace files that exist");
  app.add_option("--progress", o->progress, "auto, bar, lines, json or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}));
  return [o] {
    const Result<void> done = run(*o);
    return done.ok() ? 0 : fail(done.error());
  };
}

}  // namespace tritium::cli
