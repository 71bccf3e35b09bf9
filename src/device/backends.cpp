#include "device/backends.h"

#include "device/abort_report.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ggml.h>
#include <strings.h>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string_view>

namespace tritium::backends {
namespace {

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Where the installed ggml keeps its backends as libraries to be loaded at run time; empty when they are part of the program.
std::filesystem::path library_folder() {
#ifdef TRITIUM_GGML_BACKEND_DIR
  return TRITIUM_GGML_BACKEND_DIR;
#else
  return {};
#endif
}

void prepare_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Only errors are of interest to users.
    ggml_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    report_aborts();
    // Where the hardware has float16 arithmetic, the Vulkan backend rounds the inputs of float32 products to it, whatever precision the
    // node asks for: values above 65504 become infinite, and scores of large queries and keys are off by more than the softmax bears.
    setenv("GGML_VK_DISABLE_F16", "1", 0);
  });
}

// How well a variant of the CPU backend fits this machine; 0: not at all.
int score(const std::filesystem::path& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return 0;
  const auto rate = reinterpret_cast<int (*)()>(dlsym(handle, "ggml_backend_score"));
  const int result = rate != nullptr ? rate() : 1;
  dlclose(handle);
  return result;
}

// The best of the variants "libggml-cpu*.so"; empty when there is none.
std::filesystem::path best_cpu_library() {
  std::filesystem::path best;
  int best_score = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(library_folder(), failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("libggml-cpu") || entry.path().extension() != ".so") continue;
    if (const int each = score(entry.path()); each > best_score) {
      best = entry.path();
      best_score = each;
    }
  }
  return best;
}

// Whether there may be another device than the CPU. Without one, loading graphics drivers costs time for nothing. Software devices are
// shown only to those who ask for them by the variable.
bool has_accelerator() {
  for (const char* variable : {"GGML_VK_VISIBLE_DEVICES", "GGML_BACKEND_PATH"})
    if (std::getenv(variable) != nullptr) return true;
  constexpr std::string_view kNodes[] = {"dri", "nvidia", "kfd", "dxg", "davinci", "accel"};  // names in /dev begin so
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", failed)) {
    const std::string name = entry.path().filename().string();
    if (std::any_of(std::begin(kNodes), std::end(kNodes), [&](std::string_view node) { return name.starts_with(node); })) return true;
  }
  return false;
}

ggml_backend_dev_t registered_cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

// Precondition of these: the mutex is held.
void load_all_locked() {
  static bool loaded = false;
  prepare_once();
  if (!loaded) ggml_backend_load_all();
  loaded = true;
}

ggml_backend_dev_t cpu_locked() {
  prepare_once();
  if (ggml_backend_dev_t device = registered_cpu()) return device;
  if (const std::filesystem::path library = best_cpu_library(); !library.empty()) ggml_backend_load(library.c_str());
  if (registered_cpu() == nullptr) load_all_locked();
  return registered_cpu();
}

}  // namespace

ggml_backend_dev_t cpu() {
  const std::lock_guard lock(registry_mutex());
  return cpu_locked();
}

std::vector<ggml_backend_dev_t> all() {
  const std::lock_guard lock(registry_mutex());
  std::vector<ggml_backend_dev_t> out;
  if (ggml_backend_dev_t device = cpu_locked()) out.push_back(device);
  if (has_accelerator()) load_all_locked();
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (std::find(out.begin(), out.end(), device) == out.end()) out.push_back(device);  // loading twice registers twice
  }
  return out;
}

Result<ggml_backend_dev_t> find(const std::string& name) {
  ggml_backend_dev_t host = cpu();
  if (host == nullptr)
    return Error{ErrorCode::device, "no CPU backend of ggml was found", "", "install the ggml package with its CPU backend (libggml0)"};
  if (name.empty() || strcasecmp(name.c_str(), ggml_backend_dev_name(host)) == 0) return host;
  std::vector<std::string> names;
  for (ggml_backend_dev_t device : all()) {
    if (strcasecmp(ggml_backend_dev_name(device), name.c_str()) == 0) return device;
    names.emplace_back(ggml_backend_dev_name(device));
  }
  return Error{ErrorCode::device, fmt::format("there is no device '{}'; available: {}", name, fmt::join(names, ", ")), "device",
               "see 'tritium devices'"};
}

ggml_backend_reg_t named(const std::string& name) {
  const std::lock_guard lock(registry_mutex());
  prepare_once();
  if (ggml_backend_reg_t found = ggml_backend_reg_by_name(name.c_str())) return found;
  std::string file = "libggml-" + name + ".so";
  std::transform(file.begin(), file.end(), file.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::error_code failed;
  if (const std::filesystem::path library = library_folder() / file; std::filesystem::exists(library, failed))
    ggml_backend_load(library.c_str());
  else
    load_all_locked();
  return ggml_backend_reg_by_name(name.c_str());
}

}  // namespace tritium::backends
