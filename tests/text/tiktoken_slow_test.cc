// SPDX-License-Identifier: Apache-2.0
// GPT-2's ids against tiktoken.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "files/scratch.h"
#include "peer_python.h"
#include "test_paths.h"
#include "text/text_fixtures.h"
#include "text/tokenizer.h"

namespace ridge::text {
namespace {

// llama.cpp's texts, parts of a corpus, and random texts.
std::vector<std::string> texts() {
  std::vector<std::string> list = read_json("byte_level_llama_cpp.json")["texts"];
  std::string corpus = read_data("corpus.en");
  for (size_t at = 0; at + 2000 < corpus.size(); at += 2000)
    list.push_back(to_valid_utf8(corpus.substr(at, 2000)));
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i)
    list.push_back(to_valid_utf8(random_text(random, 200)) + (i % 3 == 0 ? "<|endoftext|>" : ""));
  for (const char* unit : {"a", " ", "\n", "'", "1", "ab ", "\u00e9"})
    list.push_back(repeated(unit, 3000));
  return list;
}

TEST(Tiktoken, GivesOurIds) {
  const files::ScratchFolder folder;
  const std::string python = python_with("tiktoken", "tiktoken", folder.path());
  if (python.empty()) GTEST_SKIP() << "no Python with tiktoken, and pip does not fetch it";
  std::vector<std::string> list = texts();
  const std::filesystem::path input = folder / "texts.json";
  std::ofstream(input) << nlohmann::json(list).dump();
  std::string command =
      fmt::format("'{}' '{}' '{}' '{}'", python, source_file("tests/text/tiktoken_ids.py").string(),
                  test_data("text").string(), input.string());
  const std::string said = output_of(command);
  ASSERT_NE(said, "") << command;
  nlohmann::json expected = nlohmann::json::parse(said);
  ASSERT_EQ(expected.size(), list.size());
  Tokenizer tokenizer(gpt2_spec());
  for (size_t i = 0; i < list.size(); ++i)
    for (bool special : {false, true})
      EXPECT_EQ(tokenizer.encode(list[i], {.parse_special = special}),
                expected[i][special ? 1 : 0].get<std::vector<int32_t>>())
          << list[i].substr(0, 80);
}

}  // namespace
}  // namespace ridge::text
