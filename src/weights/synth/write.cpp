#include "weights/synth/write.h"

#include "base/hash.h"
#include "base/parallel.h"
#include "base/try.h"
#include "weights/convert/part_file.h"
#include "weights/convert/plan.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <mutex>

namespace tritium {
namespace {

// A stretch of one output of one filler.
struct Piece {
  const SynthFiller* filler = nullptr;
  std::size_t output = 0;
  std::uint64_t first = 0, bytes = 0, place = 0;  // within the output; place: in the file
};

Result<std::vector<SynthFiller>> make_fillers(const SynthPart& part, const SynthOptions& options, BlockPools& pools) {
  const ConvertRules rules{part.kind, options.format, options.container, {}, part.pruned};
  std::vector<const SynthTensor*> sorted;
  for (const SynthTensor& tensor : part.tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const SynthTensor* a, const SynthTensor* b) { return a->name < b->name; });
  std::vector<SynthFiller> out;
  for (const SynthTensor* tensor : sorted) {
    const std::string target = options.format.encoding == Encoding::nf4 ? tensor->name : comfy_name(part.kind, tensor->name);
    // The rules ask what a tensor is in the source.
    const TensorInfo stored{tensor->name, tensor->natural, tensor->shape, 0, 0};
    LogicalTensor source;
    source.name = tensor->name;
    source.shape = tensor->shape;
    source.stored = &stored;
    const PlacedTensor placed{{&source}, {}};
    TRITIUM_TRY_ASSIGN(const FormatChoice choice, rules.choose({tensor->name, target, tensor->shape, &placed}));
    TRITIUM_TRY_ASSIGN(SynthFiller filler,
                       SynthFiller::create({target, tensor->shape, choice.format, choice.rotation, choice.full_precision}, tensor->values,
                                           options.seed, pools));
    out.push_back(std::move(filler));
  }
  return out;
}

FileMetadata metadata_of(const SynthPart& part, const SynthOptions& options) {
  constexpr std::array<const char*, 4> kArchitectures = {"minimax_h3", "minimax_h3_te", "minimax_h3_vae", "minimax_h3_audio_vae"};
  FileMetadata out;
  if (options.container == Container::gguf) {
    out.emplace_back("general.architecture", kArchitectures[static_cast<std::size_t>(part.kind)]);
  } else {
    out.emplace_back("format", "pt");
  }
  out.insert(out.end(), part.metadata.begin(), part.metadata.end());
  out.emplace_back("tritium.format", options.format.name);
  out.emplace_back("tritium.synthetic", fmt::format("random weights, seed {}", options.seed));
  out.emplace_back("tritium.version", options.version);
  return out;
}

std::vector<Piece> cut(const std::vector<SynthFiller>& fillers, const FileLayout& layout) {
  std::vector<Piece> out;
  std::size_t n = 0;
  for (const SynthFiller& filler : fillers)
    for (std::size_t output = 0; output < filler.outputs().size(); ++output, ++n) {
      const TensorInfo& tensor = layout.tensors[n];
      const std::uint64_t step = filler.step(output), most = kSynthPieceBytes / step * step;
      for (std::uint64_t first = 0; first < tensor.bytes; first += most)
        out.push_back({&filler, output, first, std::min(most, tensor.bytes - first), tensor.offset + first});
    }
  return out;
}

}  // namespace

Result<std::uint64_t> write_synthetic_part(const SynthPart& part, const std::filesystem::path& target, const SynthOptions& options,
                                           const std::function<void(std::uint64_t, std::uint64_t)>& progress, const CancelToken* cancel) {
  BlockPools pools;
  TRITIUM_TRY_ASSIGN(const std::vector<SynthFiller> fillers, make_fillers(part, options, pools));
  std::vector<TensorDeclaration> declarations;
  for (const SynthFiller& filler : fillers) declarations.insert(declarations.end(), filler.outputs().begin(), filler.outputs().end());
  TRITIUM_TRY_ASSIGN(const FileLayout layout, layout_file(options.container, declarations, metadata_of(part, options)));

  TRITIUM_TRY_ASSIGN(PartFile file,
                     PartFile::open(target, layout.file_bytes,
                                    {"synthetic", fmt::format("seed {}", options.seed), sha256_hex(layout.header)}, options.overwrite));
  TRITIUM_TRY(file.write(0, layout.header));
  const std::vector<Piece> pieces = cut(fillers, layout);
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto write = [&](std::int64_t i) -> Result<void> {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("the writing of synthetic weights"));
    std::vector<std::uint8_t> bytes(piece.bytes);
    TRITIUM_TRY(piece.filler->fill(piece.output, piece.first, bytes));
    TRITIUM_TRY(file.write(piece.place, bytes));
    const std::lock_guard lock(mutex);
    done += piece.bytes;
    if (progress) progress(done, layout.file_bytes);
    return {};
  };
  TRITIUM_TRY(for_each_parallel(static_cast<std::int64_t>(pieces.size()), options.threads, write));
  TRITIUM_TRY(file.commit());
  return layout.file_bytes;
}

}  // namespace tritium
