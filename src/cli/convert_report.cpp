#include "cli/convert_report.h"

#include "base/system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tritium::cli {
namespace {

using nlohmann::ordered_json;

struct Row {
  std::string group;
  int tensors = 0;
  std::set<std::string> before, after;
  std::uint64_t bytes_before = 0, bytes_after = 0;
  double mean = 0, largest = 0;
};

std::vector<Row> rows_of(const ConvertReport& report) {
  std::map<std::string, Row> rows;
  for (const ConvertedTensor& tensor : report.tensors) {
    const std::string group = layer_group(tensor.target);
    Row& row = rows[group];
    row.group = group;
    ++row.tensors;
    row.before.insert(tensor.source_format.empty() ? "computed" : tensor.source_format);
    row.after.insert(tensor.format);
    row.bytes_before += tensor.bytes_before;
    row.bytes_after += tensor.bytes_after;
    row.mean += tensor.error;
    row.largest = std::max(row.largest, tensor.error);
  }
  std::vector<Row> out;
  for (auto& [group, row] : rows) {
    row.mean /= row.tensors;
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.bytes_before > b.bytes_before; });
  return out;
}

// A number that JSON can hold: equal pictures have an infinite ratio.
ordered_json finite(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); }

void add_rows(std::string& out, const std::vector<Row>& rows) {
  constexpr std::uint64_t kShown = 64 << 10;  // of a group: what is smaller is summed up, unless its error says more
  Row rest{"(small tensors)", 0, {}, {}, 0, 0, 0, 0};
  const std::uint64_t limit = rows.empty() ? 0 : std::min(kShown, rows.front().bytes_before / 100);
  const auto line = [&](const Row& row) {
    out += fmt::format("  {:<44}{:>5}  {:<22}{:>12} -> {:<12}{}\n", row.group, row.tensors,
                       fmt::format("{} -> {}", fmt::join(row.before, ","), fmt::join(row.after, ",")), format_bytes(row.bytes_before),
                       format_bytes(row.bytes_after), row.largest > 0 ? fmt::format("{:.3e}  {:.3e}", row.mean, row.largest) : "exact");
  };
  for (const Row& row : rows) {
    if (row.bytes_before >= limit || row.largest > 0) {
      line(row);
      continue;
    }
    rest.tensors += row.tensors;
    rest.bytes_before += row.bytes_before;
    rest.bytes_after += row.bytes_after;
    rest.before.insert(row.before.begin(), row.before.end());
    rest.after.insert(row.after.begin(), row.after.end());
  }
  if (rest.tensors > 0) line(rest);
}

}  // namespace

std::string convert_report_text(const std::vector<PartReport>& parts, const std::vector<ComparedPrompt>& compared) {
  std::string out;
  for (const PartReport& part : parts) {
    const ConvertReport& r = part.report;
    std::uint64_t before = 0;
    for (const ConvertedTensor& tensor : r.tensors) before += tensor.bytes_before;
    out += fmt::format("{} as {}: {} -> {}  {}\n", part.part, part.format, format_bytes(before), format_bytes(r.bytes), r.target.string());
    out += fmt::format("  {:<44}{:>5}  {:<22}{:>12}    {:<12}{}\n", "layers", "", "types", "bytes", "", "error: mean, largest");
    add_rows(out, rows_of(r));
    if (r.curve)
      out += fmt::format("  curve table of rank {}: relative error {:.2e} at its {} points, {:.2e} between them\n", r.curve->rank,
                         r.curve->error_at_points, r.curve->points, r.curve->error_between);
    std::map<std::string, std::pair<int, std::string>> reasons;
    for (const ConvertedTensor& tensor : r.tensors)
      if (!tensor.reason.empty()) {
        auto& [count, format] = reasons[tensor.reason];
        ++count;
        format = tensor.format;
      }
    for (const auto& [reason, what] : reasons) out += fmt::format("  {} tensors as {}: {}\n", what.first, what.second, reason);
  }
  for (const ComparedPrompt& c : compared)
    out += fmt::format(
        "generated with both: latents differ by {:.3e} (video) and {:.3e} (audio), pictures by {:.1f} dB PSNR (worst frame {:.1f})\n",
        c.video_error, c.audio_error, c.frame_psnr, c.worst_frame_psnr);
  return out;
}

std::string convert_report_json(const std::string& source, const std::vector<PartReport>& parts,
                                const std::vector<ComparedPrompt>& compared) {
  ordered_json all{{"source", source}, {"parts", ordered_json::array()}};
  for (const PartReport& part : parts) {
    const ConvertReport& r = part.report;
    ordered_json one{
        {"part", part.part}, {"format", part.format}, {"file", r.target.string()}, {"bytes", r.bytes}, {"resumed_tensors", r.resumed}};
    if (r.curve)
      one["prune"] = {{"rank", r.curve->rank},
                      {"points", r.curve->points},
                      {"error_at_points", r.curve->error_at_points},
                      {"error_between", r.curve->error_between},
                      {"singular_values", r.curve->singular_values}};
    one["groups"] = ordered_json::object();
    for (const Row& row : rows_of(r))
      one["groups"][row.group] = {{"tensors", row.tensors},           {"before", row.before},           {"after", row.after},
                                  {"bytes_before", row.bytes_before}, {"bytes_after", row.bytes_after}, {"mean_error", row.mean},
                                  {"largest_error", row.largest}};
    one["tensors"] = ordered_json::array();
    for (const ConvertedTensor& tensor : r.tensors) {
      ordered_json entry{{"name", tensor.target},
                         {"before", tensor.source_format},
                         {"after", tensor.format},
                         {"bytes_before", tensor.bytes_before},
                         {"bytes_after", tensor.bytes_after},
                         {"error", tensor.error}};
      if (!tensor.reason.empty()) entry["reason"] = tensor.reason;
      one["tensors"].push_back(std::move(entry));
    }
    all["parts"].push_back(std::move(one));
  }
  if (!compared.empty()) {
    all["compare"] = ordered_json::array();
    for (const ComparedPrompt& c : compared)
      all["compare"].push_back({{"prompt", c.prompt},
                                {"video_latent_error", finite(c.video_error)},
                                {"audio_latent_error", finite(c.audio_error)},
                                {"frame_psnr_db", finite(c.frame_psnr)},
                                {"worst_frame_psnr_db", finite(c.worst_frame_psnr)}});
  }
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tritium::cli
