// SPDX-License-Identifier: Apache-2.0
// Splits text into pieces before BPE; no merge crosses the boundary of a piece. Hand-written
// scanners, equal to the published patterns but linear in the length of any text. Special tokens
// are found by special_finder.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

enum class PreTokenizer : uint8_t {
  kNone,    // the whole text is one piece
  kGpt2,    // kGpt2Pattern
  kLlama3,  // kLlama3Pattern
  kSmolLm,  // each \p{N} alone, then kGpt2Pattern on the text between
  kQwen2,   // kQwen2Pattern
};

// The patterns that the scanners implement; tests compare the two.
inline constexpr std::string_view kGpt2Pattern =
    R"('(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3's and Qwen's are as their files write them. Without regard to case, "s" is also U+017F.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Llama 3's with numbers of one digit; Qwen 2 and 3 have it.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// "none", "gpt2", "llama3", "smollm", "qwen2".
std::string_view name(PreTokenizer kind);
std::optional<PreTokenizer> parse_pre_tokenizer(std::string_view name);
// "none, gpt2, ... or qwen2", for messages.
std::string pre_tokenizer_names();

// End of the piece that begins at `at` (at < text.size()); at least at + 1. A byte that is not
// valid UTF-8 counts as a character that is neither a letter, a number nor a space. The text before
// `at` has no influence. Scanning a text piece by piece reads each byte at most three times.
size_t piece_end(PreTokenizer kind, std::string_view text, size_t at);

}  // namespace ridge::text
