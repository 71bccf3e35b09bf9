// What the server is and has: /system_stats, /object_info, /models, /features, /free and the like.
#include "server/comfy/facade.h"
#include "server/comfy/model_names.h"
#include "server/comfy/object_info.h"

#include "base/files.h"
#include "base/system.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

namespace tritium::server::comfy {
namespace {

// The version whose nodes and routes are followed; clients compare it.
constexpr const char* kComfyVersion = "0.35.0";

NameLists lists_for(const FacadePtr& facade, const std::string& owner) {
  NameLists out = model_names(facade->service);
  out["images"] = facade->uploads.names(owner, {".png", ".jpg", ".jpeg", ".webp", ".gif"});
  out["videos"] = facade->uploads.names(owner, {".mp4", ".mov", ".m4v", ".webm", ".mkv"});
  out["sounds"] = facade->uploads.names(owner, {".wav", ".mp3", ".flac", ".ogg", ".m4a", ".mp4"});
  return out;
}

http::HttpResponse all_nodes(const FacadePtr& facade, const http::HttpRequest& request) {
  const NameLists lists = lists_for(facade, request.owner);
  Json out = Json::object();
  for (const NodeSpec& node : node_table()) out[node.name] = object_info(node, lists);
  return json_response(200, out);
}

http::HttpResponse one_node(const FacadePtr& facade, const http::HttpRequest& request) {
  Json out = Json::object();
  if (const NodeSpec* node = find_node(request.params.at("class"))) out[node->name] = object_info(*node, lists_for(facade, request.owner));
  return json_response(200, out);
}

// "CUDA0" is of type "cuda" and has the index 0.
Json device_entry(const WorkerStatus& worker, const HostMemory& memory) {
  std::string type;
  for (const char c : worker.device) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) break;
    type += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const bool cpu = type.empty() || type == "cpu";
  const std::uint64_t total = cpu ? memory.total : 0, available = cpu ? memory.available : 0;  // 0: not known here
  return {{"name", worker.device.empty() ? "CPU" : worker.device},
          {"type", cpu ? "cpu" : type},
          {"index", nullptr},
          {"vram_total", total},
          {"vram_free", available},
          {"torch_vram_total", total},
          {"torch_vram_free", available}};
}

http::HttpResponse system_stats(const FacadePtr& facade) {
  const HostMemory memory = host_memory();
  Json devices = Json::array();
  std::set<std::string> seen;
  for (const WorkerStatus& worker : facade->service.status().workers)
    if (seen.insert(worker.device).second) devices.push_back(device_entry(worker, memory));
  return json_response(200, {{"system",
                              {{"os", "linux"},
                               {"ram_total", memory.total},
                               {"ram_free", memory.available},
                               {"comfyui_version", kComfyVersion},
                               {"python_version", ""},
                               {"pytorch_version", ""},
                               {"embedded_python", false},
                               {"argv", Json::array()},
                               {"tritium_version", version()}}},
                             {"devices", devices}});
}

http::HttpResponse models(const FacadePtr& facade) {
  Json out = Json::array();
  for (const auto& [folder, names] : model_names(facade->service)) out.push_back(folder);
  return json_response(200, out);
}

http::HttpResponse models_of(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto all = model_names(facade->service);
  const auto found = all.find(request.params.at("folder"));
  if (found == all.end()) return error_response(404, "not_found", "there is no folder of this name", "GET /models lists them");
  return json_response(200, found->second);
}

// The "__metadata__" of a LoRA's safetensors header.
http::HttpResponse metadata(const FacadePtr& facade, const http::HttpRequest& request) {
  constexpr std::uint64_t kMostBytes = 1u << 20;
  const auto absent = [] { return error_response(404, "not_found", "there is no metadata of this name", "only LoRAs have it here"); };
  const auto name = request.query_value("filename");
  if (request.params.at("folder") != "loras" || !name) return absent();
  const auto file = find_lora_file(facade->service.options(), *name);
  if (!file) return absent();
  std::ifstream in(*file, std::ios::binary);
  std::array<unsigned char, 8> size{};
  if (!in.read(reinterpret_cast<char*>(size.data()), size.size())) return absent();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < size.size(); ++i) bytes |= std::uint64_t{size[i]} << (8 * i);
  if (bytes > kMostBytes) return absent();
  std::string header(bytes, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(bytes))) return absent();
  const auto document = parse_document(header);
  if (!document.ok() || !document->is_object() || !document->contains("__metadata__")) return absent();
  return json_response(200, (*document)["__metadata__"]);
}

http::HttpResponse free_memory(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto body = body_object(request, true);
  if (!body.ok()) return error_response(body.error());
  if (flag_in(*body, "unload_models") || flag_in(*body, "free_memory")) facade->service.free_memory();
  return http::HttpResponse::empty(200);
}

}  // namespace

void add_system_routes(http::Router& router, const FacadePtr& facade) {
  using Request = http::HttpRequest;
  add_both(router, "GET", "/object_info", [facade](const Request& request) { return all_nodes(facade, request); });
  add_both(router, "GET", "/object_info/{class}", [facade](const Request& request) { return one_node(facade, request); });
  add_both(router, "GET", "/system_stats", [facade](const Request&) { return system_stats(facade); });
  add_both(router, "GET", "/features", [](const Request&) { return http::HttpResponse::json(200, server_features()); });
  add_both(router, "GET", "/embeddings", [](const Request&) { return json_response(200, Json::array()); });
  add_both(router, "GET", "/extensions", [](const Request&) { return json_response(200, Json::array()); });
  add_both(router, "GET", "/models", [facade](const Request&) { return models(facade); });
  add_both(router, "GET", "/models/{folder}", [facade](const Request& request) { return models_of(facade, request); });
  add_both(router, "GET", "/view_metadata/{folder}", [facade](const Request& request) { return metadata(facade, request); });
  add_both(router, "POST", "/free", [facade](const Request& request) { return free_memory(facade, request); });
}

}  // namespace tritium::server::comfy
