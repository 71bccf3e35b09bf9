#include "server/http/body.h"

#include "base/files.h"
#include "base/system.h"
#include "server/http/multipart.h"
#include "server/http/url.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>

namespace tritium::http {
namespace {

Refusal memory_full() {
  return {503, {ErrorCode::busy, "the requests that are being answered need all the memory there is for them", "", "try again later"}};
}

Refusal refusal_of(Error error) {
  const int status = error.code == ErrorCode::does_not_fit ? 413 : http_status_of(error);
  return {status, std::move(error)};
}

class MemoryBody : public BodyReader {
 public:
  MemoryBody(std::string& target, MemoryShare& memory) : target_(target), memory_(memory) {}
  std::optional<Refusal> write(std::string_view bytes) override {
    if (!memory_.take(bytes.size())) return memory_full();
    target_.append(bytes);
    return std::nullopt;
  }
  std::optional<Refusal> finish() override { return std::nullopt; }

 protected:
  std::string& target_;
  MemoryShare& memory_;
};

class UrlEncodedBody : public BodyReader {
 public:
  UrlEncodedBody(HttpRequest& request, MemoryShare& memory, const ServerLimits& limits)
      : request_(request), memory_(memory), limits_(limits) {}
  std::optional<Refusal> write(std::string_view bytes) override {
    if (text_.size() + bytes.size() > limits_.field_bytes) return too_large("a form of this kind", limits_.field_bytes);
    if (!memory_.take(2 * bytes.size())) return memory_full();  // once more when it is taken apart
    text_.append(bytes);
    return std::nullopt;
  }
  std::optional<Refusal> finish() override {
    // "curl -d '{...}'" sends this type with every document; no form begins like one.
    if (const std::size_t first = text_.find_first_not_of(" \t\r\n"); first != std::string::npos && text_[first] == '{') {
      request_.is_form = false;
      request_.body = std::move(text_);
      return std::nullopt;
    }
    auto pairs = parse_pairs(text_, limits_.form_fields);
    if (!pairs.ok()) return refusal_of(pairs.error());
    for (auto& [name, value] : *pairs) {
      FormField field;
      field.name = std::move(name);
      field.value = std::move(value);
      field.bytes = field.value.size();
      request_.form.push_back(std::move(field));
    }
    return std::nullopt;
  }

 private:
  HttpRequest& request_;
  MemoryShare& memory_;
  const ServerLimits& limits_;
  std::string text_;
};

// A file being written; closed with this object.
class SpoolFile {
 public:
  ~SpoolFile() { close(); }
  Result<std::filesystem::path> open(const std::filesystem::path& folder) {
    std::string name = (folder / "upload-XXXXXX").string();
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) return failed("create a file in", folder, errno);
    path_ = name;
    return path_;
  }
  Result<void> write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  // A full disk passes; the client may come again.
  static Error failed(const char* what, const std::filesystem::path&, int code) {
    const bool full = code == ENOSPC || code == EDQUOT;
    return {full ? ErrorCode::busy : ErrorCode::failure,
            fmt::format("cannot {} the folder for uploads: {}", full ? "write to" : what, system_message(code)), "",
            full ? "the server's disk is full; free space there" : "see the server's data folder"};
  }
  int descriptor_ = -1;
  std::filesystem::path path_;
};

class MultipartBody : public BodyReader {
 public:
  MultipartBody(HttpRequest& request, RequestHoldings& holdings, const ServerOptions& options, const std::string& boundary)
      : request_(request),
        holdings_(holdings),
        options_(options),
        parser_(boundary, {[this](const MultipartPart& part) { return begin(part); },
                           [this](std::string_view bytes) { return data(bytes); }, [this] { return end(); }}) {}
  std::optional<Refusal> write(std::string_view bytes) override { return answer(parser_.write(bytes)); }
  std::optional<Refusal> finish() override { return answer(parser_.finish()); }

 private:
  static std::optional<Refusal> answer(Result<void> result) {
    if (result.ok()) return std::nullopt;
    return refusal_of(std::move(result).error());
  }
  FormField& current() { return request_.form.back(); }

  Result<void> begin(const MultipartPart& part) {
    if (request_.form.size() >= options_.limits.form_fields)
      return Error{ErrorCode::does_not_fit, fmt::format("the form has more than {} fields", options_.limits.form_fields), "", ""};
    FormField field;
    field.name = part.name;
    field.is_file = part.is_file;
    field.file_name = part.file_name;
    field.content_type = part.content_type;
    if (part.is_file) {
      auto path = file_.open(options_.spool);
      if (!path.ok()) return std::move(path).error();
      holdings_.files.add(*path);
      field.file = std::move(path).value();
    }
    request_.form.push_back(std::move(field));
    return {};
  }
  Result<void> data(std::string_view bytes) {
    current().bytes += bytes.size();
    if (current().is_file) return file_.write(bytes);
    if (current().bytes > options_.limits.field_bytes) {
      Error error = too_large("a field that is not a file", options_.limits.field_bytes).error;
      error.field = current().name;
      return error;
    }
    if (!holdings_.memory.take(bytes.size())) return memory_full().error;
    current().value.append(bytes);
    return {};
  }
  Result<void> end() {
    file_.close();
    return {};
  }

  HttpRequest& request_;
  RequestHoldings& holdings_;
  const ServerOptions& options_;
  SpoolFile file_;
  MultipartParser parser_;
};

}  // namespace

bool MemoryShare::take(std::uint64_t bytes) {
  if (used_.fetch_add(bytes) + bytes > limit_) {
    used_ -= bytes;
    return false;
  }
  own_ += bytes;
  return true;
}

SpooledFiles::~SpooledFiles() {
  for (const auto& file : files_) ::unlink(file.c_str());
}

Refusal too_large(std::string_view what, std::uint64_t limit) {
  return {413, {ErrorCode::does_not_fit, fmt::format("{} is larger than the limit of {}", what, format_bytes(limit)), "", "send less"}};
}

OpenedBody open_body(HttpRequest& request, RequestHoldings& holdings, const ServerOptions& options) {
  const std::string_view header = request.header("content-type");
  const auto type = parse_field_value(header);
  if (!header.empty() && !type) return {nullptr, Refusal{400, {ErrorCode::usage, "the header field Content-Type cannot be read", "", ""}}};
  if (type && type->value == "application/x-www-form-urlencoded") {
    request.is_form = true;
    return {std::make_unique<UrlEncodedBody>(request, holdings.memory, options.limits), std::nullopt};
  }
  if (type && type->value == "multipart/form-data") {
    const std::string* boundary = type->find("boundary");
    if (boundary == nullptr || !valid_boundary(*boundary))
      return {nullptr, Refusal{400,
                               {ErrorCode::usage, "the Content-Type of the form names no boundary, or one that is not valid", "",
                                "let a library write the header field together with the form"}}};
    request.is_form = true;
    return {std::make_unique<MultipartBody>(request, holdings, options, *boundary), std::nullopt};
  }
  return {std::make_unique<MemoryBody>(request.body, holdings.memory), std::nullopt};
}

}  // namespace tritium::http
