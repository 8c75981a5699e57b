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

// Writes choices as objects of OpenAI's API.
class CompletionWriter {
 public:
  using Json = nlohmann::ordered_json;
  using Scores = std::vector<serve::TokenScores>;

  CompletionWriter(const Generation& generation, const ServedModel& model);

  // One object with all choices.
  std::string whole(std::vector<Choice>& choices) const;
  // The events of a stream: the role of a chat or the prompt that is to be repeated (empty if there
  // is neither), a piece of an answer, its end, and the usage of all.
  std::string begin_event(const Choice& choice) const;
  std::string piece_event(Choice& choice, std::string text, const Scores& scores) const;
  std::string end_event(const Choice& choice) const;
  std::string usage_event(const std::vector<Choice>& choices) const;

 private:
  Json envelope(bool is_chunk) const;
  // `said` is the value of the text, the message or the delta. The choice ends if `is_end`.
  Json choice_json(const Choice& choice,
                   const char* key,
                   Json said,
                   Json logprobs,
                   bool is_end) const;
  Json logprobs(Choice& choice, const Scores& scores) const;
  Json usage(const std::vector<Choice>& choices) const;
  std::string event(const Json& choice) const;

  const ServedModel& model_;
  const bool is_chat_, includes_usage_, has_logprobs_, wants_metrics_;
  const std::string echo_;
  const int64_t prompt_tokens_;
  const std::string id_;
  const int64_t created_s_;
};

class Completion : public Answer {
 public:
  // Submits a request per choice. Throws an ApiError if one is refused: 429 if the queue is full,
  // 503 if the engine takes no more. The model must outlive it.
  Completion(Generation generation, const ServedModel& model, std::function<void()> wake);
  ~Completion() override;

  Piece take() override;

 private:
  void submit(Choice& choice, serve::Request request, const std::function<void()>& wake);
  void cancel();
  Piece fail(const Choice& choice) const;
  std::string take_events(Choice& choice);

  const ServedModel& model_;
  const CompletionWriter writer_;
  const bool streams_, includes_usage_;
  std::vector<Choice> choices_;
};

}  // namespace ridge::http
