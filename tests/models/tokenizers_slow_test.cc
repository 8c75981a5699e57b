// SPDX-License-Identifier: Apache-2.0
// Ids against Hugging Face's tokenizers package, on random and real texts. RIDGE_TOKENIZER_TEXTS
// may name files with more texts, and RIDGE_TOKENIZER a folder with another tokenizer, separated by
// colons.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "files/scratch.h"
#include "models/tokenizer_file.h"
#include "peer_python.h"
#include "text/utf8.h"

namespace ridge::models {
namespace {

using nlohmann::json;

std::vector<std::string> listed(const char* variable) {
  const char* value = std::getenv(variable);
  std::vector<std::string> list;
  std::istringstream in(value == nullptr ? "" : value);
  for (std::string each; std::getline(in, each, ':');)
    if (!each.empty()) list.push_back(each);
  return list;
}

// Up to 400 characters of scripts whose normalization differs, assigned before Unicode 12, because
// the package has old tables.
std::string random_text(std::mt19937& random) {
  struct CodePointRange {
    char32_t first, last;
  };
  static const std::vector<CodePointRange> kRanges = {
      {0x20, 0x7E},     {0x20, 0x7E},      {0x0A, 0x0D},     {0xA0, 0x17E},    {0x300, 0x36F},
      {0x300, 0x345},   {0x391, 0x3A1},    {0x3B1, 0x3CE},   {0x410, 0x45F},   {0x5D0, 0x5EA},
      {0x5B0, 0x5BD},   {0x621, 0x655},    {0x915, 0x94D},   {0x9C7, 0x9CD},   {0xE01, 0xE3A},
      {0x1100, 0x1112}, {0x1161, 0x1175},  {0x11A8, 0x11C2}, {0x1E00, 0x1EF9}, {0x1F00, 0x1F15},
      {0x2000, 0x200A}, {0x2010, 0x2027},  {0x2126, 0x212B}, {0x2190, 0x22FF}, {0x3041, 0x3096},
      {0x3099, 0x309A}, {0x30A1, 0x30FA},  {0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}, {0xF900, 0xFA2D},
      {0xFF01, 0xFF5E}, {0x1F600, 0x1F64F}};
  static const std::vector<std::string> kPhrases = {
      "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "'s",    "'LL",
      "'\u017F",      "  ",         "\r\n\r\n",      "\t",      "e\u0301",  " the ", "123456",
      "\n \n",        "...\n"};
  std::string text;
  for (size_t n = random() % 40; n > 0; --n) {
    if (random() % 6 == 0) {
      text += kPhrases[random() % kPhrases.size()];
      continue;
    }
    const CodePointRange& range = kRanges[random() % kRanges.size()];
    for (size_t run = 1 + random() % 10; run > 0; --run)
      text::append_utf8(text, range.first + random() % (range.last - range.first + 1));
  }
  return text;
}

std::vector<std::string> texts() {
  std::vector<std::string> list;
  std::mt19937 random(17);
  for (int i = 0; i < 4000; ++i) list.push_back(random_text(random));
  std::vector<std::string> files = listed("RIDGE_TOKENIZER_TEXTS");
  files.push_back(test_data("text/corpus.en").string());
  for (const std::string& file : files) {
    const std::string all = text::to_valid_utf8(ridge::files::contents(file));
    for (size_t at = 0; at < all.size(); at += 20000)
      list.push_back(text::to_valid_utf8(all.substr(at, 20000)));
  }
  return list;
}

void expect_same_ids(const std::string& python, const std::filesystem::path& folder) {
  const std::vector<std::string> list = texts();
  files::ScratchFolder scratch;
  files::write_plain(scratch / "texts.json", json(list).dump());
  const std::string command = fmt::format(
      "'{}' '{}' '{}' '{}' > '{}'", python, source_file("tests/models/tokenizers_ids.py").string(),
      (folder / "tokenizer.json").string(), (scratch / "texts.json").string(),
      (scratch / "ids.json").string());
  const int status = std::system(command.c_str());
  ASSERT_EQ(status, 0) << command;
  const json expected = json::parse(files::contents(scratch / "ids.json"));
  ASSERT_EQ(expected.size(), list.size());
  const text::Tokenizer tokenizer = load_tokenizer(folder);
  size_t tokens = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::vector<int32_t> ids = tokenizer.encode(list[i], {.parse_special = true});
    EXPECT_EQ(ids, expected[i].get<std::vector<int32_t>>()) << list[i].substr(0, 200);
    tokens += ids.size();
  }
  fmt::print("{}: {} tokens in {} texts\n", folder.string(), tokens, list.size());
}

TEST(HuggingFaceTokenizers, GiveOurIds) {
  const files::ScratchFolder environment;
  const std::string python = python_with("tokenizers", "tokenizers", environment.path());
  if (python.empty()) GTEST_SKIP() << "no Python with tokenizers, and pip does not fetch it";
  for (const char* name : {"gpt2", "smollm", "llama3", "qwen2"})
    expect_same_ids(python, test_data("models/tokenizers") / name);
  for (const std::string& folder : listed("RIDGE_TOKENIZER")) expect_same_ids(python, folder);
}

}  // namespace
}  // namespace ridge::models
