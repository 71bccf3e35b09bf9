// What the routes of the dialect share.
#pragma once

#include "server/minimax/callbacks.h"
#include "server/minimax/files.h"
#include "server/minimax/links.h"
#include "server/minimax/tasks.h"

namespace tritium::server::minimax {

struct Facade {
  Facade(JobService& service, const Options& options);

  JobService& service;
  Options options;
  Files files;
  Links links;
  Callbacks callbacks;

  // A task of this owner. Error: not_found.
  [[nodiscard]] Result<Job> task(const std::string& owner, const std::string& id) const;
  // Newest first.
  [[nodiscard]] std::vector<Job> tasks(const std::string& owner) const;
  [[nodiscard]] std::string address(const http::HttpRequest& request, const Job& job) const;
  // Plans and stores it. Errors as JobService::submit, and of its files.
  Result<Job> create(const http::HttpRequest& request, const Creation& creation);
};

using FacadePtr = std::shared_ptr<Facade>;

void add_v2_routes(http::Router& router, const FacadePtr& facade);
void add_v1_routes(http::Router& router, const FacadePtr& facade);
void add_file_routes(http::Router& router, const FacadePtr& facade);

std::int64_t unix_seconds();
// Errors of this kind of request as a status: what cannot be is the client's matter.
int status_of(const Error& error);
http::HttpResponse v2_error(const http::HttpRequest& request, const Error& error);
http::HttpResponse v1_error(const Error& error);
http::HttpResponse json_response(int status, const Json& document);

}  // namespace tritium::server::minimax
