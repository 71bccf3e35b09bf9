#include "cli/common.h"
#include "cli/fetch_progress.h"

#include "base/try.h"
#include "fetch/verify.h"

#include <fmt/format.h>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace {

struct VerifyCommand {
  std::string path, manifest, progress = "auto";
  bool full = false, json = false;
};

void print(const fetch::VerifyReport& report, bool full, bool json) {
  if (!json) {
    for (const fetch::VerifiedFile& file : report.files)
      std::printf("%s\n", (file.reason.empty() ? "ok   " + file.path : fmt::format("bad  {}: {}", file.path, file.reason)).c_str());
    return;
  }
  nlohmann::ordered_json out{{"ok", report.bad() == 0}, {"folder", report.folder.string()}, {"manifest", report.manifest}, {"full", full}};
  out["files"] = nlohmann::ordered_json::array();
  for (const fetch::VerifiedFile& file : report.files) {
    nlohmann::ordered_json one{{"path", file.path}, {"ok", file.reason.empty()}, {"bytes", file.bytes}};
    if (!file.reason.empty()) one["reason"] = file.reason;
    out["files"].push_back(std::move(one));
  }
  std::printf("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

Result<int> run(const VerifyCommand& o) {
  fetch::VerifyOptions options{o.path, {}, o.full};
  if (!o.manifest.empty()) {
    if (const fetch::Manifest* builtin = fetch::builtin_manifest(o.manifest)) {
      options.manifest = *builtin;
    } else {
      TRITIUM_TRY_ASSIGN(options.manifest, fetch::read_manifest(o.manifest));
    }
  }
  FetchPrinter printer(progress_style(o.progress));
  const fetch::FetchHooks hooks{[&](const fetch::FetchProgress& p) { printer(p); }, [&](const std::string& text) { printer.notice(text); }};
  const auto report = fetch::verify(options, hooks, &interrupt_token());
  printer.finish();
  if (!report.ok()) return report.error();
  print(*report, o.full, o.json);
  if (report->bad() == 0) return 0;
  return Error{ErrorCode::model, fmt::format("{} of {} files are bad", report->bad(), report->files.size()), "", ""};
}

}  // namespace

Runner add_verify(CLI::App& app) {
  auto o = std::make_shared<VerifyCommand>();
  app.add_option("path", o->path, "A folder, a weight file or an index")->required()->check(not_empty());
  app.add_option("--manifest", o->manifest, "Compare with a built-in set or a MANIFEST.json; the folder's own when absent")
      ->check(not_empty());
  app.add_flag("--full", o->full, "Also compute hashes and look at every value");
  app.add_option("--progress", o->progress, "auto, bar, lines, json or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}));
  app.add_flag("--json", o->json, "Print the result as JSON");
  return [o] {
    const auto status = run(*o);
    return status.ok() ? *status : fail(status.error());
  };
}

}  // namespace tritium::cli
