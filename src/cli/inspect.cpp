#include "cli/common.h"
#include "pipeline/model_json.h"

#include <cstdio>

namespace tritium::cli {

Runner add_inspect(CLI::App& app) {
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  app.add_option("path", options->path, "A model folder, a weight file or an index; the bundled demo model when absent");
  app.add_flag("--json", options->json, "Print as JSON");
  return [options] {
    const std::filesystem::path path = options->path.empty() ? demo_model() : std::filesystem::path(options->path);
    const auto print = [&](const std::string& text, const std::string& json) {
      std::fputs(((options->json ? json : text) + (options->json ? "\n" : "")).c_str(), stdout);
      return 0;
    };
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      const auto model = open_model(path);
      if (!model.ok()) return fail(model.error());
      return print(describe_model_text(*model), describe_model_json(*model));
    }
    const auto file = describe_file(path);
    if (!file.ok()) return fail(file.error());
    return print(file->text, file->json);
  };
}

}  // namespace tritium::cli
