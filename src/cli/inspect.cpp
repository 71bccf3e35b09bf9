#include "cli/common.h"
#include "pipeline/model_json.h"

#include <cstdio>

namespace tritium::cli {
namespace {

namespace fs = std::filesystem;

void print(const FileDescription& description, bool json) {
  std::fputs((json ? description.json + "\n" : description.text).c_str(), stdout);
}

// A folder with the weights of one part in it, and no other part below.
bool is_part_folder(const ModelFolder& folder) {
  return folder.candidates.size() == 1 && folder.unusable.empty() &&
         fs::weakly_canonical(folder.candidates.front().folder) == fs::weakly_canonical(folder.root);
}

Result<ModelSelection> selection_of(const ModelOptions& o) {
  auto out = parse_model_selection(o.partition, o.qkv_order);
  if (!out.ok()) return out;
  out->dit = o.dit;
  out->text_encoder = o.text_encoder;
  out->video_vae = o.video_vae;
  out->audio_vae = o.audio_vae;
  out->tokenizer = o.tokenizer;
  return out;
}

int inspect(const ModelOptions& options, const fs::path& path, bool json) {
  const auto selection = selection_of(options);
  if (!selection.ok()) return fail(selection.error());
  std::error_code ignored;
  const bool parts_named =
      !options.dit.empty() || !options.text_encoder.empty() || !options.video_vae.empty() || !options.audio_vae.empty();
  if (!parts_named && (!fs::exists(path, ignored) || !fs::is_directory(path, ignored))) {
    const auto file = describe_file(path, selection->qkv_order);
    if (!file.ok()) return fail(file.error());
    print(*file, json);
    return 0;
  }
  if (!parts_named) {
    const auto folder = scan_model_folder(path, selection->qkv_order);
    if (!folder.ok()) return fail(folder.error());
    if (is_part_folder(*folder)) {
      const auto file = describe_file(folder->candidates.front().path, selection->qkv_order);
      if (!file.ok()) return fail(file.error());
      print(*file, json);
      return 0;
    }
  }
  const auto model = open_model(path, *selection);
  if (model.ok()) {
    print({describe_model_text(*model), describe_model_json(*model)}, json);
    return 0;
  }
  // What is there is said even if it is not enough.
  if (const auto folder = scan_model_folder(path, selection->qkv_order); folder.ok() && !folder->candidates.empty())
    print(describe_folder(*folder), json);
  return fail(model.error());
}

}  // namespace

Runner add_inspect(CLI::App& app) {
  struct Options {
    ModelOptions model;
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  add_model_files_options(app, options->model);
  app.add_option("path", options->path, "A model folder, a part of one, a weight file or an index; instead of -m")->check(not_empty());
  app.add_flag("--json", options->json, "Print as JSON");
  return [options] {
    const fs::path named = options->path.empty() ? options->model.model : options->path;
    return inspect(options->model, named.empty() && options->model.dit.empty() ? demo_model() : named, options->json);
  };
}

}  // namespace tritium::cli
