#include "weights/checkpoint.h"

#include "base/files.h"
#include "base/try.h"
#include "weights/gguf_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kFileSuffix = ".safetensors", kGgufSuffix = ".gguf";

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "", std::move(hint)}; }

// The one file of a folder that stands for the whole set.
Result<fs::path> choose_in_folder(const fs::path& folder) {
  std::vector<fs::path> indexes, files;
  std::set<std::string> split_models;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    const auto split = parse_gguf_split(entry.path());
    if (name.ends_with(kIndexSuffix))
      indexes.push_back(entry.path());
    else if (name.ends_with(kFileSuffix) || (name.ends_with(kGgufSuffix) && !split))
      files.push_back(entry.path());
    else if (split && split_models.insert(split->stem).second)
      files.push_back(entry.path());
  }
  if (code) return bad(fmt::format("cannot read the folder '{}': {}", folder.string(), code.message()));
  for (const fs::path& preferred : {folder / "model.safetensors.index.json", folder / "model.safetensors"})
    if (fs::exists(preferred, code)) return preferred;
  for (const auto& found : {indexes, files}) {
    if (found.size() == 1) return found.front();
    if (found.size() > 1)
      return bad(fmt::format("'{}' holds {} candidates", folder.string(), found.size()), "name the file instead of the folder");
  }
  return bad(fmt::format("no .safetensors or .gguf file in '{}'", folder.string()));
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  fs::path chosen = path;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return bad(fmt::format("'{}' does not exist", path.string()));
  if (fs::is_directory(path, ignored)) { TRITIUM_TRY_ASSIGN(chosen, choose_in_folder(path)); }
  if (chosen.filename().string().ends_with(".index.json")) return open_index(chosen);
  if (const auto split = parse_gguf_split(chosen)) {
    TRITIUM_TRY_ASSIGN(const std::vector<fs::path> pieces, gguf_split_files(chosen, *split));
    return open_pieces(pieces);
  }
  return open_pieces({chosen});
}

// A file on its own, of either container, counts as the one piece of its model.
Result<Checkpoint> Checkpoint::open_pieces(const std::vector<fs::path>& pieces) {
  Checkpoint out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    TRITIUM_TRY_ASSIGN(TensorFile file, TensorFile::open(pieces[i]));
    if (file.container() == Container::gguf)
      TRITIUM_TRY(check_gguf_split(pieces[i], file.header(), static_cast<int>(i) + 1, static_cast<int>(pieces.size())));
    TRITIUM_TRY(out.add(std::move(file)));
  }
  return out;
}

Result<void> Checkpoint::add(TensorFile file) {
  files_.push_back(std::move(file));
  const TensorFile& stored = files_.back();
  for (const auto& [name, info] : stored.header().tensors)
    if (!entries_.emplace(name, Entry{&info, &stored}).second)
      return bad(fmt::format("tensor '{}' is in two shards, the second is '{}'", name, stored.path().string()));
  return {};
}

Result<Checkpoint> Checkpoint::open_index(const fs::path& index) {
  TRITIUM_TRY_ASSIGN(const std::string text, read_file(index));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto refuse = [&](const std::string& what) { return bad(fmt::format("'{}': {}", index.string(), what)); };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return refuse("not a safetensors index: it must be JSON with an object 'weight_map'");

  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) return refuse("the shard of '" + tensor + "' is not a string");
    const std::string name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos ||
        name.find('\0') != std::string::npos)
      return refuse("shard name '" + name + "' must be a plain file name");
    shard_of[tensor] = name;
    shards.insert(name);
  }
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& name : shards)
    if (!fs::exists(index.parent_path() / name, ignored)) missing.push_back(name);
  if (!missing.empty())
    return bad(
        fmt::format("{} of {} shards of '{}' are missing: {}", missing.size(), shards.size(), index.string(), fmt::join(missing, ", ")),
        "download them, or check for dangling links");

  Checkpoint out;
  out.sharded_ = true;
  for (const std::string& name : shards) {
    TRITIUM_TRY_ASSIGN(TensorFile file, TensorFile::open(index.parent_path() / name));
    TRITIUM_TRY(out.add(std::move(file)));
  }
  for (const auto& [tensor, shard] : shard_of) {
    const auto found = out.entries_.find(tensor);
    if (found == out.entries_.end()) return refuse(fmt::format("tensor '{}' is not in its shard '{}'", tensor, shard));
    if (found->second.file->path().filename() != shard)
      return refuse(
          fmt::format("tensor '{}' should be in '{}' but is in '{}'", tensor, shard, found->second.file->path().filename().string()));
  }
  for (const auto& [tensor, entry] : out.entries_)
    if (!shard_of.contains(tensor))
      return refuse(fmt::format("tensor '{}' of '{}' is not listed", tensor, entry.file->path().filename().string()));
  if (const auto metadata = json.find("metadata"); metadata != json.end() && metadata->is_object() && metadata->contains("total_size")) {
    const auto& total = (*metadata)["total_size"];
    if (total.is_number_unsigned() && total.get<std::uint64_t>() != out.tensor_bytes())
      return refuse(fmt::format("total_size says {} bytes, the shards hold {}", total.get<std::uint64_t>(), out.tensor_bytes()));
  }
  return out;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.info;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> out;
  out.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

std::uint64_t Checkpoint::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry.info->bytes;
  return sum;
}

Result<const TensorFile*> Checkpoint::file_of(const TensorInfo& tensor) const {
  const auto found = entries_.find(tensor.name);
  if (found == entries_.end() || found->second.info != &tensor)
    return bad("tensor '" + tensor.name + "' does not belong to this checkpoint");
  return found->second.file;
}

Result<void> Checkpoint::read(const TensorInfo& tensor, std::span<std::uint8_t> out) const { return read_range(tensor, 0, out); }

Result<void> Checkpoint::read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const {
  TRITIUM_TRY_ASSIGN(const TensorFile* file, file_of(tensor));
  return file->read_range(tensor, first, out);
}

Result<void> Checkpoint::read_direct(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const {
  TRITIUM_TRY_ASSIGN(const TensorFile* file, file_of(tensor));
  return file->read_direct(tensor, first, out);
}

Result<void> Checkpoint::check_unchanged() const {
  for (const TensorFile& file : files_) TRITIUM_TRY(file.check_unchanged());
  return {};
}

Result<std::shared_ptr<const FileMapping>> Checkpoint::mapping(const TensorInfo& tensor) const {
  TRITIUM_TRY_ASSIGN(const TensorFile* file, file_of(tensor));
  return file->mapping();
}

void Checkpoint::forget_pages(const TensorInfo& tensor) const {
  if (const auto file = file_of(tensor); file.ok()) (*file)->forget_pages(tensor);
}

Result<std::vector<float>> Checkpoint::read_f32(const TensorInfo& tensor) const {
  std::vector<std::uint8_t> bytes(tensor.bytes);
  TRITIUM_TRY(read(tensor, bytes));
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  convert_to_f32(tensor.dtype, bytes, out);
  return out;
}

Result<std::vector<float>> Checkpoint::read_f32(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) return bad(fmt::format("tensor '{}' is missing", name));
  return read_f32(*tensor);
}

}  // namespace tritium
