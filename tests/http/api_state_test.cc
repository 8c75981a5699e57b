// SPDX-License-Identifier: Apache-2.0
// The state of the API, in its words: a full queue, its end, a model without a chat
// format; and the date that a format writes.
#include <fmt/chrono.h>

#include <ctime>

#include "files/json.h"
#include "http/api_requests.h"

namespace ridge::http {
namespace {

// The message and the code of an error.
std::pair<std::string, std::string> said(const Reply& reply) {
  const json error = json::parse(reply.body).at("error");
  return {error.at("message"), error.at("code").is_null() ? "" : error.at("code")};
}

TEST_F(ApiTest, IsReadyUntilTheQueueIsFull) {
  const auto gate = std::make_shared<serve::Gate>();
  serve::Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  serve::AnswerReader running(engine_, request, gate);
  running.await(1);
  std::vector<std::unique_ptr<serve::AnswerReader>> waiting;
  const auto wait = [&] {
    waiting.push_back(std::make_unique<serve::AnswerReader>(engine_, request));
  };
  for (int i = 0; i < 3; ++i) wait();
  ASSERT_EQ(engine_.counts().waiting, 3);
  EXPECT_EQ(ask("GET", "/ready", "").status, 200);
  wait();
  const Reply full = ask("GET", "/ready", "");
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(said(full), (std::pair<std::string, std::string>{"[queue] the server's queue is full",
                                                             "queue_full"}));
  EXPECT_EQ(ask("GET", "/health", "").status, 200);
  gate->open();
  for (auto& each : waiting) each->finished();
  EXPECT_EQ(ask("GET", "/ready", "").status, 200);
}

TEST_F(ApiTest, SaysThatItStops) {
  api_.drain();
  for (const char* path : {"/health", "/ready"})
    EXPECT_EQ(said(ask("GET", path, "")),
              (std::pair<std::string, std::string>{"the server is stopping", "draining"}));
}

TEST_F(ApiTest, RefusesBiasesInItsWords) {
  const auto refused = [&](const json& biases) {
    const Reply reply =
        ask("POST", "/v1/completions", json{{"prompt", "Once"}, {"logit_bias", biases}}.dump());
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(json::parse(reply.body).at("error").at("param"), "logit_bias");
    return said(reply).first;
  };
  const std::string keys = "[logit_bias] expected token ids from 0 to 159 as keys, got ",
                    values = "[logit_bias] expected biases from -100 to 100, got ";
  EXPECT_EQ(refused(json::array({1})), "[logit_bias] expected an object, got a list");
  for (const char* key : {"160", "-1", "1x", "", "99999999999"})
    EXPECT_EQ(refused({{key, 1}}), keys + json(key).dump());
  EXPECT_EQ(refused({{"1", "2"}}), values + "\"2\"");
  EXPECT_EQ(refused({{"1", 100.5}}), values + "100.5");
  EXPECT_EQ(refused({{"1", -101}}), values + "-101");
  json many = json::object();
  for (int i = 0; i <= serve::kMostLogitBiases; ++i) many[std::to_string(i)] = 1;
  EXPECT_EQ(refused(many), "[logit_bias] expected at most 1024 tokens, got 1025");
  for (const json& fine : {json{{"159", 100}}, json{{"0", -100}}, json::object()})
    post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 1}, {"logit_bias", fine}});
}

TEST_F(ApiTest, NeedsAChatFormatForMessages) {
  const ServedModel plain("small", engine_, std::nullopt);
  api_.open(plain);
  const Reply reply = ask("POST", "/v1/chat/completions",
                          json{{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}.dump());
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(said(reply).first,
            "[messages] the model file has no chat template; start the server with "
            "--chat-template, or use /v1/completions");
  EXPECT_EQ(json::parse(reply.body).at("error").at("param"), "messages");
}

TEST_F(ApiTest, SaysWhatATemplateDoesNotTake) {
  const ServedModel gemma("small", engine_,
                          serve::ChatFormat{text::ChatTemplate::named("gemma"), ""});
  api_.open(gemma);
  const json message = {{"role", "system"}, {"content", "Hi"}};
  const Reply reply =
      ask("POST", "/v1/chat/completions", json{{"messages", {message, message}}}.dump());
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body).at("error").at("param"), "messages");
  EXPECT_FALSE(said(reply).first.empty());
}

// A server that runs for days writes the day of the request.
TEST(DatedChat, HasTheDateOfTheRequest) {
  const models::ModelFile file =
      models::ModelFile::open(serve::data_folder() + "llama3_bf16_sharded");
  const text::Tokenizer tokenizer = serve::bytes_tokenizer(file.config().vocabulary);
  serve::SessionOptions options = serve::at_level("compiled", 400);
  options.prefix_caching = true;
  serve::Session session(file, options, serve::cpu_backend());
  serve::Engine engine(session, tokenizer, {});
  std::string jinja =
      files::read_json(test_data("text/chat_templates.json"))["templates"]["llama3.1"];
  const std::string own = "\"26 Jul 2024\"";
  jinja.replace(jinja.find(own), own.size(), "strftime_now(\"%d %b %Y\")");
  serve::ChatFormat format{text::ChatTemplate::recognise(jinja), "01 Jan 2001"};
  const ServedModel model("small", engine, format);
  Api api("ridge test", {});
  api.open(model);
  const json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}};
  const auto today = [] { return fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr))); };
  const std::string before = today();
  Reply reply = api.reply({"POST", "/v1/chat/completions", "", body.dump()}, [] {});
  ASSERT_NE(reply.answer, nullptr);
  while (!reply.answer->take().is_last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (before != today()) GTEST_SKIP() << "midnight came between";
  // The same prompt finds its whole blocks; one of another date only those before the date.
  const auto cached = [&](const std::string& date) {
    format.date = date;
    serve::Request request;
    request.prompt =
        serve::encode_chat(std::vector<text::ChatMessage>{{"user", "Hi"}}, format, tokenizer);
    request.max_tokens = 1;
    serve::AnswerReader reader(engine, request);
    const int64_t tokens = reader.finished().cached_tokens;
    return std::pair(
        tokens, (std::ssize(request.prompt) - 1) / models::kBlockTokens * models::kBlockTokens);
  };
  const auto [other, all_of_other] = cached("01 Jan 2001");
  EXPECT_LT(other, all_of_other);
  const auto [same, all] = cached(before);
  EXPECT_EQ(same, all);
  EXPECT_GT(all, 100);
}

}  // namespace
}  // namespace ridge::http
