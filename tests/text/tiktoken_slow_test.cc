// SPDX-License-Identifier: Apache-2.0
// GPT-2's ids against tiktoken. RIDGE_PEER_PYTHON is a Python with tiktoken; without it the test is
// skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

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
  const char* python = std::getenv("RIDGE_PEER_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "RIDGE_PEER_PYTHON names no Python with tiktoken";
  std::vector<std::string> list = texts();
  std::filesystem::path input = std::filesystem::temp_directory_path() /
                                ("ridge-tiktoken-" + std::to_string(::getpid()) + ".json");
  std::ofstream(input) << nlohmann::json(list).dump();
  std::string command =
      fmt::format("'{}' '{}' '{}' '{}'", python, source_file("tests/text/tiktoken_ids.py").string(),
                  test_data("text").string(), input.string());
  std::FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  std::array<char, 65536> part;
  while (size_t size = std::fread(part.data(), 1, part.size(), pipe))
    said.append(part.data(), size);
  int status = ::pclose(pipe);
  std::filesystem::remove(input);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << python << " has no tiktoken";
  ASSERT_EQ(status, 0) << command;
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
