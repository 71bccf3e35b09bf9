#include "weights/convert/convert.h"

#include "base/hash.h"
#include "base/parallel.h"
#include "base/try.h"
#include "weights/convert/part_file.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

constexpr std::int64_t kSliceBytes = 1 << 20;  // float32 values of the rows that one thread has at hand
constexpr std::int64_t kSampleRows = 64;
constexpr std::int64_t kSlicesAtOnce = 256;  // between looks at the clock and the token

struct Sums {
  double error = 0, value = 0;
};

// Values, decoded values and what they were encoded to, for every thread.
int threads_for(int wanted, std::int64_t slice_bytes) {
  const auto fit = static_cast<int>(kConvertBufferBytes / static_cast<std::uint64_t>(4 * std::max(slice_bytes, kSliceBytes)));
  return std::clamp(wanted, 1, std::max(1, fit));
}

class Conversion {
 public:
  Conversion(const ConvertSource& source, const ConvertOptions& options, const ConvertHooks& hooks, const CancelToken* cancel)
      : source_(source), options_(options), hooks_(hooks), cancel_(cancel) {}

  Result<ConvertReport> run(const std::filesystem::path& target) {
    TRITIUM_TRY_ASSIGN(plan_, make_convert_plan(source_, options_, cancel_));
    for (const std::string& notice : plan_.notices) say(notice);
    TRITIUM_TRY_ASSIGN(const Fingerprint fingerprint, this->fingerprint());
    TRITIUM_TRY_ASSIGN(PartFile file, PartFile::open(target, plan_.layout.file_bytes, fingerprint, options_.overwrite));
    file_ = &file;
    if (!file.notice().empty()) say(file.notice());
    if (!file.finished().empty())
      say(fmt::format("continuing: {} of {} tensors are there already", file.finished().size(), plan_.tensors.size()));
    report_.target = target;
    report_.bytes = progress_.total = plan_.layout.file_bytes;
    for (PlannedTensor& tensor : plan_.tensors) TRITIUM_TRY(finish_one(tensor));
    TRITIUM_TRY(write_header());
    TRITIUM_TRY(file.commit());
    report_.curve = std::move(plan_.curve);
    return std::move(report_);
  }

 private:
  void say(const std::string& text) const {
    if (hooks_.notice) hooks_.notice(text);
  }

  [[nodiscard]] Result<Fingerprint> fingerprint() const {
    TRITIUM_TRY_ASSIGN(const std::vector<SourceFile> files, identify_files(source_.part->checkpoint()));
    nlohmann::ordered_json sources = nlohmann::ordered_json::array();
    for (const SourceFile& file : files) sources.push_back({file.path, file.bytes, file.modified, file.header_sha256});
    nlohmann::ordered_json how = {{"part", part_kind_name(source_.kind)}, {"format", options_.format.name}, {"prune", options_.prune_rank}};
    for (const KeepRule& rule : options_.keep) how["keep"].push_back(rule.glob + "=" + rule.format.name);
    if (options_.delta != nullptr) how["merge"] = options_.delta->description();
    return Fingerprint{sources.dump(), how.dump(), sha256_hex(plan_.layout.header)};
  }

  [[nodiscard]] const TensorInfo& placed(const PlannedTensor& tensor, std::size_t output) const {
    return plan_.layout.tensors[tensor.first_output + output];
  }

  Result<void> finish_one(PlannedTensor& tensor) {
    ConvertedTensor done{tensor.official, tensor.target, tensor.source_format, {}, tensor.reason, tensor.source_bytes, 0, 0, 0, 0};
    const std::size_t outputs = tensor.encoder ? tensor.encoder->outputs().size() : 1;
    for (std::size_t i = 0; i < outputs; ++i) done.bytes_after += placed(tensor, i).bytes;
    const DType plain = tensor.encoder ? tensor.encoder->spec().format.dtype : tensor.copy->dtype;
    const bool named = tensor.encoder && tensor.encoder->spec().format.encoding != Encoding::plain;
    done.format = named ? tensor.encoder->spec().format.name : std::string(dtype_name(plain));
    progress_.tensor = tensor.target;
    if (hooks_.progress) hooks_.progress(progress_);
    Sums sums;
    if (const auto before = file_->finished().find(tensor.target); before != file_->finished().end()) {
      ++report_.resumed;
      const auto note = nlohmann::json::parse(before->second, nullptr, false);
      if (note.is_array() && note.size() == 2 && note[0].is_number() && note[1].is_number())
        sums = {note[0].get<double>(), note[1].get<double>()};
    } else {
      TRITIUM_TRY_ASSIGN(sums, tensor.copy != nullptr ? copy(tensor) : encode(tensor));
      TRITIUM_TRY(file_->finish(tensor.target, nlohmann::json{sums.error, sums.value}.dump(), done.bytes_after));
    }
    tensor.encoder.reset();
    done_bytes_ += done.bytes_after;
    progress_.done = done_bytes_;
    done.squared_error = sums.error;
    done.squared_value = sums.value;
    done.error = sums.value > 0 ? std::sqrt(sums.error / sums.value) : sums.error > 0 ? 1 : 0;
    encoded_.push_back(tensor.copy == nullptr);
    report_.tensors.push_back(std::move(done));
    return {};
  }

  Result<void> check() const {
    return cancel_ == nullptr ? Result<void>() : cancel_->check("the conversion; run the same command to continue");
  }

  Result<Sums> copy(const PlannedTensor& tensor) const {
    const TensorInfo& to = placed(tensor, 0);
    std::vector<std::uint8_t> chunk;
    for (std::uint64_t at = 0; at < to.bytes; at += chunk.size()) {
      TRITIUM_TRY(check());
      chunk.resize(std::min<std::uint64_t>(4u << 20, to.bytes - at));
      TRITIUM_TRY(source_.part->checkpoint().read_range(*tensor.copy, at, chunk));
      TRITIUM_TRY(file_->write(to.offset + at, chunk));
    }
    return Sums{};
  }

  Result<Sums> encode(const PlannedTensor& tensor) {
    TRITIUM_TRY_ASSIGN(const RowSourcePtr rows, tensor.open());
    MatrixEncoder& encoder = *tensor.encoder;
    const Slices slices(*rows, encoder);
    if (encoder.survey() == MatrixEncoder::Survey::sample) {
      TRITIUM_TRY(sample(*rows, encoder));
    } else if (encoder.survey() == MatrixEncoder::Survey::all) {
      const auto look = [&](std::int64_t begin, std::int64_t end, std::vector<float>& values, std::int64_t) -> Result<void> {
        TRITIUM_TRY(rows->read(begin, end, values));
        encoder.observe(begin, values);
        return {};
      };
      TRITIUM_TRY(each(slices, look));
    }
    encoder.prepare();
    std::vector<Sums> sums(static_cast<std::size_t>(slices.count));
    const auto write = [&](std::int64_t begin, std::int64_t end, std::vector<float>& values, std::int64_t slice) -> Result<void> {
      TRITIUM_TRY(rows->read(begin, end, values));
      return encode_slice(tensor, begin, values, sums[static_cast<std::size_t>(slice)]);
    };
    TRITIUM_TRY(each(slices, write));
    for (const EncodedPiece& piece : encoder.constants())
      TRITIUM_TRY(file_->write(placed(tensor, piece.output).offset + piece.offset, piece.bytes));
    Sums all;  // in order: the same whatever the threads
    for (const Sums& part : sums) all = {all.error + part.error, all.value + part.value};
    return all;
  }

  // The rows of a matrix, cut into slices.
  struct Slices {
    Slices(const RowSource& source, const MatrixEncoder& encoder) : rows(source.rows()), columns(source.columns()) {
      const std::int64_t step = encoder.row_step(), wanted = kSliceBytes / (4 * std::max<std::int64_t>(columns, 1));
      rows_each = std::max(step, wanted / step * step);
      count = (rows + rows_each - 1) / rows_each;
    }
    std::int64_t rows, columns, rows_each = 1, count = 0;
  };

  template <class Work>
  Result<void> each(const Slices& slices, Work work) {
    const int threads = threads_for(options_.threads, slices.rows_each * slices.columns * 4);
    for (std::int64_t first = 0; first < slices.count; first += kSlicesAtOnce) {
      const std::int64_t here = std::min(kSlicesAtOnce, slices.count - first);
      const auto one = [&](std::int64_t i) -> Result<void> {
        TRITIUM_TRY(check());
        const std::int64_t begin = (first + i) * slices.rows_each, end = std::min(begin + slices.rows_each, slices.rows);
        std::vector<float> values(static_cast<std::size_t>((end - begin) * slices.columns));
        return work(begin, end, values, first + i);
      };
      TRITIUM_TRY(for_each_parallel(here, threads, one));
      if (hooks_.progress) hooks_.progress(progress_);
    }
    return {};
  }

  Result<void> sample(const RowSource& rows, MatrixEncoder& encoder) const {
    const std::int64_t count = std::min(kSampleRows, rows.rows());
    std::vector<float> row(static_cast<std::size_t>(rows.columns()));
    for (std::int64_t i = 0; i < count; ++i) {
      TRITIUM_TRY(check());
      const std::int64_t at = i * rows.rows() / count;
      TRITIUM_TRY(rows.read(at, at + 1, row));
      if (std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); })) encoder.observe(at, row);
    }
    return {};
  }

  Result<void> encode_slice(const PlannedTensor& tensor, std::int64_t first, const std::vector<float>& values, Sums& sums) const {
    std::vector<float> decoded(values.size());
    std::vector<EncodedPiece> pieces;
    TRITIUM_TRY(tensor.encoder->encode(first, values, pieces, decoded));
    for (const EncodedPiece& piece : pieces) TRITIUM_TRY(file_->write(placed(tensor, piece.output).offset + piece.offset, piece.bytes));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]), off = static_cast<double>(decoded[i]) - value;
      sums.error += off * off;
      sums.value += value * value;
    }
    return {};
  }

  Result<void> write_header() const {
    ConvertReport encoded;
    for (std::size_t i = 0; i < report_.tensors.size(); ++i)
      if (encoded_[i]) encoded.tensors.push_back(report_.tensors[i]);
    TRITIUM_TRY_ASSIGN(const FileLayout layout, layout_with_errors(plan_, options_.container, error_text(encoded.groups())));
    if (layout.header.size() != plan_.layout.header.size())
      return Error{ErrorCode::failure, "the header's size changed while the file was written", "target", "please report this"};
    return file_->write(0, layout.header);
  }

  const ConvertSource& source_;
  const ConvertOptions& options_;
  const ConvertHooks& hooks_;
  const CancelToken* cancel_;
  ConvertPlan plan_;
  PartFile* file_ = nullptr;
  ConvertReport report_;
  std::vector<bool> encoded_;
  ConvertProgress progress_;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

std::map<std::string, GroupError> ConvertReport::groups() const {
  std::map<std::string, std::pair<GroupError, int>> sums;
  for (const ConvertedTensor& tensor : tensors) {
    auto& [error, count] = sums[layer_group(tensor.target)];
    error.mean += tensor.error;
    error.largest = std::max(error.largest, tensor.error);
    ++count;
  }
  std::map<std::string, GroupError> out;
  for (const auto& [name, sum] : sums) out[name] = {sum.first.mean / sum.second, sum.first.largest};
  return out;
}

Result<ConvertReport> convert_part(const ConvertSource& source, const std::filesystem::path& target, const ConvertOptions& options,
                                   const ConvertHooks& hooks, const CancelToken* cancel) {
  return Conversion(source, options, hooks, cancel).run(target);
}

}  // namespace tritium
