// SPDX-License-Identifier: Apache-2.0
// A server in the test's process that answers every request with a stream of one token, for
// commands that need some server.
#pragma once

#include <string>

#include "http/server.h"

namespace ridge::apps {

class OneTokenServer {
 public:
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

 private:
  struct Site : http::Site {
    std::optional<http::Reply> refuse(const http::Message&) const override { return std::nullopt; }
    http::Reply reply(const http::Message& message, std::function<void()>) override {
      if (message.path == "/v1/models") return {200, R"({"data": [{"id": "one"}]})"};
      return {200, "data: {\"choices\": [{\"text\": \"a\"}]}\n\ndata: [DONE]\n\n"};
    }
    http::Reply fault(int status, const std::string& message) const override {
      return {status, message};
    }
    bool asks_for_state(const http::Message&) const override { return false; }
  };

  Site site_;
  http::Server server_{site_, {.port = 0, .connections = 4096}};
};

}  // namespace ridge::apps
