// The program: serve, status and stop, as an operator meets them.
#include "api/client.h"
#include "support/tritium_program.h"

#include <csignal>

namespace tritium::test {
namespace {

class Serve : public TritiumProgram {
 protected:
  [[nodiscard]] Command serve(const Arguments& more = {}) const {
    return command(Arguments{"serve", "--data", path("data"), "--port", "0", "--device", "CPU"} + more);
  }
  // The port of a server that has said where it listens; 0 when it has ended.
  static int port_of(Process& server) {
    if (!server.wait_for_error_text("listening at ") || !server.wait_for_error_text("jobs in ")) return 0;
    const std::string& text = server.error_text();
    const std::size_t colon = text.find(':', text.find("listening at ") + sizeof("listening at http"));
    return std::stoi(text.substr(colon + 1));
  }
  static nlohmann::json post(int port, const std::string& target, const nlohmann::json& body, const std::string& fields = {}) {
    const Answer answer = ask(port, "POST", target, "content-type: application/json\r\n" + fields, body.dump());
    EXPECT_NE(answer.status, 0);
    nlohmann::json out = parse(answer.body);
    out["http_status"] = answer.status;
    return out;
  }
  static nlohmann::json get(int port, const std::string& target, const std::string& fields = {}) {
    return parse(ask(port, "GET", target, fields).body);
  }
  static nlohmann::json finished(int port, const std::string& id) {
    for (;;) {
      nlohmann::json video = get(port, "/v1/videos/" + id);
      const std::string status = video.value("status", "");
      if (status != "queued" && status != "in_progress") return video;
      usleep(20'000);
    }
  }
  static constexpr const char* kPrompt = "a red circle moves to the right on a blue background with a low tone";
};

TEST_F(Serve, MakesAClipSaysHowItDoesAndStops) {
  Process server(serve());
  const int port = port_of(server);
  ASSERT_NE(port, 0) << server.error_text();
  const nlohmann::json made = post(port, "/v1/videos", {{"prompt", kPrompt}, {"steps", 2}});
  ASSERT_EQ(made["http_status"], 200) << made;
  const nlohmann::json video = finished(port, made["id"]);
  EXPECT_EQ(video["status"], "completed") << video;
  const Answer clip = ask(port, "GET", video["url"]);
  EXPECT_EQ(clip.status, 200);
  EXPECT_EQ(clip.field("content-type"), "video/mp4");
  EXPECT_EQ(clip.body.size(), video["outputs"][0]["bytes"]);
  EXPECT_EQ(ask(port, "GET", "/ready").status, 200);
  EXPECT_NE(ask(port, "GET", "/metrics").body.find("tritium_http_requests_total{method=\"POST\",path=\"/v1/videos\",status=\"200\"} 1"),
            std::string::npos);
  EXPECT_EQ(ask(port, "GET", "/system_stats").status, 200);  // ComfyUI's
  EXPECT_EQ(ask(port, "GET", "/").status, 200);              // the page

  const nlohmann::json status = json({"status", "--data", path("data"), "--json"});
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["workers"].size(), 1u);
  EXPECT_NE(succeed({"status", "--url", "http://127.0.0.1:" + std::to_string(port)}).out.find("ready"), std::string::npos);
  // One server per folder.
  const Outcome second = run(serve());
  EXPECT_NE(second.status, 0);
  EXPECT_NE(second.err.find(path("data")), std::string::npos) << second.err;

  EXPECT_EQ(tritium({"stop", "--data", path("data")}).status, 0);
  const Outcome outcome = server.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(tritium({"status", "--data", path("data")}).status, 7);
  EXPECT_EQ(tritium({"stop", "--data", path("data")}).status, 7);
}

// A17, A18: kept at its checkpoint, finished after the next start.
TEST_F(Serve, A17_JobsOutliveTheServer) {
  std::string id;
  {
    Process server(serve({"--drain-seconds", "0"}));
    const int port = port_of(server);
    ASSERT_NE(port, 0) << server.error_text();
    id = post(port, "/v1/videos", {{"prompt", kPrompt}, {"steps", 200}})["id"];
    while (get(port, "/v1/videos/" + id)["stage"] != "denoise") usleep(20'000);
    server.send(SIGTERM);
    EXPECT_EQ(server.finish().status, 0);
  }
  Process server(serve());
  const int port = port_of(server);
  ASSERT_NE(port, 0) << server.error_text();
  const nlohmann::json video = finished(port, id);
  EXPECT_EQ(video["status"], "completed") << video;
  server.send(SIGKILL);
}

TEST_F(Serve, KeysHaveJobsOfTheirOwnAndLimits) {
  const auto keys = folder_.write("keys", "alice 0123456789abcdef max_queued=1\nbob fedcba9876543210\n");
  std::filesystem::permissions(keys, std::filesystem::perms::owner_read);
  Process server(serve({"--keys", keys.string(), "--log-format", "json"}));
  const int port = port_of(server);
  ASSERT_NE(port, 0) << server.error_text();
  const std::string alice = "authorization: Bearer 0123456789abcdef\r\n", bob = "authorization: Bearer fedcba9876543210\r\n";
  EXPECT_EQ(ask(port, "GET", "/v1/videos").status, 401);
  EXPECT_EQ(ask(port, "GET", "/metrics").status, 401);
  EXPECT_EQ(ask(port, "GET", "/health").status, 200);
  const std::string id = post(port, "/v1/videos", {{"prompt", kPrompt}, {"steps", 1000}}, alice)["id"];
  while (get(port, "/v1/videos/" + id, alice)["status"] != "in_progress") usleep(20'000);
  const std::string waiting = post(port, "/v1/videos", {{"prompt", kPrompt}}, alice)["id"];
  const nlohmann::json refused = post(port, "/v1/videos", {{"prompt", kPrompt}}, alice);
  EXPECT_EQ(refused["http_status"], 503) << refused;
  EXPECT_EQ(post(port, "/v1/videos", {{"prompt", kPrompt}}, bob)["http_status"], 200);
  EXPECT_EQ(ask(port, "GET", "/v1/videos/" + id, bob).status, 404);
  EXPECT_EQ(get(port, "/v1/videos", bob)["data"].size(), 1u);
  EXPECT_EQ(ask(port, "DELETE", "/v1/videos/" + waiting, alice).status, 200);
  EXPECT_EQ(post(port, "/v1/videos/" + id + "/cancel", nlohmann::json::object(), alice)["http_status"], 200);
  EXPECT_EQ(finished(port, "nobody").value("status", "none"), "none");
  server.send(SIGTERM);
  const Outcome outcome = server.finish();
  EXPECT_EQ(outcome.status, 0);
  // Every line is JSON, requests have an id, and no line holds a key or a prompt.
  std::size_t requests = 0;
  for (std::size_t at = outcome.err.find('{'); at < outcome.err.size();) {
    const std::size_t end = std::min(outcome.err.find('\n', at), outcome.err.size());
    const auto line = nlohmann::json::parse(outcome.err.substr(at, end - at), nullptr, false);
    EXPECT_FALSE(line.is_discarded()) << outcome.err.substr(at, end - at);
    requests += line.is_object() && line.value("request_id", "").starts_with("req_") ? 1 : 0;
    at = end + 1;
  }
  EXPECT_GT(requests, 10u);
  EXPECT_EQ(outcome.err.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(outcome.err.find("red circle"), std::string::npos);
}

TEST_F(Serve, OptionsFromAFileAndWhatIsWrongWithThem) {
  folder_.write("good.toml", "[serve]\nport = 0\ndevice = \"CPU\"\ndata = \"" + path("data") + "\"\nmax-queued = 3\n");
  Process server(command({"--config", path("good.toml"), "serve", "--no-previews"}));
  EXPECT_NE(port_of(server), 0) << server.error_text();
  server.send(SIGINT);
  EXPECT_EQ(server.finish().status, 0);
  folder_.write("bad.toml", "[serve]\nmax-queueed = 3\n");
  const Outcome unknown = tritium({"--config", path("bad.toml"), "serve"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("max-queueed"), std::string::npos) << unknown.err;
  const std::pair<Arguments, const char*> wrong[] = {{{"--port", "99999"}, "port"},
                                                     {{"--tls-cert", path("none.pem")}, "tls-key"},
                                                     {{"--keys", path("none")}, "none"},
                                                     {{"--url-host", "x"}, "url-host"},
                                                     {{"--host", "not an address"}, "address"},
                                                     {{"--worker", "NOPE0"}, "NOPE0"},
                                                     {{"--model", path("nothing")}, "nothing"},
                                                     {{"--max-queued", "0"}, "max-queued"}};
  for (const auto& [arguments, word] : wrong) {
    const Outcome outcome = run(serve(arguments));
    EXPECT_NE(outcome.status, 0) << word;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace tritium::test
