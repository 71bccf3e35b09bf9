// Uploads and downloads.
#include "comfy_server.h"

#include "media/picture.h"
#include "media/png_writer.h"

namespace tritium::test {
namespace {

std::string stored_name(const http::HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << document(response).dump();
  return document(response).value("name", "");
}

TEST(ComfyFiles, UploadAndView) {
  ComfyServer server;
  const auto stored = document(server.upload("a b.png", "picture", {{"subfolder", "shots/one"}}));
  EXPECT_EQ(stored["name"], "a b.png");
  EXPECT_EQ(stored["subfolder"], "shots/one");
  EXPECT_EQ(stored["type"], "input");
  const auto response = server.call("GET", "/view?filename=a b.png&subfolder=shots/one&type=input");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "image/png");
  EXPECT_EQ(content_of(std::get<http::FileBody>(response.body).file), "picture");
  EXPECT_EQ(server.call("GET", "/view?filename=a b.png&type=input").status, 404);
  EXPECT_EQ(server.call("GET", "/view?filename=a b.png [input]&subfolder=shots/one").status, 200);
}

TEST(ComfyFiles, NamesThatAreTaken) {
  ComfyServer server;
  EXPECT_EQ(stored_name(server.upload("a.png", "one")), "a.png");
  EXPECT_EQ(stored_name(server.upload("a.png", "one")), "a.png");
  EXPECT_EQ(stored_name(server.upload("a.png", "two")), "a (1).png");
  EXPECT_EQ(stored_name(server.upload("a.png", "two")), "a (1).png");
  EXPECT_EQ(stored_name(server.upload("a.png", "three", {{"overwrite", "true"}})), "a.png");
  EXPECT_EQ(content_of(std::get<http::FileBody>(server.call("GET", "/view?filename=a.png&type=input").body).file), "three");
}

TEST(ComfyFiles, A12_NamesThatLeadOut) {
  ComfyServer server;
  for (const char* name : {"../x.png", "/etc/passwd", "a/b.png", "..", ".ssh", "a\\b.png", "", "a\nb.png"})
    EXPECT_EQ(server.upload(name, "x").status, 400) << name;
  for (const char* folder : {"..", "../..", "a/../../..", "/etc", "a/.hidden"})
    EXPECT_EQ(server.upload("x.png", "x", {{"subfolder", folder}}).status, 400) << folder;
  EXPECT_EQ(server.upload("x.png", "x", {{"type", "models"}}).status, 400);
  for (const char* target : {"/view?filename=../secret", "/view?filename=/etc/passwd&type=input",
                             "/view?filename=x&subfolder=../..&type=input", "/view?filename=x.png&type=/etc", "/view?filename=", "/view"})
    EXPECT_EQ(server.call("GET", target).status, 400) << target;
  EXPECT_EQ(server.call("GET", "/view?filename=nothing.png&type=input").status, 404);
  EXPECT_EQ(answer(server.router, "POST", "/upload/image", "x").status, 400);
}

TEST(ComfyFiles, WhatABrowserCouldRunIsADownload) {
  ComfyServer server;
  server.upload("a.svg", "<svg onload=alert(1)>");
  server.upload("b.html", "<script>");
  for (const char* name : {"a.svg", "b.html"}) {
    const auto response = server.call("GET", std::string("/view?type=input&filename=") + name);
    EXPECT_EQ(response.content_type, "application/octet-stream");
    EXPECT_EQ(std::get<http::FileBody>(response.body).download_name, name);
    EXPECT_EQ(header_of(response, "x-content-type-options"), "nosniff");
  }
}

TEST(ComfyFiles, UploadsHaveALimitTogether) {
  comfy::Options options;
  options.max_upload_bytes = 10;
  ComfyServer server(options);
  EXPECT_EQ(server.upload("a.png", "12345").status, 200);
  const auto response = server.upload("b.png", "1234567");
  EXPECT_GE(response.status, 400);
  EXPECT_NE(document(response)["error"]["message"].get<std::string>().find("10 B"), std::string::npos);
}

TEST(ComfyFiles, UploadedPicturesAreInputs) {
  ComfyServer server;
  Json prompt = prompt_of("comfy_i2v");
  auto refused = server.call("POST", "/prompt", {{"prompt", prompt}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(document(refused)["node_errors"]["114"]["errors"][0]["extra_info"]["input_name"], "image");
  const std::vector<std::uint8_t> rgb(64 * 64 * 3, 128);
  const auto file = server.spool.path() / "made.png";
  ASSERT_TRUE(write_png(file, rgb, 64, 64).ok());
  server.upload("mouse.png", content_of(file));
  const std::string id = server.queue(prompt);
  EXPECT_FALSE(server.service.get(id, "")->spec.request.first_frame.empty());
  prompt["114"]["inputs"]["image"] = "../mouse.png";
  EXPECT_EQ(server.call("POST", "/prompt", {{"prompt", prompt}}).status, 400);
}

// A clip of one prompt is the reference of the next.
TEST(ComfyFiles, ClipsAreInputsToo) {
  ComfyServer server;
  const std::string id = server.queue(prompt_of("comfy_ksampler"));
  server.service.run(id);
  server.service.complete(id);
  const std::string name = server.get("/history/" + id)[id]["outputs"]["12"]["images"][0]["filename"];
  Json prompt = prompt_of("comfy_r2v");
  for (const char* each : {"ref_images.ref_image_0", "ref_images.ref_image_1"}) prompt["136"]["inputs"].erase(each);
  prompt["40"] = {{"class_type", "LoadVideo"}, {"inputs", {{"file", name + " [output]"}}}};
  prompt["41"] = {{"class_type", "GetVideoComponents"}, {"inputs", {{"video", {"40", 0}}}}};
  prompt["136"]["inputs"]["ref_videos.ref_video_0"] = {"41", 0};
  const std::string next = server.queue(prompt);
  ASSERT_EQ(server.service.get(next, "")->spec.request.references.size(), 1u);
}

TEST(ComfyFiles, ClipsByTheirNames) {
  ComfyServer server;
  Json prompt = prompt_of("comfy_ksampler");
  prompt["12"]["inputs"]["filename_prefix"] = "video/clip";
  const std::string id = server.queue(prompt);
  server.service.run(id);
  const std::string name = comfy::clip_file_name("clip", id, 1);
  EXPECT_EQ(server.call("GET", "/view?filename=" + name + "&subfolder=video").status, 404);  // not before it is complete
  server.service.complete(id);
  const auto response = server.call("GET", "/view?filename=" + name + "&subfolder=video&type=output");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "video/mp4");
  EXPECT_FALSE(std::get<http::FileBody>(response.body).etag.empty());
  EXPECT_EQ(server.call("GET", "/view?filename=" + name).status, 404);
  EXPECT_EQ(server.call("GET", "/view?filename=" + comfy::clip_file_name("other", id, 1) + "&subfolder=video").status, 404);
  EXPECT_EQ(server.call("GET", "/view?filename=" + comfy::clip_file_name("clip", id, 2) + "&subfolder=video").status, 404);
  const auto preview = server.call("GET", "/view?filename=" + name + "&subfolder=video&preview=webp;90");
  EXPECT_EQ(preview.content_type, "image/jpeg");
}

TEST(ComfyFiles, MasksKeepTheColoursOfTheirPicture) {
  ComfyServer server;
  std::vector<std::uint8_t> rgb(8 * 8 * 3);
  for (std::size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<std::uint8_t>(i);
  const auto file = server.spool.path() / "made.png";
  ASSERT_TRUE(write_png(file, rgb, 8, 8).ok());
  server.upload("a.png", content_of(file));
  const auto response = server.upload("mask.png", "mask", {{"original_ref", R"({"filename": "a.png", "type": "input"})"}}, "/upload/mask");
  ASSERT_EQ(response.status, 200) << document(response).dump();
  const auto view = server.call("GET", "/view?filename=mask.png&type=input");
  const auto picture = load_picture(std::get<http::FileBody>(view.body).file);
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(picture->rgb, rgb);
  EXPECT_EQ(server.upload("m.png", "mask", {}, "/upload/mask").status, 400);
  EXPECT_EQ(server.upload("m.png", "mask", {{"original_ref", R"({"filename": "../a.png", "type": "input"})"}}, "/upload/mask").status, 400);
  EXPECT_EQ(server.upload("m.png", "mask", {{"original_ref", R"({"filename": "b.png", "type": "input"})"}}, "/upload/mask").status, 404);
}

TEST(ComfyFiles, ModelsAndTheirMetadata) {
  ServiceOptions service;
  TempFolder folder;
  std::filesystem::create_directories(folder.path() / "model");
  std::filesystem::create_directories(folder.path() / "loras/sub");
  const std::string header = R"({"__metadata__":{"title":"x"}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  folder.write("loras/sub/a.safetensors", bytes + header);
  folder.write("secret.safetensors", bytes + header);
  service.engine.model = folder.path() / "model";
  FakeJobService jobs(service);
  http::Router router;
  comfy::add_routes(router, jobs);
  EXPECT_EQ(document(answer(router, "GET", "/models/loras")), OrderedJson::array({"sub/a.safetensors"}));
  EXPECT_EQ(answer(router, "GET", "/models/nothing").status, 404);
  EXPECT_EQ(document(answer(router, "GET", "/view_metadata/loras?filename=sub/a.safetensors"))["title"], "x");
  EXPECT_EQ(answer(router, "GET", "/view_metadata/loras?filename=../secret.safetensors").status, 404);
  router = {};
}

}  // namespace
}  // namespace tritium::test
