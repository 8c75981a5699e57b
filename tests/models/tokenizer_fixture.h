// SPDX-License-Identifier: Apache-2.0
// Shared code of the tests of tokenizer files: writing them, and comparing the result of reading.
// No tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "files/scratch.h"
#include "models/tokenizer_file.h"

namespace ridge::models {

using Ids = std::vector<int32_t>;

inline void write_files(const files::ScratchFolder& folder,
                        const std::vector<std::pair<std::string, std::string>>& all) {
  for (const auto& [name, text] : all) files::write_plain(folder / name, text);
}

// Sets only the lists of a GGUF tokenizer.
inline void set_lists(files::GgufWriter& writer, const text::TokenizerSpec& spec) {
  using files::GgufValue;
  writer.set("tokenizer.ggml.tokens", GgufValue::list(std::span<const std::string>(spec.tokens)));
  std::vector<int32_t> types;
  for (text::TokenType type : spec.types) types.push_back(static_cast<int32_t>(type) + 1);
  writer.set("tokenizer.ggml.token_type", GgufValue::list(std::span<const int32_t>(types)));
  if (spec.kind == text::TokenizerKind::kSentencePieceBpe)
    writer.set("tokenizer.ggml.scores", GgufValue::list(std::span<const float>(spec.scores)));
  else
    writer.set("tokenizer.ggml.merges", GgufValue::list(std::span<const std::string>(spec.merges)));
}

inline void expect_same_settings(const text::TokenizerSpec& found,
                                 const text::TokenizerSpec& expected) {
  EXPECT_EQ(found.kind, expected.kind);
  EXPECT_EQ(found.pre_tokenizer, expected.pre_tokenizer);
  EXPECT_EQ(found.whole_piece_first, expected.whole_piece_first);
  EXPECT_EQ(found.nfc, expected.nfc);
  EXPECT_EQ(found.add_space_prefix, expected.add_space_prefix);
  EXPECT_EQ(found.add_bos, expected.add_bos);
  EXPECT_EQ(found.add_eos, expected.add_eos);
  EXPECT_EQ(found.bos, expected.bos);
  EXPECT_EQ(found.eos, expected.eos);
  EXPECT_EQ(found.unknown, expected.unknown);
  EXPECT_EQ(found.padding, expected.padding);
}

inline void expect_same(const TokenizerFile& found, const TokenizerFile& expected) {
  expect_same_settings(found.spec, expected.spec);
  EXPECT_EQ(found.spec.tokens, expected.spec.tokens);
  EXPECT_EQ(found.spec.types, expected.spec.types);
  EXPECT_EQ(found.spec.scores, expected.spec.scores);
  EXPECT_EQ(found.spec.merges, expected.spec.merges);
  EXPECT_EQ(found.spec.end_of_generation, expected.spec.end_of_generation);
  EXPECT_EQ(found.chat_template, expected.chat_template);
}

}  // namespace ridge::models
