#include "pipeline/memory_table.h"

#include "base/try.h"
#include "pipeline/memory_budget.h"

#include <fmt/format.h>
#include <array>
#include <charconv>
#include <cmath>

namespace tritium {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kTableHostGib = 128;
constexpr int kTableSteps = 50, kTableTokens = 300, kTableCores = 16, kMostDevices = 64;
constexpr std::array<const char*, 5> kTablePresets = {"bf16", "int8", "int8-pruned", "w4a8-pruned", "q4_k"};
constexpr std::array<std::array<int, 3>, 3> kTableSizes = {{{832, 480, 124}, {1344, 768, 124}, {1344, 768, 362}}};
constexpr std::array<const char*, 7> kTableDevices = {"8", "12", "24", "48", "64", "2x64", "4x22"};
constexpr std::array<const char*, 5> kTableHosts = {"cpu:16", "cpu:32", "cpu:64", "cpu:128", "cpu:256"};

bool parse_number(const std::string& text, double most, double& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0 && value <= most;
}

std::uint64_t bytes_of(double gib) { return memory_budget(static_cast<std::uint64_t>(gib * kGib), std::nullopt); }

std::string gib(std::uint64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / kGib); }

// "50 of 50 · 24.1 · 30": blocks kept, the highest peak of a device, seconds per step.
std::string cell(const ModelShape& model, const RequestShape& request, const Machine& machine) {
  MemoryPlan plan;
  if (const auto shortage = try_plan(model, request, machine, {}, plan)) return fmt::format("no: {}", gib(shortage->need));
  const StagePlan& denoise = *plan.stage("denoise");
  int kept = 0, blocks = 0;
  for (const DeviceShare& share : denoise.shares) {
    kept += share.resident_blocks;
    blocks += share.blocks;
  }
  std::uint64_t peak = 0;
  for (const MemoryPeak& memory : plan.memories)
    if (memory.name != "host" || plan.memories.size() == 1) peak = std::max(peak, memory.peak_bytes);
  const double step = denoise.seconds / denoise.passes;
  std::string where = kept == blocks ? "all" : fmt::format("{}/{}", kept, blocks);
  if (denoise.shares.size() > 1) where += fmt::format(" on {}", denoise.shares.size());
  return fmt::format("{}, {}, {}", where, gib(peak), step >= 100 ? fmt::format("{:.0f} s", step) : fmt::format("{:.1f} s", step));
}

std::string table(std::span<const char* const> machines, MatrixForm form) {
  std::string out;
  for (const auto& [width, height, frames] : kTableSizes) {
    out += fmt::format("\n### {}x{}, {} frames\n\n| weights |", width, height, frames);
    for (const char* name : machines) out += fmt::format(" {} GiB |", std::string_view(name).substr(std::string_view(name).find(':') + 1));
    out += "\n|---|";
    for (std::size_t i = 0; i < machines.size(); ++i) out += "---|";
    out += "\n";
    for (const char* name : kTablePresets) {
      const ModelPreset& preset = *find_preset(name);
      const ModelShape model = released_model_shape(preset, form);
      out += fmt::format("| {} |", preset.title);
      for (const char* text : machines)
        out += fmt::format(" {} |", cell(model, {width, height, frames, kTableSteps, kTableTokens, 0, 0, 0, false},
                                         parse_machine(text, kTableHostGib).value()));
      out += "\n";
    }
  }
  return out;
}

std::string sizes_table() {
  std::string out =
      "\n| `--model-preset` | transformer | one block | text encoder | one layer | transformer on a device |\n|---|---|---|---|---|---|\n";
  for (const ModelPreset& preset : model_presets()) {
    const ModelShape packed = released_model_shape(preset, MatrixForm::packed), blocks = released_model_shape(preset, MatrixForm::blocks);
    const auto gb = [](std::uint64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) * 1e-9); };
    out += fmt::format("| `{}` | {} {} | {} | {} {} | {} | {} |\n", preset.name, preset.dit,
                       gb(packed.dit.total().file + packed.dit.unread), gb(packed.dit.units.front().file), preset.text,
                       gb(packed.text.total().file), gb(packed.text.units.front().file), gb(blocks.dit.total().resident));
  }
  return out;
}

}  // namespace

Result<Machine> parse_machine(const std::string& text, double host_gib) {
  const auto wrong = [&] {
    return Error{ErrorCode::usage, fmt::format("'{}' is not a list of devices", text), "devices",
                 "write GiB per device: 24, 2x64, '64,24', or cpu:64 for a computer without any"};
  };
  Machine out;
  out.disk_bandwidth = kAssumedDiskBandwidth;
  out.host_budget = bytes_of(host_gib);
  double value = 0;
  if (text.starts_with("cpu:")) {
    if (!parse_number(text.substr(4), 1e6, value)) return wrong();
    out.host_budget = bytes_of(value);
    out.devices.push_back({"CPU", 0, true, kTableCores * kAssumedCoreFlops, 0});
    return out;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t times = item.find('x');
    double count = 1;
    if (times != std::string::npos && (!parse_number(item.substr(0, times), kMostDevices, count) || count != std::floor(count)))
      return wrong();
    if (!parse_number(times == std::string::npos ? item : item.substr(times + 1), 1e6, value)) return wrong();
    for (int i = 0; i < static_cast<int>(count); ++i)
      out.devices.push_back({fmt::format("GPU{}", out.devices.size()), bytes_of(value), false, kAssumedDeviceFlops, kAssumedHostBandwidth});
    if (out.devices.size() > kMostDevices) return wrong();
  }
  return out;
}

std::string memory_table() {
  std::string out = fmt::format(
      R"(# What fits where

Printed by `tritium plan --table`; a test compares this page with what the program prints. The planner (`src/pipeline/memory_plan.h`) knows
the released model's tensors and how the engine computes; no weight is read for it.

Each cell: how many of the 50 transformer blocks stay on the device or devices (`all`, or how many; the rest is streamed), the highest peak
of one device in GiB, and seconds per step. `on 2`: the transformer is split by layers over two devices. `no: N`: refused, because one
stage needs N GiB on one device even with one block at a time. Text prompts of {} tokens, {} steps; of every device or host a twentieth, at
least 256 MiB, stays free. Text encoder, transformer and decoders take turns: what is loaded leaves when the next needs the room.

Times are assumptions, not measurements: {:.0f} TFLOP/s and {:.0f} GB/s from host memory per device, {} CPU cores of {:.0f} GFLOP/s, {:.0f} GB/s
from the disk. They show what streaming costs, not how fast your machine is.

## Devices of their own memory

{:.0f} GiB of host memory beside them. Codes that ggml has no blocks for are kept in 8 bits there (NF4, W4A8), 8-bit floats in bf16.
)",
      kTableTokens, kTableSteps, kAssumedDeviceFlops * 1e-12, kAssumedHostBandwidth * 1e-9, kTableCores, kAssumedCoreFlops * 1e-9,
      kAssumedDiskBandwidth * 1e-9, kTableHostGib);
  out += table(kTableDevices, MatrixForm::blocks);
  out += "\n## The CPU alone\n\nMatrices keep the file's size. What does not fit is read from the disk again in every step.\n";
  out += table(kTableHosts, MatrixForm::packed);
  out += "\n## Weights\n\nIn the file (GB = 10^9 bytes) and, for the transformer, in ggml's blocks on a device that is not the CPU.\n";
  out += sizes_table();
  return out;
}

}  // namespace tritium
