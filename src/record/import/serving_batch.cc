// SPDX-License-Identifier: Apache-2.0
// Reads the numbers after the words of an annotation.
#include "record/import/serving_batch.h"

#include <charconv>

namespace ridge::record {
namespace {

// The number after a word; nothing without the word, or if the number is not plausible.
std::optional<int64_t> number_after(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr int64_t kMost = int64_t{1} << 40;
  if (error != std::errc() || number < 0 || number > kMost) return std::nullopt;
  return number;
}

// The text in the parentheses after a word.
std::string_view part_after(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at);
  const size_t open = text.find('('), close = text.find(')');
  return open < close && close != std::string_view::npos ? text.substr(open, close - open + 1) : "";
}

std::optional<ServingBatch> vllm_batch(std::string_view text) {
  constexpr std::string_view kContext = "context_", kGeneration = "generation_";
  const auto contexts = number_after(text, kContext), generations = number_after(text, kGeneration);
  if (!contexts || !generations) return std::nullopt;
  ServingBatch batch{*contexts, *generations};
  const std::string_view first = part_after(text, kContext), second = part_after(text, kGeneration);
  const auto queries = number_after(first, "(sq"), tokens = number_after(first, "(");
  batch.context_tokens = queries.value_or(tokens.value_or(0));
  const auto pairs = number_after(first, "sqsk"), more_pairs = number_after(second, "sqsk");
  if (!pairs || !more_pairs) return batch;
  batch.pairs = *pairs + *more_pairs;
  const auto keys = number_after(first, "sk"), more_keys = number_after(second, "sk");
  if (keys && more_keys) batch.keys = *keys + *more_keys;
  return batch;
}

std::optional<ServingBatch> sglang_batch(std::string_view text) {
  const auto rows = number_after(text, "bs=");
  if (!rows) return std::nullopt;
  if (text.starts_with("step[DECODE")) return ServingBatch{0, *rows};
  if (text.starts_with("step[MIXED")) return ServingBatch{*rows, *rows};
  return ServingBatch{*rows, 0, number_after(text, "toks=").value_or(0)};
}

}  // namespace

std::optional<ServingBatch> serving_batch(std::string_view annotation) {
  if (annotation.starts_with("execute_")) return vllm_batch(annotation);
  if (annotation.starts_with("step[")) return sglang_batch(annotation);
  return std::nullopt;
}

std::optional<int64_t> captured_tokens(std::string_view annotation) {
  constexpr std::string_view kCapture = "capture_";
  return annotation.starts_with(kCapture) ? number_after(annotation, kCapture) : std::nullopt;
}

}  // namespace ridge::record
