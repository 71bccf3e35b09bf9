// Finding the tokenizer's folder: text encoder files of repacks come without one.
#include "base/try.h"
#include "pipeline/model_files.h"

#include <fmt/format.h>
#include <cstdlib>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kFullVocabulary = 100'000;    // rows of an embedding table that needs the tokenizer of the release
constexpr std::uint64_t kFullVocabJson = 1'000'000;  // bytes; that of the release has 2 776 833

bool is_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "vocab.json", ignored) && fs::is_regular_file(folder / "merges.txt", ignored);
}

// A small vocabulary does not belong to an encoder with the full one. The reverse is found when the tokenizer is read.
bool suits(const fs::path& folder, const PartCandidate& text_encoder) {
  std::error_code code;
  const auto bytes = fs::file_size(folder / "vocab.json", code);
  return !code && (text_encoder.identity.vocabulary < kFullVocabulary || bytes > kFullVocabJson);
}

// Folders of the Hugging Face cache, by its environment variables.
std::vector<fs::path> cache_folders() {
  std::vector<fs::path> out;
  if (const char* hub = std::getenv("HF_HUB_CACHE"); hub != nullptr && *hub != '\0') out.emplace_back(hub);
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0') out.push_back(fs::path(home) / "hub");
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') out.push_back(fs::path(home) / ".cache/huggingface/hub");
  return out;
}

// Tokenizers of downloaded H3 repositories; those of other models lack its added tokens.
void add_cached(std::vector<fs::path>& out) {
  for (const fs::path& cache : cache_folders()) {
    std::error_code code;
    for (const fs::directory_entry& entry : fs::directory_iterator(cache, code)) {
      if (entry.path().filename().string().find("MiniMax-H3") == std::string::npos) continue;
      const fs::path snapshot = cache_snapshot(entry.path());
      if (snapshot.empty()) continue;
      for (const char* place : {"FL2VA/tokenizer", "Ref2VA/tokenizer", "tokenizer", "text_encoder", "."}) out.push_back(snapshot / place);
    }
  }
}

}  // namespace

Result<fs::path> find_tokenizer(const ModelFolder& folder, const PartCandidate& text_encoder, const fs::path& named) {
  if (!named.empty()) {
    std::error_code ignored;
    const fs::path place = fs::is_directory(named, ignored) ? named : named.parent_path();
    if (is_tokenizer(place)) return place;
    return Error{ErrorCode::model, fmt::format("'{}' does not hold vocab.json and merges.txt", named.string()), "tokenizer", ""};
  }
  const fs::path &beside = text_encoder.folder, above = beside.parent_path();
  std::vector<fs::path> places;
  if (!text_encoder.tree.empty()) places = {text_encoder.tree / "tokenizer", text_encoder.tree / "processor"};
  places.insert(places.end(), {beside, beside / "tokenizer", above / "tokenizer", above / "tokenizers", above / "processor"});
  places.insert(places.end(), folder.tokenizers.begin(), folder.tokenizers.end());
  add_cached(places);
  for (const fs::path& place : places)
    if (is_tokenizer(place) && suits(place, text_encoder)) return place;
  return Error{
      ErrorCode::model,
      fmt::format("no tokenizer for '{}': looked beside it, in '{}' and in the Hugging Face cache", text_encoder.path.string(),
                  folder.root.string()),
      "tokenizer",
      text_encoder.identity.vocabulary < kFullVocabulary
          ? "name the folder with vocab.json, merges.txt and tokenizer_config.json with --tokenizer DIR"
          : "name a folder with the release's vocab.json (2 776 833 bytes), merges.txt (1 671 839 bytes) and tokenizer_config.json "
            "with --tokenizer DIR"};
}

}  // namespace tritium
