// SPDX-License-Identifier: Apache-2.0
// Shared data and plain reference code of the tests of text/. No tests.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "test_paths.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace ridge::text {

inline std::string read_data(const std::string& name) {
  std::ifstream file(test_data("text/" + name), std::ios::binary);
  if (!file) throw std::runtime_error("no test data " + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline nlohmann::json read_json(const std::string& name) {
  return nlohmann::json::parse(read_data(name));
}

inline TokenizerSpec gpt2_spec(PreTokenizer pre_tokenizer = PreTokenizer::kGpt2) {
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  const nlohmann::json vocabulary = read_json("gpt2_vocab.json");
  spec.tokens.resize(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) spec.tokens.at(id.get<size_t>()) = token;
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.types.back() = TokenType::kControl;  // <|endoftext|>
  spec.bos = spec.eos = static_cast<int32_t>(spec.tokens.size()) - 1;
  std::string merges = read_data("gpt2_merges.txt");
  for (size_t at = 0; at < merges.size();) {
    size_t end = merges.find('\n', at);
    spec.merges.push_back(merges.substr(at, end - at));
    at = end + 1;
  }
  return spec;
}

inline TokenizerSpec sentencepiece_spec(const nlohmann::json& data, bool add_space_prefix) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePieceBpe;
  spec.tokens = data["tokens"].get<std::vector<std::string>>();
  spec.scores = data["scores"].get<std::vector<float>>();
  for (int type : data["types"]) spec.types.push_back(static_cast<TokenType>(type));
  spec.bos = data["bos"];
  spec.eos = data["eos"];
  spec.unknown = data["unknown"];
  spec.add_space_prefix = add_space_prefix;
  return spec;
}

// Random text with runs of many scripts, spaces, digits, quotes and punctuation, without code
// points newer than Unicode 14.
inline std::string random_text(std::mt19937& random, size_t characters) {
  using Pool = std::vector<char32_t>;
  auto range = [](char32_t first, char32_t last) {
    Pool pool;
    for (char32_t c = first; c <= last; ++c) pool.push_back(c);
    return pool;
  };
  static const std::vector<Pool> kPools = {
      {' '},
      {' ', '\n'},
      {'\r', '\n', ' ', '\t'},
      range('0', '9'),
      range('a', 'z'),
      range('A', 'Z'),
      {'\'', 's', 't', 'r', 'e', 'v', 'l', 'd', 'm', 'S', 'L', 'R', 'E', ' '},
      range('!', '/'),
      range(0x400, 0x460),
      range(0x4E00, 0x4E80),
      range(0x1F600, 0x1F640),
      {0xA0, 0x2003, 0x3000, 0x1680, 0x85, 0x2028, 0x200B, 0xFEFF},
      {0x660, 0xBD, 0x2167, 0xB2},
      {0x301, 0x94D, 0xE31, 0x5B0},
      range(0xC0, 0x24F)};
  std::string text;
  while (characters > 0) {
    const Pool& pool = kPools[random() % kPools.size()];
    bool same = random() % 3 == 0;
    char32_t c = pool[random() % pool.size()];
    for (size_t run = std::min<size_t>(characters, 1 + random() % 12); run > 0; --run, --characters)
      append_utf8(text, same ? c : pool[random() % pool.size()]);
  }
  return text;
}

inline std::string repeated(std::string_view unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

// The message of the Error that `f` throws; empty if it throws none.
template <typename F>
std::string error_of(F f, ExitCode code = ExitCode::kBadFile) {
  try {
    f();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : std::string("other exit code: ") + error.what();
  }
  return "";
}

}  // namespace ridge::text
