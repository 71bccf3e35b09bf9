#include "cli/common.h"

#include <cstdio>

namespace tritium::cli {

Runner add_plan(CLI::App& app) {
  struct Options {
    ModelOptions model;
    RequestOptions request;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model);
  add_request_options(app, options->request);
  app.add_flag("--json", options->json, "Print the plan as JSON");
  return [options] {
    const auto request = read_request(options->request);
    if (!request.ok()) return fail(request.error());
    const auto engine = open_engine(options->model, options->json, !request->references.empty());
    if (!engine.ok()) return fail(engine.error());
    const auto plan = (*engine)->plan(*request);
    if (!plan.ok()) return fail(plan.error());
    std::printf("%s\n", options->json ? plan_json(*plan).c_str() : plan_text(*plan).c_str());
    return 0;
  };
}

}  // namespace tritium::cli
