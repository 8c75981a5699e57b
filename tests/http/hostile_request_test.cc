// SPDX-License-Identifier: Apache-2.0
// Nothing hostile in a request is more than an error in OpenAI's shape.
#include "http/api_requests.h"

namespace ridge::http {
namespace {

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

// An object of many keys is refused by their number, and as many as are allowed take no long time.
TEST_F(ApiTest, ManyKeysAreRefusedBeforeTheyTakeMemory) {
  const auto body = [](int keys) {
    std::string text = "{\"prompt\": \"a, \\\"b\\\": c\", \"max_tokens\": 1";
    for (int i = 0; i < keys; ++i) text += fmt::format(", \"k{}\": 0", i);
    return text + "}";
  };
  const Reply refused = ask("POST", "/v1/completions", body(300'000));
  expect_error(refused, 400);
  EXPECT_NE(refused.body.find("JSON keys, found 300002"), std::string::npos) << refused.body;
  EXPECT_EQ(ask("POST", "/v1/completions", body(100'000)).status, 200);
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

}  // namespace
}  // namespace ridge::http
