#include "pipeline/text_cache.h"

#include "base/hash.h"

#include <algorithm>

namespace tritium {
namespace {

// Lengths go in too, so that no two inputs give the same bytes.
template <class T>
void add(Sha256& hash, const std::vector<T>& values) {
  const std::uint64_t count = values.size();
  hash.update({reinterpret_cast<const std::uint8_t*>(&count), sizeof(count)});
  hash.update({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)});
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

const TextCache::Rows* TextCache::find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front().rows;
}

void TextCache::keep(const std::string& key, Rows rows) {
  if (find(key) != nullptr) return;
  entries_.push_front({key, std::move(rows)});
  while (entries_.size() > capacity_) entries_.pop_back();
}

}  // namespace tritium
