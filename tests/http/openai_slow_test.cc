// SPDX-License-Identifier: Apache-2.0
// The openai package against a server. RIDGE_PEER_PYTHON is a Python that has it; otherwise pip
// fetches it into a scratch folder, and without a network the test is skipped.
#include "files/scratch.h"
#include "http/served_model_test.h"
#include "http/server.h"
#include "peer_python.h"

namespace ridge::http {
namespace {

class OpenAiTest : public ServedModelTest {
 protected:
  OpenAiTest() : ServedModelTest(ApiKeys({kKey})) { api_.open(model_); }

  files::ScratchFolder folder_;
};

TEST_F(OpenAiTest, GetsTheModelsAnswers) {
  const std::string interpreter = python_with("openai", "openai", folder_.path());
  if (interpreter.empty()) GTEST_SKIP() << "pip could not fetch the package openai";
  const Server server(api_, {.port = 0});
  const std::string said = output_of(
      fmt::format("'{}' '{}' http://127.0.0.1:{}/v1 {}", interpreter,
                  source_file("tests/http/openai_client.py").string(), server.port(), kKey));
  ASSERT_FALSE(said.empty());
  const json got = json::parse(said);
  const serve::Generation chat = alone(chat_ids("Hi"), 12);
  const std::string text = alone(tokenizer_.encode("Once"), 10).text;
  EXPECT_EQ(got.at("models"), json::array({"small"}));
  EXPECT_EQ(got.at("chat"), chat.text);
  EXPECT_EQ(got.at("finish"), chat.finish_reason);
  EXPECT_EQ(got.at("stream"), chat.text);
  EXPECT_EQ(got.at("text"), text);
  EXPECT_EQ(got.at("at_once"), json(std::vector<std::string>(12, text)));
  EXPECT_EQ(got.at("refused"), json({"model", "temperature", "n"}));
  await([&] { return engine_.is_idle(); });
}

}  // namespace
}  // namespace ridge::http
