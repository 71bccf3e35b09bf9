#include "base/system.h"
#include "cli/common.h"
#include "device/device.h"

#include <fmt/format.h>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {

Runner add_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print as JSON");
  return [json] {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DeviceInfo& d : list_devices()) {
      list.push_back({{"name", d.name},
                      {"kind", d.kind},
                      {"description", d.description},
                      {"memory_total", d.memory_total},
                      {"memory_free", d.memory_free}});
      if (!*json)
        std::printf("%s\n", fmt::format("{:<10} {:<15} {} free of {}  {}", d.name, d.kind, format_bytes(d.memory_free),
                                        format_bytes(d.memory_total), d.description)
                                .c_str());
    }
    if (*json) std::printf("%s\n", list.dump(2).c_str());
    if (!list.empty()) return 0;
    return fail({ErrorCode::device, "no compute device was found", "", "install the ggml package with its CPU backend"});
  };
}

}  // namespace tritium::cli
