// SPDX-License-Identifier: Apache-2.0
// The answer to a completion, chat or not, as OpenAI's clients read it: one JSON object, or a
// stream of server-sent events. Each of its choices is a request to the engine.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "http/generation.h"
#include "http/served_model.h"

namespace ridge::http {

class Completion : public Answer {
 public:
  // Submits a request per choice. Throws an ApiError if one is refused: 429 if the queue is full,
  // 503 if the engine takes no more. The model must outlive it.
  Completion(Generation generation, const ServedModel& model, std::function<void()> wake);
  ~Completion() override;

  Piece take() override;

 private:
  using Json = nlohmann::ordered_json;

  // One of the answers. Only its maker and destructor change the engine.
  struct Choice {
    size_t index = 0;
    std::shared_ptr<serve::OutputQueue> output = nullptr;
    uint64_t handle = 0;
    bool has_begun = false;
    int64_t text_offset = 0;  // the next token begins there in the text
    serve::Delta all = {};    // all deltas so far, in a stream without their text

    bool has_ended() const { return all.finish != serve::Finish::kNone; }
  };

  void submit(Choice& choice, serve::Request request, const std::function<void()>& wake);
  void cancel();
  Piece fail(const Choice& choice);
  std::string take_events(Choice& choice);
  void take_whole(Choice& choice);
  Json envelope(bool is_chunk) const;
  Json written(Choice& choice,
               std::string text,
               const std::vector<serve::TokenScores>& scores,
               bool is_chunk) const;
  std::string begin_event(const Choice& choice) const;
  std::string end_event(const Choice& choice) const;
  Json usage() const;
  Json whole();
  std::string usage_event() const;
  std::string event(const Json& choice) const;
  std::string token_text(int32_t id) const;
  Json chat_logprobs(const std::vector<serve::TokenScores>& scores) const;
  Json text_logprobs(Choice& choice, const std::vector<serve::TokenScores>& scores) const;

  const ServedModel& model_;
  const bool is_chat_, streams_, includes_usage_, has_logprobs_, wants_metrics_;
  const std::string echo_;
  const int64_t prompt_tokens_;
  std::string id_;
  int64_t created_s_ = 0;
  std::vector<Choice> choices_;
};

}  // namespace ridge::http
