// What a conversion did, for people and for machines.
#pragma once

#include "pipeline/compare.h"
#include "weights/convert/convert.h"

namespace tritium::cli {

struct PartReport {
  std::string part, format;
  ConvertReport report;
};

// A table: for every group of layers the types and bytes before and after, mean and largest relative error.
std::string convert_report_text(const std::vector<PartReport>& parts, const std::vector<ComparedPrompt>& compared);
// The same with every tensor.
std::string convert_report_json(const std::string& source, const std::vector<PartReport>& parts,
                                const std::vector<ComparedPrompt>& compared);

}  // namespace tritium::cli
