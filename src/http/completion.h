// SPDX-License-Identifier: Apache-2.0
// The answer to a completion, chat or not, as OpenAI's clients read it: one JSON object, or a stream
// of server-sent events.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "http/exchange.h"
#include "http/generation.h"

namespace ridge::http {

class Completion : public Answer {
 public:
  // Submits the request. Throws an ApiError if it is refused: 429 if the queue is full, 503 if the
  // engine takes no more. The model must outlive it.
  Completion(Generation generation, const ServedModel& model, std::function<void()> wake);
  ~Completion() override;

  Piece take() override;

 private:
  using Json = nlohmann::ordered_json;

  Piece take_events(serve::Delta delta);
  Piece take_whole(serve::Delta delta);
  Json envelope(bool is_chunk) const;
  Json choice(std::string text, const std::vector<serve::TokenScores>& scores, bool is_chunk);
  Json finish_reason() const;
  Json usage() const;
  std::string event(const Json& choices) const;
  std::string token_text(int32_t id) const;
  Json chat_logprobs(const std::vector<serve::TokenScores>& scores) const;
  Json text_logprobs(const std::vector<serve::TokenScores>& scores);

  const ServedModel& model_;
  const bool is_chat_, streams_, includes_usage_, has_logprobs_;
  const int64_t prompt_tokens_;
  std::string id_;
  int64_t created_s_ = 0;
  std::shared_ptr<serve::Outbox> outbox_;
  uint64_t ticket_ = 0;
  bool has_begun_ = false, has_ended_ = false;
  int64_t text_offset_ = 0;  // of the next token in the completion's text
  serve::Delta all_;         // what has come so far; of a stream without its text
};

}  // namespace ridge::http
