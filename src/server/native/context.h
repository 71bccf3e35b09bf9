// What the handlers of this dialect share.
#pragma once

#include "server/native/event_hub.h"
#include "server/native/native.h"
#include "server/native/translate.h"
#include "server/native/video_texts.h"

#include <nlohmann/json.hpp>

#include <atomic>

namespace tritium::server::native {

struct Context {
  Context(JobService& given, Options chosen);

  JobService& service;
  Options options;
  nlohmann::json model;          // as JobService::model_json()
  std::string model_name;        // of it
  Size default_size;             // of its clips
  std::atomic<int> waiting = 0;  // requests of /v1/videos/sync
  EventHub events;
  VideoTexts texts;
};

// A handler whose errors become answers; of videos that are not there in the words that clients look for.
http::Handler answering(const std::shared_ptr<Context>& context, Result<http::HttpResponse> (*handler)(Context&, const http::HttpRequest&));
http::HttpResponse not_there(const http::HttpRequest& request, const Error& error);

// Reads the body and calls `use` with what it asks for, while its files are there; errors of both become answers.
http::HttpResponse with_translated(Context& context, const http::HttpRequest& request,
                                   const std::function<Result<http::HttpResponse>(Translated&)>& use);
Result<Submitted> submit(Context& context, Translated& translated);

void add_video_routes(http::Router& router, const std::shared_ptr<Context>& context);    // create, list, get, delete
void add_again_routes(http::Router& router, const std::shared_ptr<Context>& context);    // cancel, retry, remix
void add_content_routes(http::Router& router, const std::shared_ptr<Context>& context);  // files, and waiting for them
void add_event_routes(http::Router& router, const std::shared_ptr<Context>& context);
void add_model_routes(http::Router& router, const std::shared_ptr<Context>& context);  // models, LoRAs, this dialect's description

}  // namespace tritium::server::native
