// Inputs that requests bring, and what a client must not reach by an address.
#include "server/input/address_check.h"
#include "server/input/base64.h"
#include "server/input/media_input.h"
#include "server/input/media_type.h"
#include "support/http_server.h"
#include "unit/temp_folder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <fstream>
#include <functional>

namespace {

using namespace tritium;
using namespace tritium::test;
using server::MediaInputs;
using server::UrlPolicy;

const std::string kPng = std::string("\x89PNG\r\n\x1a\n", 8) + "pixels";

Page page(std::string content, const std::function<void(Page&)>& change = nullptr) {
  Page out;
  out.content = std::move(content);
  if (change) change(out);
  return out;
}
Page redirecting(std::string address) {
  return page("", [&](Page& it) { it.redirect = std::move(address); });
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

UrlPolicy allowing(std::vector<std::string> hosts = {}) {
  UrlPolicy out;
  out.allowed = true;
  out.hosts = std::move(hosts);
  out.max_seconds = 5;
  return out;
}

// The message of the refusal; what is not a refusal of this field is a failure.
std::string refusal(MediaInputs& inputs, const std::string& uri) {
  const auto result = inputs.from_uri(uri, "image_url");
  if (result.ok()) {
    ADD_FAILURE() << uri << " was taken";
    return "";
  }
  EXPECT_EQ(result.error().code, ErrorCode::usage) << uri;
  EXPECT_EQ(result.error().field, "image_url");
  EXPECT_EQ(http::http_status_of(result.error()), 400);
  return result.error().text();
}

TEST(Base64, IsStrict) {
  EXPECT_EQ(server::base64_decoded(""), "");
  EXPECT_EQ(server::base64_decoded("Zg=="), "f");
  EXPECT_EQ(server::base64_decoded("Zm8="), "fo");
  EXPECT_EQ(server::base64_decoded("Zm9v"), "foo");
  EXPECT_EQ(server::base64_decoded("+/+/"), "\xfb\xff\xbf");
  for (const char* bad : {"Zg", "Zg=", "Zg=a", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "-_-_", "====", "=", "Zg==Zg==", "Z==="})
    EXPECT_FALSE(server::base64_decoded(bad)) << bad;
}

TEST(Inputs, DataAddressesBecomeFilesThatGoWithTheObject) {
  TempFolder folder;
  std::filesystem::path file;
  {
    MediaInputs inputs(folder.path() / "spool", {});
    const auto result = inputs.from_uri("data:image/jpeg;base64,iVBORw0KGgpwaXhlbHM=", "image");
    ASSERT_TRUE(result.ok()) << result.error().text();
    file = *result;
    EXPECT_EQ(content_of(file), kPng);
    EXPECT_EQ(file.extension(), ".png");  // what it is, not what it is called
    EXPECT_EQ(inputs.from_uri("DATA:audio/wav;charset=x;base64,YWJj", "sound")->extension(), ".wav");
    EXPECT_EQ(files_in(folder.path() / "spool"), 2u);
  }
  EXPECT_EQ(files_in(folder.path() / "spool"), 0u);
}

TEST(Inputs, DataAddressesThatAreWrongAreRefused) {
  TempFolder folder;
  UrlPolicy policy;
  policy.max_bytes = 3 << 20;
  MediaInputs inputs(folder.path(), policy);
  for (const char* bad : {"data:", "data:,", "data:image/png;base64", "data:image/png;base64,", "data:image/png,abcd",
                          "data:image/png;base64,abc", "data:image/png;base64,ab cd", "data:image/png;base64,abcd\n"})
    refusal(inputs, bad);
  const std::string large(4u << 20, 'A');
  EXPECT_TRUE(inputs.from_uri("data:image/png;base64," + large, "image").ok());
  EXPECT_NE(refusal(inputs, "data:image/png;base64," + large + "AAAA").find("3.00 MiB"), std::string::npos);
  EXPECT_LT(refusal(inputs, "data:image/png;base64," + large.substr(0, large.size() - 1) + "!").size(), 300u);  // the data is not repeated
  std::string padded = large;
  padded.replace((1 << 20) - 2, 2, "==");
  refusal(inputs, "data:image/png;base64," + padded);
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(Inputs, OtherAddressesAreRefused) {
  TempFolder folder;
  MediaInputs inputs(folder.path(), allowing());
  for (const char* bad : {"file:///etc/passwd", "FILE:///etc/passwd", "/etc/passwd", "../x.png", "x.png", "", "ftp://example.com/x",
                          "gopher://127.0.0.1:6379/_x", "unix:/run/x", "//example.com/x", "http:", "http://", "https:///x", "http://[::1",
                          "http:\\\\127.0.0.1\\x", "jar:http://x!/y", " http://example.com"})
    refusal(inputs, bad);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(Inputs, WebAddressesMustBeAllowed) {
  TempFolder folder;
  HttpServer web;
  web.put("/x.png", page(kPng));
  MediaInputs inputs(folder.path(), {});
  EXPECT_NE(refusal(inputs, web.url("/x.png?token=secret")).find("--allow-url-inputs"), std::string::npos);
  EXPECT_EQ(refusal(inputs, web.url("/x.png?token=secret")).find("secret"), std::string::npos);
  EXPECT_TRUE(web.log().empty());
}

TEST(Inputs, ListedHostsAreFetched) {
  TempFolder folder;
  HttpServer web;
  web.put("/x.png", page(kPng));
  web.put("/moved", redirecting("/x.png"));
  const std::string host = web.origin().substr(7);
  for (const std::string& listed : {std::string("127.0.0.1"), host}) {
    MediaInputs inputs(folder.path(), allowing({listed}));
    for (const char* path : {"/x.png", "/moved"}) {
      const auto file = inputs.from_uri(web.url(path), "image");
      ASSERT_TRUE(file.ok()) << file.error().text();
      EXPECT_EQ(content_of(*file), kPng);
      EXPECT_EQ(file->extension(), ".png");
    }
  }
  MediaInputs others(folder.path(), allowing({"127.0.0.1:1", "127.0.0.2", "localhost"}));
  refusal(others, web.url("/x.png"));
}

// Field case A13: the 400 for an address that cannot be reached became a 500.
TEST(Inputs, A13_WhatCannotBeReachedIsAMistakeOfTheRequest) {
  TempFolder folder;
  MediaInputs strict(folder.path(), {}), open(folder.path(), allowing()), listed(folder.path(), allowing({"127.0.0.1"}));
  for (MediaInputs* inputs : {&strict, &open, &listed}) refusal(*inputs, "http://127.0.0.1:9/x.png");
  EXPECT_NE(refusal(listed, "http://127.0.0.1:9/x.png").find("cannot be fetched"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(Inputs, AddressesThatAreNotPublicAreRefusedInEveryForm) {
  TempFolder folder;
  HttpServer web;
  web.put("/x", page(kPng));
  const std::string port = web.origin().substr(web.origin().rfind(':'));
  MediaInputs inputs(folder.path(), allowing());
  for (const char* host : {"127.0.0.1",
                           "127.1",
                           "127.0.1",
                           "2130706433",
                           "0x7f000001",
                           "0x7f.0.0.1",
                           "017700000001",
                           "0177.0.0.01",
                           "0",
                           "0.0.0.0",
                           "localhost",
                           "LOCALHOST",
                           "localhost.",
                           "[::1]",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:7f00:1]",
                           "[::127.0.0.1]",
                           "[0:0:0:0:0:0:0:1]",
                           "user:pass@127.0.0.1",
                           "example.com@127.0.0.1",
                           "127.0.0.1%2f.example.com",
                           "%31%32%37.0.0.1",
                           "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1",
                           "10.0.0.1",
                           "172.16.0.1",
                           "192.168.0.1",
                           "169.254.169.254",
                           "[fe80::1]",
                           "[fd00:ec2::254]",
                           "[64:ff9b::7f00:1]",
                           "[2002:7f00:1::]",
                           "100.100.100.200"}) {
    const std::string text = refusal(inputs, "http://" + std::string(host) + port + "/x");
    EXPECT_EQ(text.find("pass"), std::string::npos);
  }
  EXPECT_TRUE(web.log().empty());
}

TEST(Inputs, RedirectsAreLookedAtAgain) {
  TempFolder folder;
  HttpServer web, inner;
  inner.put("/secret", page("secret"));
  const std::string port = inner.origin().substr(inner.origin().rfind(':'));
  // The first hop is listed by name and port, what it leads to is not.
  const std::string host = web.origin().substr(7);
  MediaInputs inputs(folder.path(), allowing({host}));
  for (const std::string& target : {inner.url("/secret"), "http://localhost" + port + "/secret", "http://2130706433" + port + "/secret",
                                    "http://[::ffff:127.0.0.1]" + port + "/secret", std::string("file:///etc/passwd"),
                                    std::string("gopher://127.0.0.1/"), std::string("data:image/png;base64,AAAA")}) {
    web.put("/to", redirecting(target));
    refusal(inputs, web.url("/to"));
  }
  EXPECT_TRUE(inner.log().empty());
  web.put("/loop", redirecting("/loop"));
  EXPECT_NE(refusal(inputs, web.url("/loop")).find("more than 5"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(Inputs, AnswersThatAreNoMediaAreRefused) {
  TempFolder folder;
  HttpServer web;
  web.put("/empty", page(""));
  web.put("/missing", page("page", [](Page& it) { it.statuses = {404}; }));
  web.put("/wrong", page("page", [](Page& it) { it.statuses = {500}; }));
  web.put("/broken", page(std::string(1000, 'x'), [](Page& it) { it.break_after = 500; }));
  web.put("/stalled", page(std::string(1000, 'x'), [](Page& it) { it.stalls = 1; }));
  web.put("/large", page(std::string(2000, 'x')));
  web.put("/endless", page(std::string(2000, 'x'), [](Page& it) { it.no_length = true; }));
  UrlPolicy policy = allowing({"127.0.0.1"});
  policy.max_bytes = 1500;
  policy.max_seconds = 1;
  MediaInputs inputs(folder.path(), policy);
  EXPECT_NE(refusal(inputs, web.url("/empty")).find("empty"), std::string::npos);
  EXPECT_NE(refusal(inputs, web.url("/missing")).find("404"), std::string::npos);
  EXPECT_NE(refusal(inputs, web.url("/wrong")).find("500"), std::string::npos);
  refusal(inputs, web.url("/broken"));
  EXPECT_NE(refusal(inputs, web.url("/stalled")).find("within 1 s"), std::string::npos);
  EXPECT_NE(refusal(inputs, web.url("/large")).find("larger than"), std::string::npos);
  EXPECT_NE(refusal(inputs, web.url("/endless")).find("larger than"), std::string::npos);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(Inputs, FilesOfFormsAreMoved) {
  TempFolder folder;
  http::FormField field;
  field.name = "image";
  field.is_file = true;
  field.file_name = "../../etc/x.sh";
  field.file = folder.write("upload", kPng);
  field.bytes = kPng.size();
  {
    MediaInputs inputs(folder.path() / "spool", {});
    const auto file = inputs.from_form(field);
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ(file->parent_path(), folder.path() / "spool");
    EXPECT_EQ(file->extension(), ".png");
    EXPECT_EQ(content_of(*file), kPng);
    EXPECT_FALSE(std::filesystem::exists(field.file));
    field.bytes = 0;
    EXPECT_EQ(inputs.from_form(field).error().field, "image");
    field.is_file = false;
    EXPECT_EQ(inputs.from_form(field).error().code, ErrorCode::usage);
  }
  EXPECT_EQ(files_in(folder.path() / "spool"), 0u);
}

TEST(Addresses, OnlyThoseOfThePublicInternetCount) {
  const auto is_public = [](const char* text) {
    const auto address = server::parse_network_address(text);
    EXPECT_TRUE(address) << text;
    return address && server::is_public(*address);
  };
  for (const char* text : {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255",
                           "223.255.255.255", "198.17.255.255", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"})
    EXPECT_TRUE(is_public(text)) << text;
  for (const char* text : {"0.0.0.0",
                           "0.1.2.3",
                           "10.255.255.255",
                           "100.64.0.0",
                           "100.127.255.255",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.0",
                           "172.31.255.255",
                           "192.0.0.192",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.255.255",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.1",
                           "255.255.255.255",
                           "168.63.129.16",
                           "::",
                           "::1",
                           "::ffff:8.8.8.8",
                           "::8.8.8.8",
                           "64:ff9b::a00:1",
                           "64:ff9b:1::1",
                           "100::1",
                           "fc00::1",
                           "fdff::1",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:808:808::1",
                           "3fff::1",
                           "5f00::1"})
    EXPECT_FALSE(is_public(text)) << text;
}

TEST(MediaTypes, GoByContentFirst) {
  EXPECT_EQ(server::media_suffix(kPng, "video/mp4"), ".png");
  EXPECT_EQ(server::media_suffix(std::string("\0\0\0\x18"
                                             "ftypisom",
                                             12),
                                 ""),
            ".mp4");
  EXPECT_EQ(server::media_suffix("RIFF....WAVE", ""), ".wav");
  EXPECT_EQ(server::media_suffix("?", "audio/mpeg; x=y"), ".mp3");
  EXPECT_EQ(server::media_suffix("?", "text/html"), ".bin");
  EXPECT_EQ(server::media_suffix("", ""), ".bin");
}

}  // namespace
