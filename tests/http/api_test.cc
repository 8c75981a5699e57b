// SPDX-License-Identifier: Apache-2.0
// The API without sockets: what it answers, and what it refuses by name.
#include "http/api.h"

#include "http/api_requests.h"

namespace ridge::http {
namespace {

TEST_F(ApiTest, CompletesAsGenerateDoes) {
  const std::vector<int32_t> prompt = tokenizer_.encode("Once upon");
  const serve::Generation want = alone(prompt, 20);
  for (const json& given :
       {json("Once upon"), json::array({"Once upon"}), json(prompt), json::array({json(prompt)})}) {
    const json made = post("/v1/completions", {{"model", "small"},
                                               {"prompt", given},
                                               {"max_tokens", 20},
                                               {"temperature", 0},
                                               {"unknown", {1, 2}}});
    EXPECT_EQ(made.at("object"), "text_completion");
    EXPECT_EQ(made.at("model"), "small");
    EXPECT_EQ(made.at("choices").at(0).at("text"), want.text);
    EXPECT_EQ(made.at("choices").at(0).at("finish_reason"), want.finish_reason);
    EXPECT_EQ(made.at("usage").at("prompt_tokens"), prompt.size());
    EXPECT_EQ(made.at("usage").at("completion_tokens"), want.ids.size());
    EXPECT_EQ(made.at("usage").at("total_tokens"), prompt.size() + want.ids.size());
  }
}

// OpenAI's default.
TEST_F(ApiTest, CompletesSixteenTokensUnlessToldOtherwise) {
  const json made = post("/v1/completions", {{"prompt", "Once upon"}, {"temperature", 0}});
  EXPECT_EQ(made.at("choices").at(0).at("text"), alone(tokenizer_.encode("Once upon"), 16).text);
}

TEST_F(ApiTest, ChatsInTheModelsFormat) {
  const std::vector<int32_t> prompt = chat_ids("Hi");
  const serve::Generation want = alone(prompt, 12);
  const json parts =
      json::array({{{"type", "text"}, {"text", "H"}}, {{"type", "text"}, {"text", "i"}}});
  for (const json& content : {json("Hi"), parts})
    for (const char* limit : {"max_tokens", "max_completion_tokens"}) {
      const json made =
          post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", content}}}},
                                        {limit, 12},
                                        {"temperature", 0}});
      EXPECT_EQ(made.at("object"), "chat.completion");
      const json& choice = made.at("choices").at(0);
      EXPECT_EQ(choice.at("message").at("role"), "assistant");
      EXPECT_EQ(choice.at("message").at("content"), want.text);
      EXPECT_EQ(made.at("usage").at("prompt_tokens"), prompt.size());
    }
  // The same conversation again finds its whole blocks.
  const json again =
      post("/v1/chat/completions",
           {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}});
  EXPECT_EQ(again.at("usage").at("prompt_tokens_details").at("cached_tokens"),
            (prompt.size() - 1) / models::kBlockTokens * models::kBlockTokens);
}

TEST_F(ApiTest, StreamsAsTheClientsExpect) {
  const serve::Generation want = alone(chat_ids("Hi"), 12);
  const Reply reply = ask("POST", "/v1/chat/completions",
                          R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12,
                              "temperature": 0, "stream": true,
                              "stream_options": {"include_usage": true}})");
  EXPECT_EQ(reply.content_type, "text/event-stream");
  std::vector<std::string> data = events(reply.body);
  ASSERT_GE(data.size(), 5u);
  EXPECT_EQ(data.back(), "[DONE]");
  data.pop_back();
  const json usage = json::parse(data.back());
  EXPECT_EQ(usage.at("choices"), json::array());
  EXPECT_EQ(usage.at("usage").at("completion_tokens"), want.ids.size());
  data.pop_back();
  const json last = json::parse(data.back()).at("choices").at(0);
  EXPECT_EQ(last.at("delta"), json::object());
  EXPECT_EQ(last.at("finish_reason"), want.finish_reason);
  data.pop_back();
  EXPECT_EQ(json::parse(data[0]).at("choices").at(0).at("delta"),
            json({{"role", "assistant"}, {"content", ""}}));
  std::string text;
  for (const std::string& each : data) {
    const json chunk = json::parse(each);
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("id"), usage.at("id"));
    EXPECT_TRUE(chunk.at("usage").is_null());
    EXPECT_TRUE(chunk.at("choices").at(0).at("finish_reason").is_null());
    text += chunk.at("choices").at(0).at("delta").at("content").get<std::string>();
  }
  EXPECT_EQ(text, want.text);
}

TEST_F(ApiTest, StreamsTexts) {
  const serve::Generation want = alone(tokenizer_.encode("Once"), 10);
  const Reply reply =
      ask("POST", "/v1/completions",
          R"({"prompt": "Once", "max_tokens": 10, "temperature": 0, "stream": true})");
  std::vector<std::string> data = events(reply.body);
  ASSERT_GE(data.size(), 2u);
  EXPECT_EQ(data.back(), "[DONE]");
  data.pop_back();
  std::string text;
  for (const std::string& each : data) {
    const json chunk = json::parse(each);
    EXPECT_FALSE(chunk.contains("usage"));
    text += chunk.at("choices").at(0).at("text").get<std::string>();
  }
  EXPECT_EQ(text, want.text);
  EXPECT_EQ(json::parse(data.back()).at("choices").at(0).at("finish_reason"), want.finish_reason);
}

TEST_F(ApiTest, ReportsLogProbabilities) {
  const json chat =
      post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                                    {"max_tokens", 3},
                                    {"temperature", 0},
                                    {"logprobs", true},
                                    {"top_logprobs", 2}});
  const json& content = chat.at("choices").at(0).at("logprobs").at("content");
  ASSERT_EQ(content.size(), chat.at("usage").at("completion_tokens"));
  for (const json& each : content) {
    EXPECT_LE(each.at("logprob").get<double>(), 0);
    ASSERT_EQ(each.at("top_logprobs").size(), 2u);
    EXPECT_EQ(each.at("top_logprobs").at(0).at("token"), each.at("token"));
  }
  const json text =
      post("/v1/completions",
           {{"prompt", "Hi"}, {"max_tokens", 3}, {"temperature", 0}, {"logprobs", 1}});
  const json& logprobs = text.at("choices").at(0).at("logprobs");
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    EXPECT_EQ(logprobs.at(list).size(), text.at("usage").at("completion_tokens")) << list;
}

TEST_F(ApiTest, StopsAtTexts) {
  const std::string text = alone(tokenizer_.encode("Once"), 30).text;
  const auto is_inside = [&](size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  size_t begin = 4, end = 7;  // moved to where characters begin
  while (is_inside(begin)) ++begin;
  while (is_inside(end) || end <= begin) ++end;
  ASSERT_LE(end, text.size());
  const std::string stop = text.substr(begin, end - begin);
  for (const json& given : {json(stop), json::array({"never there", stop})}) {
    const json made =
        post("/v1/completions",
             {{"prompt", "Once"}, {"max_tokens", 30}, {"temperature", 0}, {"stop", given}});
    EXPECT_EQ(made.at("choices").at(0).at("text"), text.substr(0, text.find(stop)));
    EXPECT_EQ(made.at("choices").at(0).at("finish_reason"), "stop");
  }
  json body = {{"prompt", "Once"}, {"max_tokens", 1}, {"stop", std::vector<std::string>(16, "x")}};
  post("/v1/completions", body);
  body["stop"].push_back("x");
  expect_error(ask("POST", "/v1/completions", body.dump()), 400, "stop");
}

// The texts of the choices, in order, of a reply as a whole and as a stream.
std::vector<std::string> texts(const json& reply) {
  std::vector<std::string> all;
  for (size_t i = 0; i < reply.at("choices").size(); ++i) {
    EXPECT_EQ(reply.at("choices").at(i).at("index"), i);
    all.push_back(reply.at("choices").at(i).at("text"));
  }
  return all;
}
std::vector<std::string> streamed_texts(const std::string& body, size_t choices) {
  std::vector<std::string> all(choices), data = events(body);
  size_t ends = 0;
  for (const std::string& each : data) {
    if (each == "[DONE]") continue;
    const json choice = json::parse(each).at("choices").at(0);
    all.at(choice.at("index")) += choice.at("text").get<std::string>();
    ends += !choice.at("finish_reason").is_null();
  }
  EXPECT_EQ(ends, choices);
  EXPECT_EQ(data.back(), "[DONE]");
  return all;
}

TEST_F(ApiTest, GivesSeveralAnswersWithSeedsOfTheirOwn) {
  json body{{"prompt", "Once"}, {"max_tokens", 12}, {"n", 3}, {"seed", 5}, {"echo", true}};
  const json made = post("/v1/completions", body);
  const std::vector<std::string> all = texts(made);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[0], all[1]);
  EXPECT_EQ(made.at("usage").at("prompt_tokens"), 4);
  EXPECT_GT(made.at("usage").at("completion_tokens"), 12);
  body["stream"] = true;
  EXPECT_EQ(streamed_texts(ask("POST", "/v1/completions", body.dump()).body, 3), all);
  // Choice i has seed + i, and each begins with the prompt.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(all[static_cast<size_t>(i)].starts_with("Once"));
    const json one =
        post("/v1/completions",
             {{"prompt", {"Once"}}, {"max_tokens", 12}, {"seed", 5 + i}, {"echo", true}});
    EXPECT_EQ(texts(one)[0], all[static_cast<size_t>(i)]) << i;
  }
  expect_refused({{"n", 5}}, 400, "n");  // the queue has room for 4
  const json chat =
      post("/v1/chat/completions",
           {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 2}, {"n", 2}});
  EXPECT_EQ(chat.at("choices").size(), 2u);
  await([&] { return engine_.is_idle(); });
  expect_refused({{"echo", true}, {"logprobs", 1}}, 422, "echo");
}

TEST_F(ApiTest, AppliesPenaltiesAndBiases) {
  const json forced = post(
      "/v1/completions",
      {{"prompt", "Once"}, {"max_tokens", 5}, {"temperature", 0}, {"logit_bias", {{"70", 100}}}});
  const std::string text = tokenizer_.decode(std::vector<int32_t>(5, 70));
  EXPECT_EQ(texts(forced)[0], text);
  serve::Session session(file_, options(1), serve::cpu_backend());
  serve::GenerateOptions like;
  like.max_tokens = 30;
  like.sampling.presence_penalty = 0.5;
  like.sampling.frequency_penalty = 1.5;
  const std::vector<int32_t> prompt = tokenizer_.encode("Once");
  const serve::Generation want = serve::generate(session, tokenizer_, prompt, like, {});
  EXPECT_NE(want.ids, alone(prompt, 30).ids);
  const json varied = post("/v1/completions", {{"prompt", "Once"},
                                               {"max_tokens", 30},
                                               {"temperature", 0},
                                               {"presence_penalty", 0.5},
                                               {"frequency_penalty", 1.5}});
  EXPECT_EQ(texts(varied)[0], want.text);
}

TEST_F(ApiTest, AccountsForRequests) {
  const std::string prompt = "Once upon a time there was a sea";
  json body{{"prompt", prompt}, {"max_tokens", 2}, {"ignore_eos", true}, {"x_ridge", true}};
  const json account = post("/v1/completions", body).at("choices").at(0).at("x_ridge");
  EXPECT_EQ(account.at("steps"), 2);  // the prompt's gives the first token
  for (const char* count : {"model_flops", "executed_flops", "read_bytes", "written_bytes"})
    EXPECT_GT(account.at(count).get<int64_t>(), 0) << count;
  EXPECT_NEAR(account.at("share_of_steps").get<double>(), 1, 1e-12);  // alone
  EXPECT_NEAR(account.at("ttft_ms").get<double>(),
              account.at("queue_ms").get<double>() + account.at("prefill_ms").get<double>(), 1e-6);
  for (const char* unknown : {"mfu", "mbu", "predicted_ttft_ms", "predicted_tpot_ms"})
    EXPECT_TRUE(account.at(unknown).is_null()) << unknown;  // without ceilings
  body["stream"] = true;
  std::vector<std::string> data = events(ask("POST", "/v1/completions", body.dump()).body);
  const json last = json::parse(data.at(data.size() - 2)).at("choices").at(0);
  EXPECT_EQ(
      last.at("x_ridge").at("cached_tokens"),
      (std::ssize(tokenizer_.encode(prompt)) - 1) / models::kBlockTokens * models::kBlockTokens);
  EXPECT_FALSE(json::parse(data[0]).at("choices").at(0).contains("x_ridge"));
  expect_refused({{"x_ridge", 1}}, 400, "x_ridge");
}

// The x_ridge of all choices, of replies as a whole and in streams, against the counters of
// /metrics.
TEST_F(ApiTest, AccountsAddUpToTheCounters) {
  const char* names[] = {"model_flops", "executed_flops", "read_bytes", "written_bytes"};
  std::map<std::string, int64_t> sums;
  const auto add = [&](const json& choice) {
    if (!choice.contains("x_ridge")) return;
    for (const char* name : names) sums[name] += choice.at("x_ridge").at(name).get<int64_t>();
  };
  json body{{"prompt", std::string(50, 'a')},
            {"max_tokens", 9},
            {"ignore_eos", true},
            {"x_ridge", true},
            {"n", 3}};
  const json whole = post("/v1/completions", body);
  for (const json& choice : whole.at("choices")) add(choice);
  for (bool cached : {true, false}) {
    body["stream"] = true;
    if (!cached) body["prompt"] = std::string(70, 'b');
    for (const std::string& event : events(ask("POST", "/v1/completions", body.dump()).body))
      if (event != "[DONE]") add(json::parse(event).at("choices").at(0));
  }
  await([&] { return engine_.is_idle(); });
  EXPECT_GT(engine_.counts().cached_tokens, 0);
  const std::string metrics = ask("GET", "/metrics", "").body;
  for (const char* name : names) {
    const std::string sample =
        fmt::format("\nridge_{}_total{{model_name=\"small\"}} {}\n", name, sums[name]);
    EXPECT_NE(metrics.find(sample), std::string::npos) << sample << metrics;
  }
}

TEST_F(ApiTest, TokenizesBothWays) {
  const json ids = post("/tokenize", {{"prompt", "Hi there"}});
  EXPECT_EQ(ids.at("tokens"), json(tokenizer_.encode("Hi there")));
  EXPECT_EQ(ids.at("count"), 8);
  EXPECT_EQ(ids.at("max_model_len"), kCapacity);
  EXPECT_EQ(post("/detokenize", {{"tokens", ids.at("tokens")}}).at("prompt"), "Hi there");
  expect_error(ask("POST", "/detokenize", R"({"tokens": [1, -1]})"), 400, "tokens");
  expect_error(ask("POST", "/tokenize", "{}"), 400, "prompt");
}

TEST_F(ApiTest, AnswersAboutItself) {
  EXPECT_EQ(json::parse(ask("GET", "/health", "").body).at("status"), "ok");
  EXPECT_EQ(json::parse(ask("GET", "/version", "").body).at("version"), "ridge test");
  const json models = json::parse(ask("GET", "/v1/models", "").body);
  EXPECT_EQ(models.at("data").at(0).at("id"), "small");
  EXPECT_EQ(models.at("data").at(0).at("max_model_len"), kCapacity);
  EXPECT_EQ(json::parse(ask("GET", "/v1/models/small", "").body), models.at("data").at(0));
  expect_error(ask("GET", "/v1/models/large", ""), 404, "model");
  expect_error(ask("GET", "/v1/modelsmall", ""), 404);
  post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}});
  const Reply metrics = ask("GET", "/metrics", "");
  EXPECT_NE(metrics.body.find("ridge_prompt_tokens_total{model_name=\"small\"} 4\n"),
            std::string::npos)
      << metrics.body;
  EXPECT_EQ(ask("GET", "/ready", "").status, 200);
  api_.drain();
  expect_error(ask("GET", "/health", ""), 503);
  expect_error(ask("GET", "/ready", ""), 503);
}

TEST_F(ApiTest, RefusesOtherPathsAndMethods) {
  expect_error(ask("GET", "/nothing", ""), 404);
  expect_error(ask("POST", "/v1/completions/", "{}"), 404);
  const Reply reply = ask("GET", "/v1/completions", "");
  expect_error(reply, 405);
  EXPECT_EQ(reply.headers.at(0), std::pair(std::string("Allow"), std::string("POST")));
}

TEST_F(ApiTest, RefusesPrioritiesBeyondTheBound) {
  for (int64_t priority : {int64_t{11}, int64_t{-11}, int64_t{INT32_MIN}})
    expect_refused({{"priority", priority}}, 400, "priority");
  for (int64_t priority : {10, -10})
    post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 1}, {"priority", priority}});
}

TEST_F(ApiTest, RefusesOtherModelsAndLongPrompts) {
  expect_refused({{"model", "other"}}, 404, "model");
  expect_refused({{"prompt", std::string(kCapacity + 1, 'x')}}, 400, "prompt");
  expect_refused({{"prompt", std::string(1 << 20, 'x')}}, 400, "prompt");
  expect_refused({{"prompt", std::vector<int>(kCapacity + 1, 3)}}, 400, "prompt");
  expect_refused({{"prompt", ""}}, 400, "");
  expect_refused({{"prompt", json::array()}}, 400, "");
  expect_refused({{"prompt", {1, 2, 1 << 20}}}, 400, "prompt");
}

TEST_F(ApiTest, RefusesByNameWhatItDoesNotHave) {
  const std::pair<const char*, json> absent[] = {{"tools", {{{"type", "function"}}}},
                                                 {"response_format", {{"type", "json_object"}}},
                                                 {"best_of", 3},
                                                 {"suffix", "x"},
                                                 {"tool_choice", "required"}};
  for (const auto& [key, value] : absent) expect_refused({{key, value}}, 422, key);
  for (const auto& [key, value] : {std::pair<const char*, json>{"tools", json::array()},
                                   {"n", 1},
                                   {"logit_bias", json::object()},
                                   {"presence_penalty", 0.0},
                                   {"response_format", {{"type", "text"}}},
                                   {"tool_choice", "auto"}})
    post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 1}, {key, value}});
  const json picture{{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}};
  EXPECT_EQ(ask("POST", "/v1/chat/completions", picture.dump()).status, 422);
  const json tool{{"messages", {{{"role", "tool"}, {"content", "5"}}}}};
  EXPECT_EQ(ask("POST", "/v1/chat/completions", tool.dump()).status, 422);
}

// An id without a token makes the tokenizer throw in the engine's step.
class FaultyTest : public ApiTest {
 protected:
  FaultyTest() : ApiTest({}, 40) {}
};

TEST_F(FaultyTest, AFaultEndsOneAnswerWithAnErrorAndIsCounted) {
  const std::string last = std::to_string(file_.config().vocabulary - 1);
  json body{{"prompt", "Once"}, {"max_tokens", 5}, {"logit_bias", {{last, 100}}}};
  const Reply whole = ask("POST", "/v1/completions", body.dump());
  expect_error(whole, 500);
  EXPECT_EQ(json::parse(whole.body).at("error").at("type"), "server_error");
  body["stream"] = true;
  const std::vector<std::string> data = events(ask("POST", "/v1/completions", body.dump()).body);
  ASSERT_GE(data.size(), 2u);
  EXPECT_EQ(data.back(), "[DONE]");
  EXPECT_EQ(json::parse(data[data.size() - 2]).at("error").at("type"), "server_error");
  const std::string metrics = ask("GET", "/metrics", "").body;
  EXPECT_NE(metrics.find("ridge_internal_errors_total{model_name=\"small\"} 2\n"),
            std::string::npos);
  post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 5}, {"logit_bias", {{"70", 100}}}});
}

constexpr const char* kHostileName = "a\x1b[31m\r\n\u009b\u202Eb\U000E0041\u00e9";

class HostileNameTest : public ApiTest {
 protected:
  HostileNameTest() : ApiTest({}, 0, kHostileName) {}
};

// Nothing that is sent has raw bytes which a terminal obeys, and all of it is the same name.
TEST_F(HostileNameTest, IsEscapedEverywhere) {
  const json body{{"prompt", "Once"}, {"max_tokens", 2}, {"model", kHostileName}};
  json streamed = body, other = body;
  streamed["stream"] = true;
  other["model"] = "another";
  const std::string sent[] = {ask("GET", "/v1/models", "").body,
                              ask("POST", "/v1/completions", body.dump()).body,
                              ask("POST", "/v1/completions", streamed.dump()).body,
                              ask("POST", "/v1/completions", other.dump()).body,
                              ask("GET", "/metrics", "").body,
                              ask("GET", "/debug/activity", "").body,
                              ask("GET", "/debug/trace", "").body};
  for (const std::string& each : sent)
    for (const char* raw : {"\x1b", "\r", "\u009b", "\u202E", "\U000E0041"})
      EXPECT_EQ(each.find(raw), std::string::npos) << each.substr(0, 400);
  EXPECT_EQ(json::parse(sent[0]).at("data").at(0).at("id"), kHostileName);
  EXPECT_EQ(json::parse(sent[1]).at("model"), kHostileName);
  EXPECT_EQ(json::parse(sent[3]).at("error").at("code"), "model_not_found");
}

class LoadingTest : public ServedModelTest {};

TEST_F(LoadingTest, SaysSo) {
  for (const char* path : {"/health", "/ready", "/metrics", "/v1/models"}) {
    const Reply reply = api_.reply({"GET", path, "", ""}, [] {});
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_EQ(reply.headers.at(0).first, "Retry-After");
  }
  EXPECT_EQ(api_.reply({"POST", "/v1/completions", "", "{}"}, [] {}).status, 503);
  EXPECT_EQ(api_.reply({"GET", "/version", "", ""}, [] {}).status, 200);
  api_.open(model_);
  EXPECT_EQ(api_.reply({"GET", "/health", "", ""}, [] {}).status, 200);
}

}  // namespace
}  // namespace ridge::http
