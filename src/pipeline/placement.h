// Which device runs which stage, as the user writes it.
#pragma once

#include <tritium/result.h>

#include <map>
#include <string>
#include <vector>

namespace tritium {

struct DeviceChoice {
  std::string name;  // as in list_devices(), or an endpoint that Device::open() accepts
  double share = 0;  // of the blocks, against those of the others; 0: by the memory each has
};

// Stages that are not named run where the planner finds it best among `any`.
struct Placement {
  std::vector<DeviceChoice> any;                            // without stage: the devices there are to choose from; empty: all
  std::map<std::string, std::vector<DeviceChoice>> stages;  // "text", "dit", "vae"

  // All devices named, each once.
  [[nodiscard]] std::vector<std::string> devices() const;
  // For a stage of the plan ("inputs", "text", "denoise", "video", "audio"); null: free choice.
  [[nodiscard]] const std::vector<DeviceChoice>* of_stage(const std::string& stage) const;
};

// "DEV", "DEV1+DEV2" (to choose from, or to split over), "text=DEV,dit=DEV1*60+DEV2*40,vae=DEV". Errors (usage, field device): an unknown
// stage, one named twice, more than one device for a stage that cannot be split, a share that is not a positive number.
Result<Placement> parse_placement(const std::string& text);

}  // namespace tritium
