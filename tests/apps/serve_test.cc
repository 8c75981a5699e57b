// SPDX-License-Identifier: Apache-2.0
// Runs ridge serve as a user does. What it answers is tested in tests/http.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "http/http_client.h"
#include "runtime/rank_launcher.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using runtime::free_port;

class ServeTest : public ProgramTest {
 protected:
  // A model of random weights with a tokenizer of as many tokens, and a context that takes seconds
  // to fill.
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 5'000; ++i) text += fmt::format("{:x} ", i * 7919 % 104729);
    files::write_plain(folder_ / "text.txt", text);
    files::write_plain(folder_ / "keys", "sk-12345678\n");
    const std::string model = folder_ / "model";
    ASSERT_EQ(run(tiny({"train", "--steps", "1", "--save", model})).code, 0);
    const Output made =
        run({"tokenizer", "train", "text.txt", "--vocab-size", "1000", "--special-token",
             "<|im_start|>", "--special-token", "<|im_end|>", "--out", "words"});
    ASSERT_EQ(made.code, 0) << made.err;
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy(folder_ / "words" / file, folder_ / "model" / file);
    json config = json::parse(files::contents(folder_ / "model" / "config.json"));
    config["max_position_embeddings"] = 32768;
    files::write_plain(folder_ / "model" / "config.json", config.dump());
  }

  pid_t serve(int64_t port, std::vector<std::string> more) const {
    std::vector<std::string> line{"serve",           "model", "--port",    std::to_string(port),
                                  "--max-sequences", "2",     "--threads", "1",
                                  "--device",        "cpu"};
    line.insert(line.end(), more.begin(), more.end());
    return start(line);
  }
};

TEST_F(ServeTest, AnswersAsGenerateDoesAndDrains) {
  const Output alone = run({"generate", "model", "1ee 3dc", "--max-tokens", "8", "--threads", "1",
                            "--device", "cpu", "--json"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const int64_t port = free_port();
  const pid_t child = serve(port, {"--chat-template", "chatml", "--api-key-file", "keys"});
  await("Ready");
  const std::string key = "Authorization: Bearer sk-12345678\r\n";
  {
    http::HttpClient client(port);
    EXPECT_EQ(client.get("/v1/models").status, 401);
    EXPECT_EQ(client.get("/health").status, 200);
    const http::Response made = client.post(
        "/v1/completions",
        R"({"model": "model", "prompt": "1ee 3dc", "max_tokens": 8, "temperature": 0})", key);
    EXPECT_EQ(json::parse(made.body).at("choices").at(0).at("text"),
              json::parse(alone.out).at("text"));
    const http::Response chat =
        client.post("/v1/chat/completions",
                    R"({"messages": [{"role": "user", "content": "3dc"}], "max_tokens": 3})", key);
    EXPECT_EQ(chat.status, 200) << chat.body;
  }
  ::kill(child, SIGTERM);
  const Output output = finish(child);
  EXPECT_EQ(output.code, 0) << output.err;
  for (const char* part : {"Listening on http://127.0.0.1:", "2 requests of up to 2,048 positions",
                           "keys     asked for", "Stopped after 2 requests"})
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
}

TEST_F(ServeTest, ASecondSignalEndsIt) {
  const int64_t port = free_port();
  const pid_t child = serve(port, {"--context", "32768"});
  await("Ready");
  http::HttpClient client(port);
  client.send("POST", "/v1/completions",
              R"({"prompt": "1ee", "max_tokens": 32768, "ignore_eos": true, "stream": true})");
  EXPECT_NE(client.read_until("data: "), "");
  ::kill(child, SIGTERM);
  ::kill(child, SIGTERM);  // as `timeout` does
  await("a second signal ends it");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Soon it accepts nothing any more.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (http::HttpClient(port).get("/health").status != 0 &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(http::HttpClient(port).get("/health").status, 0);
  ::kill(child, SIGTERM);
  EXPECT_EQ(finish(child).code, 128 + SIGTERM);
}

TEST_F(ServeTest, AnswersNoStrangersPageAndDrainsWhenItsTerminalCloses) {
  const int64_t port = free_port();
  const pid_t child = serve(port, {});
  await("Ready");
  {
    http::HttpClient client(port);
    EXPECT_EQ(client.get("/v1/models").status, 200);
    client.send("GET /v1/models HTTP/1.1\r\nHost: evil.com\r\n\r\n");
    EXPECT_EQ(client.read().status, 403);
  }
  ::kill(child, SIGHUP);
  const Output output = finish(child);
  EXPECT_EQ(output.code, 128 + SIGHUP) << output.err;
  EXPECT_NE(output.out.find("Stopped after 0 requests"), std::string::npos) << output.out;
  expect_refused({"serve", "model", "--allowed-hosts", "http://a"}, 2, "[allowed-hosts]");
}

TEST_F(ServeTest, RefusesWhatItCannotServe) {
  const int64_t port = free_port();
  const pid_t child = serve(port, {});
  await("Listening");
  expect_refused({"serve", "model", "--port", std::to_string(port)}, 2, "cannot listen");
  ::kill(child, SIGTERM);
  finish(child);
  expect_refused({"serve", "model", "--port", "65536"}, 2, "[port] expected 0 to 65535, got 65536");
  expect_refused({"serve", "model", "--host", "nowhere"}, 2, "[host]");
  expect_refused({"serve", "model", "--queue", "0"}, 2, "[queue]");
  for (const char* name : {"--max-sequences", "--slots", "--max-num-seqs"})
    expect_refused({"serve", "model", "--port", "0", name, "0"}, 2, "expected 1 to 4096");
  for (const char* name : {"--max-batched-tokens", "--step-tokens", "--max-num-batched-tokens"})
    expect_refused({"serve", "model", name, "0"}, 2, "[max-batched-tokens] expected 1 to");
  expect_refused({"serve", "missing", "--port", "0"}, 3, "missing");
  expect_refused({"serve", "model", "--port", "0", "--api-key-file", "missing"}, 3, "missing");
  expect_refused({"serve", "model", "--port", "0", "--chat-template", "none"}, 2, "none");
}

}  // namespace
}  // namespace ridge::apps
