// SPDX-License-Identifier: Apache-2.0
// Writes an answer's tokens as objects of OpenAI's API.
#include "http/completion.h"

#include <fmt/format.h>

#include <atomic>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "http/api_error.h"
#include "http/json_text.h"
#include "text/utf8.h"

namespace ridge::http {
namespace {

using serve::Finish;
using serve::TokenScores;

std::string sse(const std::string& data) { return "data: " + data + "\n\n"; }

std::string new_id(bool is_chat) {
  static std::atomic<uint64_t> last{0};
  return fmt::format("{}-{:x}-{:x}", is_chat ? "chatcmpl" : "cmpl", std::time(nullptr), ++last);
}

ApiError failure(const serve::Delta& all) {
  if (all.finish == Finish::kFailed) return {500, all.error};
  return {503, "the server is stopping"};
}

bool is_whole(Finish finish) { return finish == Finish::kStop || finish == Finish::kLength; }

}  // namespace

Completion::Completion(Generation generation, const ServedModel& model, std::function<void()> wake)
    : model_(model),
      is_chat_(generation.is_chat),
      streams_(generation.streams),
      includes_usage_(generation.includes_usage),
      has_logprobs_(generation.request.top_logprobs >= 0),
      prompt_tokens_(std::ssize(generation.request.prompt)),
      id_(new_id(generation.is_chat)),
      created_s_(std::time(nullptr)),
      outbox_(std::make_shared<serve::Outbox>(std::move(wake))) {
  serve::Ticket ticket;
  try {
    ticket = model.engine.submit(std::move(generation.request), outbox_);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (ticket.refusal == serve::Refusal::kFull)
    throw ApiError(429, "[queue] the server's queue is full; try again later", "", "queue_full");
  if (ticket.refusal == serve::Refusal::kDraining)
    throw ApiError(503, "the server is stopping", "", "draining");
  ticket_ = ticket.id;
}

Completion::~Completion() {
  if (!has_ended_) model_.engine.cancel(ticket_);
}

Answer::Piece Completion::take() {
  serve::Delta delta = outbox_->take();
  all_.tokens += delta.tokens;
  all_.cached_tokens += delta.cached_tokens;
  all_.finish = delta.finish;
  all_.error = delta.error;
  has_ended_ = delta.finish != Finish::kNone;
  return streams_ ? take_events(std::move(delta)) : take_whole(std::move(delta));
}

Answer::Piece Completion::take_whole(serve::Delta delta) {
  all_.text += delta.text;
  all_.scores.insert(all_.scores.end(), std::move_iterator(delta.scores.begin()),
                     std::move_iterator(delta.scores.end()));
  if (!has_ended_) return {};
  if (!is_whole(all_.finish)) {
    const ApiError error = failure(all_);
    return {error_json(error), true, error.status};
  }
  Json whole = envelope(false);
  whole["choices"] = Json::array({choice(std::move(all_.text), all_.scores, false)});
  whole["usage"] = usage();
  return {json_text(whole), true, 200};
}

Answer::Piece Completion::take_events(serve::Delta delta) {
  Piece piece;
  if (!has_begun_ && is_chat_)
    piece.bytes += event(Json::array({{{"index", 0},
                                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                                       {"logprobs", nullptr},
                                       {"finish_reason", nullptr}}}));
  has_begun_ = true;
  if (!delta.text.empty() || !delta.scores.empty())
    piece.bytes += event(Json::array({choice(std::move(delta.text), delta.scores, true)}));
  if (!has_ended_) return piece;
  piece.is_last = true;
  if (is_whole(all_.finish)) {
    Json last{{"index", 0}};
    if (is_chat_)
      last["delta"] = Json::object();
    else
      last["text"] = "";
    last["logprobs"] = nullptr;
    last["finish_reason"] = finish_reason();
    piece.bytes += event(Json::array({std::move(last)}));
    if (includes_usage_) {
      Json chunk = envelope(true);
      chunk["choices"] = Json::array();
      chunk["usage"] = usage();
      piece.bytes += sse(json_text(chunk));
    }
  } else {
    piece.bytes += sse(error_json(failure(all_)));
  }
  piece.bytes += sse("[DONE]");
  return piece;
}

Completion::Json Completion::envelope(bool is_chunk) const {
  const char* object = !is_chat_  ? "text_completion"
                       : is_chunk ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_s_}, {"model", model_.name}};
}

Completion::Json Completion::choice(std::string text,
                                    const std::vector<TokenScores>& scores,
                                    bool is_chunk) {
  Json made{{"index", 0}};
  if (!is_chat_)
    made["text"] = std::move(text);
  else if (is_chunk)
    made["delta"] = {{"content", std::move(text)}};
  else
    made["message"] = {{"role", "assistant"}, {"content", std::move(text)}, {"refusal", nullptr}};
  if (!has_logprobs_)
    made["logprobs"] = nullptr;
  else
    made["logprobs"] = is_chat_ ? chat_logprobs(scores) : text_logprobs(scores);
  made["finish_reason"] = is_chunk ? Json() : finish_reason();
  return made;
}

Completion::Json Completion::finish_reason() const { return serve::finish_name(all_.finish); }

Completion::Json Completion::usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", all_.tokens},
          {"total_tokens", prompt_tokens_ + all_.tokens},
          {"prompt_tokens_details", {{"cached_tokens", all_.cached_tokens}}}};
}

std::string Completion::event(const Json& choices) const {
  Json chunk = envelope(true);
  chunk["choices"] = choices;
  if (includes_usage_) chunk["usage"] = nullptr;
  return sse(json_text(chunk));
}

std::string Completion::token_text(int32_t id) const {
  return text::to_valid_utf8(model_.engine.tokenizer().token_bytes(id));
}

Completion::Json Completion::chat_logprobs(const std::vector<TokenScores>& scores) const {
  const auto entry = [&](const serve::ScoredToken& token) {
    Json bytes = Json::array();
    for (char byte : model_.engine.tokenizer().token_bytes(token.id))
      bytes.push_back(static_cast<unsigned char>(byte));
    return Json{{"token", token_text(token.id)}, {"logprob", token.logprob}, {"bytes", bytes}};
  };
  Json content = Json::array();
  for (const TokenScores& each : scores) {
    Json made = entry(each.chosen);
    made["top_logprobs"] = Json::array();
    for (const serve::ScoredToken& token : each.top) made["top_logprobs"].push_back(entry(token));
    content.push_back(std::move(made));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Completion::Json Completion::text_logprobs(const std::vector<TokenScores>& scores) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const TokenScores& each : scores) {
    const std::string text = token_text(each.chosen.id);
    Json top = Json::object();
    for (const serve::ScoredToken& token : each.top) top[token_text(token.id)] = token.logprob;
    offsets.push_back(text_offset_);
    text_offset_ += std::ssize(text);
    tokens.push_back(text);
    logprobs.push_back(each.chosen.logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace ridge::http
