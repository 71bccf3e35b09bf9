// Uploads, and files for download.
#include "server/comfy/facade.h"
#include "server/comfy/names.h"

#include "base/try.h"
#include "media/picture.h"
#include "media/png_writer.h"

#include <fmt/format.h>

namespace tritium::server::comfy {
namespace {

const http::FormField* field(const http::HttpRequest& request, const std::string& name) {
  for (const http::FormField& each : request.form)
    if (each.name == name) return &each;
  return nullptr;
}

std::string field_text(const http::HttpRequest& request, const std::string& name) {
  const auto* found = field(request, name);
  return found != nullptr && !found->is_file ? found->value : std::string();
}

bool wants_overwrite(const http::HttpRequest& request) {
  const std::string word = field_text(request, "overwrite");
  return word == "true" || word == "1";
}

http::HttpResponse stored_response(const Result<Uploads::Stored>& stored) {
  if (!stored.ok()) return error_response(stored.error());
  return json_response(200, {{"name", stored->name}, {"subfolder", stored->subfolder}, {"type", stored->type}});
}

Result<http::FormField> uploaded_image(const http::HttpRequest& request) {
  const auto* image = field(request, "image");
  if (image == nullptr || !image->is_file)
    return Error{ErrorCode::usage, "there is no file", "image", "send multipart/form-data with a file in the field 'image'"};
  return *image;
}

http::HttpResponse upload_image(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto image = uploaded_image(request);
  if (!image.ok()) return error_response(image.error());
  return stored_response(facade->uploads.store(request.owner, *image, field_text(request, "subfolder"), field_text(request, "type"),
                                               wants_overwrite(request)));
}

// The picture that a mask was painted for.
Result<std::filesystem::path> original_of(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto reference = parse_document(field_text(request, "original_ref"));
  const auto text = [&](const char* name) {
    const auto found = reference.ok() && reference->is_object() ? reference->find(name) : Json::const_iterator();
    return reference.ok() && reference->is_object() && found != reference->end() && found->is_string() ? found->get<std::string>()
                                                                                                       : std::string();
  };
  const std::string name = text("filename");
  if (name.empty())
    return Error{ErrorCode::usage, "names no picture", "original_ref", "send {\"filename\", \"subfolder\", \"type\"} as JSON"};
  const MarkedName marked = split_mark(name);
  const std::string type = !marked.type.empty() ? marked.type : text("type").empty() ? "output" : text("type");
  return facade->uploads.find(request.owner, type, text("subfolder"), marked.name);
}

// The colours of the original under the new name. Masks themselves are not kept: no node of a MiniMax-H3 workflow reads one.
http::HttpResponse upload_mask(const FacadePtr& facade, const http::HttpRequest& request) {
  auto image = uploaded_image(request);
  if (!image.ok()) return error_response(image.error());
  const auto original = original_of(facade, request);
  if (!original.ok()) return error_response(original.error());
  const auto picture = load_picture(*original);
  if (!picture.ok()) return error_response(picture.error());
  const std::filesystem::path made = image->file.string() + ".rgb.png";
  if (const auto written = write_png(made, picture->rgb, picture->width, picture->height); !written.ok())
    return error_response(written.error());
  image->file = made;
  std::error_code ignored;
  image->bytes = std::filesystem::file_size(made, ignored);
  auto response = stored_response(facade->uploads.store(request.owner, *image, field_text(request, "subfolder"),
                                                        field_text(request, "type"), wants_overwrite(request)));
  std::filesystem::remove(made, ignored);
  return response;
}

http::HttpResponse clip_response(const Facade::Clip& clip, const http::HttpRequest& request, const std::string& name) {
  const JobOutput& output = clip.job.outputs.front();
  if (request.query_value("preview") && !output.thumbnail.empty()) return http::HttpResponse::file(output.thumbnail, "image/jpeg");
  auto response = http::HttpResponse::file(output.video, "video/mp4", output.sha256);
  response.headers.emplace_back("content-disposition", fmt::format("inline; filename=\"{}\"", name));
  return response;
}

// Names with quotes or bytes beyond ASCII stay out of the header.
bool plain_name(const std::string& name) {
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e || c == '"' || c == '\\') return false;
  return true;
}

http::HttpResponse view(const FacadePtr& facade, const http::HttpRequest& request) {
  const auto given = request.query_value("filename");
  if (!given || given->empty())
    return error_response(400, "invalid_request", "filename: is missing", "names are in the history, under outputs");
  const MarkedName marked = split_mark(*given);
  if (marked.name[0] == '/' || marked.name.find("..") != std::string::npos)
    return error_response(400, "invalid_request", "filename: leads out of the folder", "give the name alone, and the folder as subfolder");
  const std::string name = marked.name.substr(marked.name.rfind('/') + 1);
  const std::string subfolder = request.query_value("subfolder").value_or("");
  const std::string type = !marked.type.empty() ? marked.type : request.query_value("type").value_or("output");
  if (request.query_value("channel") == "a")
    return error_response(400, "invalid_request", "channel: 'a' is not offered",
                          "pictures are kept without their masks; allowed are rgba and rgb");
  if (type == "output")
    if (const auto clip = facade->clip(request.owner, subfolder, name); clip.ok()) return clip_response(*clip, request, name);
  const auto file = facade->uploads.find(request.owner, type, subfolder, name);
  if (!file.ok()) return error_response(file.error());
  const std::string media = media_type(name);
  const bool harmless = media != "application/octet-stream";
  auto response = http::HttpResponse::file(*file, media, "", harmless || !plain_name(name) ? "" : name);
  response.headers.emplace_back("x-content-type-options", "nosniff");
  if (!harmless && !plain_name(name)) response.headers.emplace_back("content-disposition", "attachment");
  return response;
}

}  // namespace

void add_file_routes(http::Router& router, const FacadePtr& facade) {
  add_both(router, "POST", "/upload/image", [facade](const http::HttpRequest& request) { return upload_image(facade, request); });
  add_both(router, "POST", "/upload/mask", [facade](const http::HttpRequest& request) { return upload_mask(facade, request); });
  add_both(router, "GET", "/view", [facade](const http::HttpRequest& request) { return view(facade, request); });
}

}  // namespace tritium::server::comfy
