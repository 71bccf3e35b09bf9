#include "cli/serve_control.h"

#include "base/files.h"

#include <fmt/format.h>
#include <unistd.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace fs = std::filesystem;

namespace {

fs::path control_file(const fs::path& data) { return data / "server.json"; }

// When a process began, in ticks since the machine did: with its number this names it for good. Empty: there is no such process.
std::string beginning_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(in, text)) return "";
  // Behind the name, which is in parentheses and may hold anything, it is the twentieth field.
  const std::size_t name_end = text.rfind(')');
  std::size_t at = name_end == std::string::npos ? std::string::npos : name_end + 1;
  for (int field = 0; field < 19 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

nlohmann::json read_control(const fs::path& data) {
  const auto text = read_file(control_file(data), 1 << 16);
  if (!text.ok()) return nullptr;
  nlohmann::json out = nlohmann::json::parse(*text, nullptr, false);
  return out.is_object() ? out : nlohmann::json();
}

}  // namespace

Result<void> write_control_file(const fs::path& data, const RunningServer& server) {
  const nlohmann::ordered_json document{
      {"pid", server.pid}, {"began", beginning_of(server.pid)}, {"url", server.url}, {"version", server.version}};
  return write_file_atomically(control_file(data), document.dump(2) + "\n");
}

void remove_control_file(const fs::path& data) {
  std::error_code ignored;
  if (const auto server = find_server(data); server && server->pid == ::getpid()) fs::remove(control_file(data), ignored);
}

std::optional<RunningServer> find_server(const fs::path& data) {
  const nlohmann::json document = read_control(data);
  if (document.is_null()) return std::nullopt;
  RunningServer out;
  try {
    out = {document.at("pid").get<pid_t>(), document.at("url").get<std::string>(), document.value("version", "")};
  } catch (const nlohmann::json::exception&) { return std::nullopt; }
  if (!is_alive(data, out)) return std::nullopt;
  return out;
}

bool is_alive(const fs::path& data, const RunningServer& server) {
  const std::string began = beginning_of(server.pid);
  const nlohmann::json document = read_control(data);
  return !began.empty() && document.is_object() && document.value("pid", pid_t{0}) == server.pid && document.value("began", "") == began;
}

}  // namespace tritium::cli
