// SPDX-License-Identifier: Apache-2.0
// Decodes, and answers what ids and tokens are.
#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::text {

Tokenizer::Tokenizer(TokenizerSpec spec) : t_(make_tables(std::move(spec))) {
  std::vector<std::pair<std::string_view, int32_t>> user_defined, all;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string_view token = t_.spec.tokens[static_cast<size_t>(id)];
    const TokenType type = type_of(t_.spec, id);
    if (token.empty() || !is_searched(type)) continue;
    all.emplace_back(token, id);
    if (type == TokenType::kUserDefined) user_defined.emplace_back(token, id);
  }
  user_defined_ = SpecialFinder(std::move(user_defined));
  all_special_ = SpecialFinder(std::move(all));
}

size_t Tokenizer::safe_cut(std::string_view text, size_t at) const {
  if (!t_.cuts_at_spaces) return text.size();
  for (size_t i = std::max<size_t>(at, 1); i < text.size(); ++i)
    if (text[i] == ' ' && is_ascii_alphanumeric(text[i - 1])) return i;
  return text.size();
}

void Tokenizer::check_id(int32_t id) const {
  if (id < 0 || id >= t_.vocab_size())
    throw usage_error("[tokenizer] expected a token id below {}, got {}", t_.vocab_size(), id);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  check_id(id);
  return t_.bytes_of(id);
}

bool Tokenizer::is_special(int32_t id) const {
  check_id(id);
  TokenType type = type_of(t_.spec, id);
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

bool Tokenizer::starts_text_after(int32_t id) const {
  check_id(id);
  return is_searched(type_of(t_.spec, id));
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  int32_t id = t_.index.find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string out;
  // encode puts a space before the text and after each special token. It is dropped where the next
  // text begins.
  bool drop_space = t_.spec.add_space_prefix && !options.continuation;
  for (int32_t id : ids) {
    std::string_view bytes = token_bytes(id);
    if (is_searched(type_of(t_.spec, id))) {
      if (options.special || !is_special(id)) out.append(bytes);
      drop_space = t_.spec.add_space_prefix;
      continue;
    }
    if (drop_space && !bytes.empty() && bytes[0] == ' ') bytes.remove_prefix(1);
    drop_space = false;
    out.append(bytes);
  }
  return out;
}

}  // namespace ridge::text
