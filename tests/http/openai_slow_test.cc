// SPDX-License-Identifier: Apache-2.0
// The openai package against a server. RIDGE_PEER_PYTHON is a Python that has it; otherwise pip
// fetches it into a scratch folder, and without a network the test is skipped.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "files/scratch.h"
#include "http/served_model_test.h"
#include "http/server.h"

namespace ridge::http {
namespace {

// The stdout of a command; empty if it fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> part;
  while (size_t size = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), size);
  return ::pclose(pipe) == 0 ? text : "";
}

class OpenAiTest : public ServedModelTest {
 protected:
  OpenAiTest() : ServedModelTest(ApiKeys({kKey})) { api_.open(model_); }

  // A Python with the package; empty if there is none.
  std::string python() const {
    const char* given = std::getenv("RIDGE_PEER_PYTHON");
    if (given != nullptr &&
        !output_of(fmt::format("'{}' -c 'import openai; print(1)'", given)).empty())
      return given;
    const std::string made = folder_ / "venv/bin/python";
    const std::string make =
        fmt::format("python3 -m venv '{}' >&2 && '{}' -m pip install --quiet openai >&2 && echo 1",
                    (folder_ / "venv").string(), made);
    return output_of(make).empty() ? "" : made;
  }

  files::ScratchFolder folder_;
};

TEST_F(OpenAiTest, GetsTheModelsAnswers) {
  const std::string interpreter = python();
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
