// What a running server leaves in its data folder so that "tritium status" and "tritium stop" find it.
#pragma once

#include <tritium/result.h>

#include <sys/types.h>
#include <filesystem>
#include <optional>
#include <string>

namespace tritium::cli {

struct RunningServer {
  pid_t pid = 0;
  std::string url, version;
};

Result<void> write_control_file(const std::filesystem::path& data, const RunningServer& server);
void remove_control_file(const std::filesystem::path& data);  // if it is this process's

// Empty: none runs with this folder. What a killed server left behind is recognised by its process being gone, or being another one.
std::optional<RunningServer> find_server(const std::filesystem::path& data);

// Whether the process still is the one that wrote the file.
bool is_alive(const std::filesystem::path& data, const RunningServer& server);

}  // namespace tritium::cli
