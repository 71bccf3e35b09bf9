#include "server/http/request_parser.h"

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

namespace tritium::http {

namespace beast_http = boost::beast::http;
using beast_string = boost::beast::string_view;
using beast_error = boost::beast::error_code;

namespace {

std::string_view view(beast_string text) { return {text.data(), text.size()}; }

}  // namespace

struct RequestParser::Impl : beast_http::basic_parser<true> {
  explicit Impl(const ServerLimits& given) : limits(given) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(std::numeric_limits<std::uint64_t>::max());  // the caller counts; "none" refuses every length in Boost 1.74
    eager(false);
  }

  void on_request_impl(beast_http::verb, beast_string method_text, beast_string target_text, int http_version,
                       beast_error& error) override {
    method = view(method_text);
    target = view(target_text);
    version = http_version;
    if (target.size() > limits.target_bytes) fail(414, target_message(), error);
  }
  void on_field_impl(beast_http::field, beast_string name, beast_string value, beast_error& error) override {
    if (header_complete) return;
    if (fields.size() >= limits.header_fields)
      return fail(431, fmt::format("the request has more than {} header fields", limits.header_fields), error);
    fields.emplace_back(lower_case(view(name)), view(value));
  }
  void on_header_impl(beast_error&) override { header_complete = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast_error&) override {}
  std::size_t on_body_impl(beast_string bytes, beast_error& error) override { return give(bytes, error); }
  void on_chunk_header_impl(std::uint64_t, beast_string, beast_error&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast_string bytes, beast_error& error) override { return give(bytes, error); }
  void on_finish_impl(beast_error&) override {}
  void on_response_impl(int, beast_string, int, beast_error&) override {}

  std::size_t give(beast_string bytes, beast_error& error) {
    if (!bytes.empty() && body && !body(view(bytes))) fail(400, "the body was refused", error);
    return bytes.size();
  }
  void fail(int status, std::string message, beast_error& error) {
    problem = {status, std::move(message)};
    error = beast_http::make_error_code(beast_http::error::body_limit);  // any will do: problem says what it is
  }
  [[nodiscard]] std::string target_message() const {
    return fmt::format("path and query of the request are longer than {} bytes", limits.target_bytes);
  }
  void explain(const beast_error& error, bool in_start_line) {
    if (!problem.message.empty()) return;
    if (error == beast_http::error::header_limit) {
      problem = {in_start_line ? 414 : 431,
                 in_start_line ? target_message() : fmt::format("the header of the request is longer than {} bytes", limits.header_bytes)};
    } else if (error == beast_http::error::bad_version) {
      problem = {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
    } else {
      problem = {400, "the request is not valid HTTP: " + error.message()};
    }
  }

  const ServerLimits& limits;
  std::function<bool(std::string_view)> body;
  std::string method, target;
  int version = 11;
  Pairs fields;
  bool header_complete = false, header_told = false, started = false;
  Problem problem;
};

RequestParser::RequestParser(const ServerLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

RequestParser::State RequestParser::read(std::string& input) {
  Impl& parser = *impl_;
  if (!parser.started) input.erase(0, std::min(input.find_first_not_of("\r\n"), input.size()));  // left over by some clients
  std::size_t used = 0;
  State state = State::more;
  while (!parser.is_done() && used < input.size()) {
    parser.started = true;
    beast_error error;
    const bool in_start_line = parser.method.empty();
    used += parser.put(boost::asio::const_buffer(input.data() + used, input.size() - used), error);
    if (error == beast_http::error::need_more) break;
    if (error) {
      parser.explain(error, in_start_line);
      return State::failed;
    }
    if (parser.is_header_done() && !parser.header_told) {
      parser.header_told = true;
      parser.eager(true);
      state = parser.is_done() ? State::more : State::header;
      break;
    }
  }
  input.erase(0, used);
  if (parser.method.empty() && input.size() > parser.limits.target_bytes + 64) {  // no need to wait for the header's limit
    parser.problem = {414, parser.target_message()};
    return State::failed;
  }
  if (parser.header_complete && !parser.is_done() && state == State::more && input.size() > parser.limits.header_bytes) {
    parser.problem = {
        400, fmt::format("the head of a chunk, or what follows the last one, is longer than {} bytes", parser.limits.header_bytes)};
    return State::failed;
  }
  return parser.is_done() ? State::done : state;
}

void RequestParser::on_body(std::function<bool(std::string_view)> body) { impl_->body = std::move(body); }
const RequestParser::Problem& RequestParser::problem() const { return impl_->problem; }
bool RequestParser::started() const { return impl_->started; }
const std::string& RequestParser::method() const { return impl_->method; }
const std::string& RequestParser::target() const { return impl_->target; }
const Pairs& RequestParser::fields() const { return impl_->fields; }
int RequestParser::version() const { return impl_->version; }
bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
bool RequestParser::has_body() const { return !impl_->is_done(); }
std::optional<std::uint64_t> RequestParser::content_length() const {
  const auto length = impl_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

}  // namespace tritium::http
