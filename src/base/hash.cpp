#include "base/hash.h"

#include "base/files.h"
#include "base/try.h"

#include <openssl/evp.h>
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

namespace tritium {
namespace {

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextFree>;

Context begin(const EVP_MD* algorithm = EVP_sha256()) {
  Context context(EVP_MD_CTX_new());
  EVP_DigestInit_ex(context.get(), algorithm, nullptr);
  return context;
}

std::string finish(EVP_MD_CTX* context) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context, digest.data(), &size);
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += digits[digest[i] >> 4];
    out += digits[digest[i] & 15];
  }
  return out;
}

}  // namespace

struct Sha256::State {
  Context context = begin();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::uint8_t> bytes) { EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()); }

std::string Sha256::finish_hex() {
  std::string out = finish(state_->context.get());
  EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr);
  return out;
}

std::string sha256_hex(std::string_view bytes) {
  const Context context = begin();
  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  return finish(context.get());
}

std::string md5_hex(std::string_view bytes) {
  const Context context = begin(EVP_md5());
  EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  return finish(context.get());
}

Result<std::string> sha256_file(const std::filesystem::path& path, const CancelToken* cancel) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) return Error{ErrorCode::failure, "cannot open '" + path.string() + "': " + system_message(errno), "", ""};
  const Context context = begin();
  std::vector<char> buffer(1 << 20);
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    EVP_DigestUpdate(context.get(), buffer.data(), n);
    if (cancel) TRITIUM_TRY(cancel->check("hashing"));
  }
  if (std::ferror(file.get())) return Error{ErrorCode::failure, "cannot read '" + path.string() + "'", "", ""};
  return finish(context.get());
}

}  // namespace tritium
