// SPDX-License-Identifier: Apache-2.0
// The API without sockets: what it answers, and that nothing hostile in a request is more than an
// error in OpenAI's shape.
#include "http/api.h"

#include "files/scratch.h"
#include "http/served_model_test.h"

namespace ridge::http {
namespace {

class ApiTest : public ServedModelTest {
 protected:
  explicit ApiTest(ApiKeys keys = {}) : ServedModelTest(std::move(keys)) { api_.open(model_); }

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

// The x_ridge of all choices, of replies as a whole and in streams, against the counters of /metrics.
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
  for (const json& choice : post("/v1/completions", body).at("choices")) add(choice);
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

// Each numeric field at values that it cannot have. Null asks for the default, and a few fields
// have some of these values in their range.
TEST_F(ApiTest, NumbersOutOfRangeAreNamed) {
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = "[" + deep + "]";
  const char* values[] = {
      "-1",        "2147483648", "9223372036854775808",  "1e308", "\"NaN\"", "[1]",
      "{}",        "1e999",      "-9223372036854775809", "true",  "0.5.1",   "NaN",
      deep.c_str()};
  const char* fields[] = {
      "max_tokens", "max_completion_tokens", "temperature",       "top_p",    "min_p",
      "top_k",      "repetition_penalty",    "repeat_penalty",    "seed",     "n",
      "best_of",    "presence_penalty",      "frequency_penalty", "priority", "top_logprobs"};
  for (const char* path : {"/v1/completions", "/v1/chat/completions"})
    for (const char* field : fields)
      for (const char* value : values) {
        const bool is_legal =
            (std::string(field) == "seed" && std::string(value) == "2147483648") ||
            (std::string(field) == "priority" && std::string(value) == "-1");
        const bool is_penalty = std::string(field).ends_with("_penalty") &&
                                !std::string(field).starts_with("rep") &&
                                std::string(value) == "-1";
        const std::string body = fmt::format(
            R"({{"prompt": "a", "messages": [{{"role": "user", "content": "a"}}], "{}": {}}})",
            field, value);
        // Text completions have no such field.
        const bool is_unknown =
            std::string(field) == "top_logprobs" && std::string(path) == "/v1/completions";
        if (is_legal || is_penalty || is_unknown) continue;
        SCOPED_TRACE(body);
        const Reply reply = ask("POST", path, body);
        EXPECT_EQ(reply.status, 400) << reply.body;
        EXPECT_TRUE(json::parse(reply.body).at("error").at("message").is_string());
      }
  for (const char* field : fields)
    if (std::string(field).find("max_") == std::string::npos)
      post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {field, nullptr}});
  for (const char* field : {"max_tokens", "max_completion_tokens", "n"})
    expect_refused({{field, 0}}, 400, field);
  for (const char* value : values) {
    const json bias = json::parse(value, nullptr, false);
    if (bias.is_discarded() || bias == -1 || value == deep) continue;
    expect_refused({{"logit_bias", {{"5", bias}}}}, 400, "logit_bias");
    expect_refused({{"logit_bias", {{value, 1}}}}, 400, "logit_bias");
    expect_refused({{"logprobs", bias}}, 400, "logprobs");
  }
  for (const json& biases :
       {json(5), json::array({1}), json("5"), json::object({{"", 1}}), json::object({{"5x", 1}}),
        json::object({{"5", nullptr}}), json::object({{std::to_string(1 << 30), 1}})})
    expect_refused({{"logit_bias", biases}}, 400, "logit_bias");
  expect_refused({{"logprobs", 21}}, 400, "logprobs");
}

// Whatever number stands where one may, the reply is an answer or an error that names the request's
// fault.
TEST_F(ApiTest, NoNumberIsAnErrorOfTheServer) {
  std::string deep = "1";
  for (int i = 0; i < 10; ++i) deep = "[" + deep + "]";
  const char* values[] = {"-1",         "0",       "2147483648", "9223372036854775808",
                          "1e308",      "\"NaN\"", "null",       "[1,2]",
                          "{\"a\": 1}", "-0.0",    "5e-324",     deep.c_str()};
  const char* places[] = {"max_tokens",
                          "max_completion_tokens",
                          "temperature",
                          "top_p",
                          "min_p",
                          "top_k",
                          "repetition_penalty",
                          "repeat_penalty",
                          "seed",
                          "n",
                          "best_of",
                          "presence_penalty",
                          "frequency_penalty",
                          "priority",
                          "top_logprobs",
                          "logprobs",
                          "logit_bias",
                          "stream_options"};
  const auto expect_handled = [&](const char* path, const std::string& body) {
    SCOPED_TRACE(path + (": " + body));
    const Reply reply = ask("POST", path, body);
    EXPECT_TRUE(reply.status == 200 || reply.status == 400 || reply.status == 422) << reply.status;
    if (reply.status != 200) {
      EXPECT_TRUE(json::parse(reply.body).at("error").at("message").is_string());
    }
  };
  for (const char* value : values) {
    for (const char* place : places) {
      const bool is_limit = std::string(place).starts_with("max_");
      const std::string field =
          fmt::format(R"({}"{}": {}}})", is_limit ? "" : R"("max_tokens": 1, )", place, value);
      expect_handled("/v1/completions", R"({"prompt": "a", )" + field);
      expect_handled("/v1/chat/completions",
                     R"({"messages": [{"role": "user", "content": "a"}], )" + field);
    }
    for (const char* list : {"[{}]", "[5, {}]", "[[{}]]", "{}"}) {
      const std::string ids = fmt::format(fmt::runtime(list), value);
      expect_handled("/v1/completions", fmt::format(R"({{"max_tokens": 1, "prompt": {}}})", ids));
      expect_handled("/tokenize", fmt::format(R"({{"prompt": {}}})", ids));
      expect_handled("/detokenize", fmt::format(R"({{"tokens": {}}})", ids));
    }
    for (const char* key : {"5", "-1", "1e3", "999999999999999999999"})
      expect_handled(
          "/v1/completions",
          fmt::format(R"({{"max_tokens": 1, "prompt": "a", "logit_bias": {{"{}": {}}}}})", key,
                      value));
  }
  await([&] { return engine_.is_idle(); });
}

TEST_F(ApiTest, HostileBodiesAreErrors) {
  const std::string bodies[] = {
      "",
      "null",
      "[]",
      "\"text\"",
      "{",
      "{\"prompt\": ",
      std::string(1000, '['),
      "{\"prompt\": \"\xff\xfe\"}",
      "{\"prompt\": \"\\ud800\"}",
      "{\"prompt\": \"a\", \"prompt\": 1}",
      std::string("{\"prompt\": \"a\0b\"}", 17),
      "{'prompt': 1}",
      "{\"prompt\": {}}",
      "{\"prompt\": [[1], [2]]}",
      "{\"prompt\": [1, \"a\"]}",
      "{\"prompt\": [\"a\", 1]}",
      "{\"prompt\": [[[1]]]}",
      "{\"prompt\": true}",
      "{\"prompt\": [null]}",
      "{\"prompt\": \"a\", \"stop\": 5}",
      "{\"prompt\": \"a\", \"stop\": [1]}",
      "{\"prompt\": \"a\", \"stop\": \"\"}",
      "{\"prompt\": \"a\", \"stream\": 1}",
      "{\"prompt\": \"a\", \"stream_options\": 1}",
      "{\"prompt\": \"a\", \"model\": 1}",
      "{\"prompt\": \"a\", \"stream_options\": {\"include_usage\": 2}}",
      "{\"messages\": 5}",
      "{\"messages\": []}",
      "{\"messages\": [5]}",
      "{\"messages\": [{}]}",
      "{\"messages\": [{\"role\": \"user\"}]}",
      "{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}",
      "{\"messages\": [{\"role\": \"nobody\", \"content\": \"a\"}]}",
      "{\"messages\": [{\"role\": \"user\", \"content\": 5}]}",
      "{\"messages\": [{\"role\": \"user\", \"content\": [5]}]}",
      "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": 5}]}]}",
      "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": 5}]}]}",
      "{\"tokens\": {}}"};
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    for (const std::string& body : bodies) {
      SCOPED_TRACE(path + (": " + body));
      const Reply reply = ask("POST", path, body);
      const bool is_tokenizable = std::string(path) == "/tokenize" && reply.status == 200;
      if (is_tokenizable) continue;  // a text with fields that only completions read
      EXPECT_TRUE(reply.status == 400 || reply.status == 422) << reply.status << reply.body;
      EXPECT_TRUE(json::parse(reply.body).at("error").at("message").is_string());
    }
  EXPECT_TRUE(engine_.is_idle());
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

class KeysTest : public ApiTest {
 protected:
  KeysTest() : ApiTest(ApiKeys({"sk-other-key", kKey})) {}
};

TEST_F(KeysTest, AreAskedForEverywhereButHealth) {
  for (const char* path : {"/v1/models", "/metrics", "/version", "/nothing"}) {
    for (const std::string& wrong :
         {std::string(), std::string("Bearer "), std::string(kKey),
          std::string("Bearer sk-1234567"), std::string("Bearer sk-12345678") + "9"}) {
      authorization_ = wrong;
      expect_error(ask("GET", path, ""), 401);
    }
  }
  EXPECT_EQ(ask("GET", "/health", "").status, 200);
  authorization_ = std::string("Bearer ") + kKey;
  EXPECT_EQ(ask("GET", "/v1/models", "").status, 200);
  EXPECT_EQ(ask("GET", "/nothing", "").status, 404);
}

// A key file as `--api-key-file` reads it.
ApiKeys tenants_keys() {
  const files::ScratchFolder folder;
  files::write_plain(folder / "keys",
                     "sk-of-red-1 red\nsk-of-red-2 red\nsk-of-blue blue\nsk-of-none\n");
  return ApiKeys::read(folder / "keys");
}

class TenantsTest : public ApiTest {
 protected:
  TenantsTest() : ApiTest(tenants_keys()) {}

  int64_t cached_of(const std::string& key,
                    const json& body,
                    const char* path = "/v1/completions") {
    authorization_ = "Bearer " + key;
    return post(path, body).at("usage").at("prompt_tokens_details").at("cached_tokens");
  }
};

TEST_F(TenantsTest, ShareNoPrefixes) {
  const json body{{"prompt", std::vector<int>(40, 70)}, {"max_tokens", 1}};
  EXPECT_EQ(cached_of("sk-of-red-1", body), 0);
  EXPECT_EQ(cached_of("sk-of-blue", body), 0);
  EXPECT_EQ(cached_of("sk-of-none", body), 0);
  for (const char* key : {"sk-of-red-1", "sk-of-red-2", "sk-of-blue", "sk-of-none"})
    EXPECT_EQ(cached_of(key, body), 32) << key;
  const std::string text(40, 'x');
  const json chat{{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 1}};
  const int64_t whole =
      (std::ssize(chat_ids(text)) - 1) / models::kBlockTokens * models::kBlockTokens;
  EXPECT_EQ(cached_of("sk-of-red-2", chat, "/v1/chat/completions"), 0);
  EXPECT_EQ(cached_of("sk-of-blue", chat, "/v1/chat/completions"), 0);
  EXPECT_EQ(cached_of("sk-of-red-1", chat, "/v1/chat/completions"), whole);
}

}  // namespace
}  // namespace ridge::http
