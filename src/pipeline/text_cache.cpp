#include "pipeline/text_cache.h"

#include "base/hash.h"
#include "weights/safetensors_writer.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr const char* kChecksum = "sha256";

std::span<const std::uint8_t> bytes_of(const auto& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

// Lengths go in too, so that no two inputs give the same bytes.
void add(Sha256& hash, const auto& values) {
  const std::uint64_t count = values.size();
  hash.update({reinterpret_cast<const std::uint8_t*>(&count), sizeof(count)});
  hash.update(bytes_of(values));
}

std::string checksum(std::span<const float> text, std::span<const float> tags) {
  Sha256 hash;
  add(hash, text);
  add(hash, tags);
  return hash.finish_hex();
}

}  // namespace

std::string prompt_key(const PromptInputs& prompt) {
  Sha256 hash;
  add(hash, prompt.presentation.ids);
  add(hash, prompt.presentation.tags);
  add(hash, prompt.presentation.positions);
  for (const auto* pictures : {&prompt.images, &prompt.videos}) {
    add(hash, std::vector<std::uint64_t>{pictures->size()});
    for (const PatchRows& rows : *pictures) {
      add(hash, rows.values);
      add(hash, std::vector<std::int64_t>{rows.grid.t, rows.grid.h, rows.grid.w});
    }
  }
  return hash.finish_hex();
}

std::string encoder_key(const WeightPart& encoder, const std::string& arithmetic) {
  std::string text = fmt::format("{}\n{}\n", version(), arithmetic);
  for (const TensorFile& file : encoder.checkpoint().files()) {
    std::error_code ignored;
    const fs::path path = fs::weakly_canonical(file.path(), ignored);
    text += fmt::format("{}|{}|{}\n", path.string(), fs::file_size(path, ignored),
                        fs::last_write_time(path, ignored).time_since_epoch().count());
  }
  Sha256 hash;
  add(hash, text);
  return hash.finish_hex();
}

std::optional<TextCache::Rows> TextCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().rows;
  }
  if (folder_.empty()) return std::nullopt;
  auto rows = read(key);
  if (rows) remember(key, *rows);
  return rows;
}

void TextCache::keep(const std::string& key, const Rows& rows) {
  const std::lock_guard lock(mutex_);
  if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; })) return;
  remember(key, rows);
  if (folder_.empty() || rows.tags.empty()) return;
  write(key, rows);
  trim_folder();
}

void TextCache::remember(const std::string& key, Rows rows) {
  entries_.push_front({key, std::move(rows)});
  while (entries_.size() > capacity_) entries_.pop_back();
}

std::optional<TextCache::Rows> TextCache::read(const std::string& key) const {
  std::error_code ignored;
  const fs::path path = file_of(key);
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto file = Checkpoint::open(path);
  if (!file.ok()) return std::nullopt;
  auto text = file->read_f32("text"), tags = file->read_f32("tags");
  const auto& about = file->files().front().header().metadata;
  const auto sum = about.find(kChecksum);
  if (!text.ok() || !tags.ok() || sum == about.end() || sum->second != checksum(*text, *tags)) return std::nullopt;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // used: others are removed first
  Rows out{std::move(*text), {}};
  for (const float tag : *tags) out.tags.push_back(static_cast<Modality>(tag));
  return out;
}

void TextCache::write(const std::string& key, const Rows& rows) const {
  std::error_code failed;
  // Prompts can be guessed from it. A folder that was there is its owner's to open or close.
  if (fs::create_directories(folder_, failed)) fs::permissions(folder_, fs::perms::owner_all, failed);
  if (failed) return;
  std::vector<float> tags;
  for (const Modality tag : rows.tags) tags.push_back(static_cast<float>(tag));
  const auto tokens = static_cast<std::int64_t>(tags.size());
  const NamedTensor tensors[] = {{"text", {tokens, static_cast<std::int64_t>(rows.text.size()) / tokens}, rows.text},
                                 {"tags", {tokens}, tags}};
  (void)write_safetensors(file_of(key), tensors, {{kChecksum, checksum(rows.text, tags)}});
}

void TextCache::trim_folder() const {
  struct File {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  std::vector<File> files;
  std::error_code failed;
  std::uint64_t sum = 0;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().extension() != ".safetensors") continue;
    files.push_back({it->path(), it->last_write_time(failed), it->file_size(failed)});
    sum += failed ? 0 : files.back().bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (sum <= folder_bytes_) break;
    fs::remove(file.path, failed);
    sum -= std::min(sum, file.bytes);
  }
}

}  // namespace tritium
