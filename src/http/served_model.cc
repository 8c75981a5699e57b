// SPDX-License-Identifier: Apache-2.0
// Notes what does not change while a model is served.
#include "http/served_model.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace ridge::http {
namespace {

size_t longest_token(const text::Tokenizer& tokenizer) {
  size_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    longest = std::max(longest, tokenizer.token_bytes(id).size());
  return longest;
}

}  // namespace

ServedModel::ServedModel(std::string of_name,
                         serve::Engine& of_engine,
                         std::optional<serve::ChatFormat> of_chat)
    : bounds{.model = std::move(of_name),
             .tokenizer = &of_engine.tokenizer(),
             .chat = std::move(of_chat),
             .context = of_engine.session_options().capacity,
             .vocabulary = of_engine.vocabulary(),
             .queue = of_engine.options().queue,
             .most_priority = of_engine.options().most_priority,
             .longest_token_bytes = longest_token(of_engine.tokenizer())},
      engine(of_engine),
      created_s(std::time(nullptr)) {}

}  // namespace ridge::http
