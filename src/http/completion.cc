// SPDX-License-Identifier: Apache-2.0
// Writes an answer's tokens as objects of OpenAI's API.
#include "http/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
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

// An unknown figure is null.
nlohmann::ordered_json metrics_json(const serve::RequestMetrics& a) {
  using Json = nlohmann::ordered_json;
  const auto ms = [](double ns) { return ns / 1e6; };
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
  const auto each_ms = [&](double ns) {
    return a.later_tokens > 0 ? known(ms(ns) / static_cast<double>(a.later_tokens)) : Json();
  };
  const bool is_predicted = a.predicted_prefill_ns > 0;
  return {
      {"queue_ms", ms(a.queue_ns)},
      {"prefill_ms", ms(a.prefill_ns)},
      {"decode_ms", ms(a.decode_ns)},
      {"cached_tokens", a.cached_tokens},
      {"steps", a.steps},
      {"steps_ms", ms(a.step_ns)},
      {"share_of_steps", known(a.step_ns > 0 ? a.shared_ns / a.step_ns : 0)},
      {"model_flops", a.cost.model.flops},
      {"executed_flops", a.cost.executed_flops},
      {"read_bytes", a.cost.read_bytes},
      {"written_bytes", a.cost.written_bytes},
      {"mfu", known(a.mfu())},
      {"mbu", known(a.mbu())},
      {"ttft_ms", ms(a.queue_ns + a.prefill_ns)},
      {"predicted_ttft_ms", is_predicted ? Json(ms(a.queue_ns + a.predicted_prefill_ns)) : Json()},
      {"tpot_ms", each_ms(a.decode_ns)},
      {"predicted_tpot_ms", each_ms(a.predicted_decode_ns)}};
}

bool is_whole(Finish finish) { return finish == Finish::kStop || finish == Finish::kLength; }

}  // namespace

Completion::Completion(Generation generation, const ServedModel& model, std::function<void()> wake)
    : model_(model),
      writer_(generation, model),
      streams_(generation.streams),
      includes_usage_(generation.includes_usage) {
  try {
    for (int64_t i = 0; i < generation.choices; ++i) {
      serve::Request request = generation.request;
      // Each choice has a seed of its own; the first has that of the request.
      request.sampling.seed =
          static_cast<uint32_t>(static_cast<uint32_t>(request.sampling.seed) + i);
      submit(choices_.emplace_back(Choice{.index = static_cast<size_t>(i)}), std::move(request),
             wake);
    }
  } catch (...) {
    cancel();
    throw;
  }
}

void Completion::submit(Choice& choice, serve::Request request, const std::function<void()>& wake) {
  choice.output = std::make_shared<serve::OutputQueue>(wake);
  serve::RequestHandle handle;
  try {
    handle = model_.engine.submit(std::move(request), choice.output);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (handle.refusal == serve::Refusal::kFull)
    throw ApiError(429, "[queue] the server's queue is full; try again later", "", "queue_full");
  if (handle.refusal == serve::Refusal::kDraining)
    throw ApiError(503, "the server is stopping", "", "draining");
  choice.handle = handle.id;
}

Completion::~Completion() { cancel(); }

// Ends what still runs. RequestHandle 0 is none.
void Completion::cancel() {
  for (const Choice& each : choices_)
    if (each.handle != 0 && !each.has_ended()) model_.engine.cancel(each.handle);
}

// One choice's failure is the whole answer's.
Answer::Piece Completion::fail(const Choice& choice) const {
  const ApiError error = failure(choice.all);
  if (streams_) return {sse(error_json(error)) + sse("[DONE]"), true, 200};
  return {error_json(error), true, error.status};
}

Answer::Piece Completion::take() {
  Piece piece;
  for (Choice& each : choices_) {
    if (each.has_ended()) continue;
    if (streams_)
      piece.bytes += take_events(each);
    else
      each.all.append(each.output->take());
    if (!each.has_ended() || is_whole(each.all.finish)) continue;
    Piece failed = fail(each);
    failed.bytes = piece.bytes + failed.bytes;
    return failed;
  }
  piece.is_last = std::ranges::all_of(choices_, &Choice::has_ended);
  if (!piece.is_last) return piece;
  if (!streams_)
    piece.bytes = writer_.whole(choices_);
  else
    piece.bytes += (includes_usage_ ? writer_.usage_event(choices_) : "") + sse("[DONE]");
  return piece;
}

std::string Completion::take_events(Choice& choice) {
  serve::Delta delta = choice.output->take();
  std::string text = std::exchange(delta.text, {});
  const CompletionWriter::Scores scores = std::exchange(delta.scores, {});
  choice.all.append(std::move(delta));
  std::string events;
  if (!choice.has_begun) events += writer_.begin_event(choice);
  choice.has_begun = true;
  if (!text.empty() || !scores.empty())
    events += writer_.piece_event(choice, std::move(text), scores);
  if (is_whole(choice.all.finish)) events += writer_.end_event(choice);
  return events;
}

namespace {

using Json = CompletionWriter::Json;

Json chat_logprobs(const text::Tokenizer& tokenizer, const CompletionWriter::Scores& scores) {
  const auto json_of = [&](const serve::ScoredToken& token) {
    const std::string_view text = tokenizer.token_bytes(token.id);
    return Json{{"token", text::to_valid_utf8(text)},
                {"logprob", token.logprob},
                {"bytes", std::vector<uint8_t>(text.begin(), text.end())}};
  };
  Json content = Json::array();
  for (const TokenScores& each : scores) {
    Json& made = content.emplace_back(json_of(each.chosen));
    made["top_logprobs"] = Json::array();
    for (const serve::ScoredToken& token : each.top) made["top_logprobs"].push_back(json_of(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// `offset` is where the first of the tokens begins in the text, and then where the next one will.
Json text_logprobs(const text::Tokenizer& tokenizer,
                   const CompletionWriter::Scores& scores,
                   int64_t& offset) {
  const auto text_of = [&](int32_t id) { return text::to_valid_utf8(tokenizer.token_bytes(id)); };
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const TokenScores& each : scores) {
    const std::string text = text_of(each.chosen.id);
    Json& top = tops.emplace_back(Json::object());
    for (const serve::ScoredToken& token : each.top) top[text_of(token.id)] = token.logprob;
    offsets.push_back(offset);
    offset += std::ssize(text);
    tokens.push_back(text);
    logprobs.push_back(each.chosen.logprob);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace

CompletionWriter::CompletionWriter(const Generation& generation, const ServedModel& model)
    : model_(model),
      is_chat_(generation.is_chat),
      includes_usage_(generation.includes_usage),
      has_logprobs_(generation.request.top_logprobs >= 0),
      wants_metrics_(generation.wants_metrics),
      echo_(generation.echo),
      prompt_tokens_(std::ssize(generation.request.prompt)),
      id_(new_id(generation.is_chat)),
      created_s_(std::time(nullptr)) {}

Json CompletionWriter::envelope(bool is_chunk) const {
  const char* object = !is_chat_  ? "text_completion"
                       : is_chunk ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_s_}, {"model", model_.name()}};
}

Json CompletionWriter::choice_json(const Choice& choice,
                                   const char* key,
                                   Json said,
                                   Json logprobs,
                                   bool is_end) const {
  Json made{{"index", choice.index}, {key, std::move(said)}, {"logprobs", std::move(logprobs)}};
  made["finish_reason"] = is_end ? Json(serve::finish_name(choice.all.finish)) : Json();
  if (wants_metrics_ && is_end) made["x_ridge"] = metrics_json(*choice.all.metrics);
  return made;
}

Json CompletionWriter::logprobs(Choice& choice, const Scores& scores) const {
  if (!has_logprobs_) return nullptr;
  const text::Tokenizer& tokenizer = model_.engine.tokenizer();
  return is_chat_ ? chat_logprobs(tokenizer, scores)
                  : text_logprobs(tokenizer, scores, choice.text_offset);
}

// The prompt counts once, whatever the number of choices.
Json CompletionWriter::usage(const std::vector<Choice>& choices) const {
  int64_t tokens = 0;
  for (const Choice& each : choices) tokens += each.all.tokens;
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", tokens},
          {"total_tokens", prompt_tokens_ + tokens},
          {"prompt_tokens_details", {{"cached_tokens", choices.front().all.cached_tokens}}}};
}

std::string CompletionWriter::whole(std::vector<Choice>& choices) const {
  Json made = envelope(false), list = Json::array();
  for (Choice& each : choices) {
    Json text = echo_ + each.all.text, scores = logprobs(each, each.all.scores);
    if (is_chat_)
      text = {{"role", "assistant"}, {"content", std::move(text)}, {"refusal", nullptr}};
    list.push_back(choice_json(each, is_chat_ ? "message" : "text", text, scores, true));
  }
  made["choices"] = std::move(list);
  made["usage"] = usage(choices);
  return json_text(made);
}

std::string CompletionWriter::begin_event(const Choice& choice) const {
  if (!is_chat_ && echo_.empty()) return "";
  return event(is_chat_ ? choice_json(choice, "delta", {{"role", "assistant"}, {"content", ""}},
                                      nullptr, false)
                        : choice_json(choice, "text", echo_, nullptr, false));
}

std::string CompletionWriter::piece_event(Choice& choice,
                                          std::string text,
                                          const Scores& scores) const {
  Json said = std::move(text);
  if (is_chat_) said = {{"content", std::move(said)}};
  return event(choice_json(choice, is_chat_ ? "delta" : "text", std::move(said),
                           logprobs(choice, scores), false));
}

std::string CompletionWriter::end_event(const Choice& choice) const {
  return event(is_chat_ ? choice_json(choice, "delta", Json::object(), nullptr, true)
                        : choice_json(choice, "text", "", nullptr, true));
}

std::string CompletionWriter::usage_event(const std::vector<Choice>& choices) const {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array();
  chunk["usage"] = usage(choices);
  return sse(json_text(chunk));
}

std::string CompletionWriter::event(const Json& choice) const {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array({choice});
  if (includes_usage_) chunk["usage"] = nullptr;
  return sse(json_text(chunk));
}

}  // namespace ridge::http
