// SPDX-License-Identifier: Apache-2.0
// Requests to the API of a small model, without sockets.
#pragma once

#include "http/served_model_test.h"

namespace ridge::http {

class ApiTest : public ServedModelTest {
 protected:
  explicit ApiTest(ApiKeys keys = {}, int64_t without_token = 0, const std::string& name = "small")
      : ServedModelTest(std::move(keys), 2, 4, without_token, name) {
    api_.open(model_);
  }

  Reply ask(const std::string& method, const std::string& path, const std::string& body) {
    Reply reply = api_.reply({method, path, authorization_, body}, [] {});
    if (reply.answer == nullptr) return reply;
    for (Answer::Piece piece; !piece.is_last;) {
      piece = reply.answer->take();
      reply.body += piece.bytes;
      reply.status = piece.status;
      if (!piece.is_last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    reply.answer = nullptr;
    return reply;
  }
  json post(const std::string& path, const json& body) {
    const Reply reply = ask("POST", path, body.dump());
    EXPECT_EQ(reply.status, 200) << body << reply.body;
    return json::parse(reply.body);
  }
  void expect_error(const Reply& reply, int status, const std::string& param = "") {
    EXPECT_EQ(reply.status, status) << reply.body;
    const json error = json::parse(reply.body).at("error");
    EXPECT_FALSE(error.at("message").get<std::string>().empty());
    EXPECT_TRUE(error.at("type").is_string());
    EXPECT_TRUE(error.contains("code"));
    EXPECT_EQ(error.at("param"), param.empty() ? json() : json(param)) << error;
  }
  void expect_refused(const json& fields, int status, const std::string& param) {
    json body{{"prompt", "Once"}, {"max_tokens", 1}};
    body.update(fields);
    SCOPED_TRACE(body.dump());
    expect_error(ask("POST", "/v1/completions", body.dump()), status, param);
  }

  std::string authorization_;
};

}  // namespace ridge::http
