// SPDX-License-Identifier: Apache-2.0
// Where a text is cut before BPE: each merge stays inside one piece.
// Hand-written scanners, equal to the published patterns but linear in
// the text whatever it is. Special tokens are not this file's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::text {

enum class PreTokenizer : uint8_t {
  kNone,    // the whole text is one piece
  kGpt2,    // kGpt2Pattern
  kLlama3,  // kLlama3Pattern
  kSmolLm,  // each \p{N} alone, then kGpt2Pattern within what lies between
};

// The patterns that the scanners stand for; tests hold one against the other.
inline constexpr std::string_view kGpt2Pattern =
    R"('(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// "none", "gpt2", "llama3", "smollm".
std::string_view name(PreTokenizer kind);
std::optional<PreTokenizer> parse_pre_tokenizer(std::string_view name);

// End of the piece that begins at `at` (at < text.size()); at + 1 or more. A byte that is no UTF-8
// counts as a character that is neither letter, number nor space. What lies before `at` never
// matters, and scanning a text piece by piece reads each byte at most three times.
size_t piece_end(PreTokenizer kind, std::string_view text, size_t at);

}  // namespace ridge::text
