// SPDX-License-Identifier: Apache-2.0
// Writes an answer's tokens as objects of OpenAI's API.
#include "http/completion.h"

#include <fmt/format.h>

#include <algorithm>
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
      is_chat_(generation.is_chat),
      streams_(generation.streams),
      includes_usage_(generation.includes_usage),
      has_logprobs_(generation.request.top_logprobs >= 0),
      wants_metrics_(generation.wants_metrics),
      echo_(std::move(generation.echo)),
      prompt_tokens_(std::ssize(generation.request.prompt)),
      id_(new_id(generation.is_chat)),
      created_s_(std::time(nullptr)) {
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
Answer::Piece Completion::fail(const Choice& choice) {
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
      take_whole(each);
    if (!each.has_ended() || is_whole(each.all.finish)) continue;
    Piece failed = fail(each);
    failed.bytes = piece.bytes + failed.bytes;
    return failed;
  }
  piece.is_last = std::ranges::all_of(choices_, &Choice::has_ended);
  if (!piece.is_last) return piece;
  if (!streams_)
    piece.bytes = json_text(whole());
  else
    piece.bytes += (includes_usage_ ? usage_event() : "") + sse("[DONE]");
  return piece;
}

namespace {

// Adds what has come, but for text and scores.
void add_counts(serve::Delta& all, const serve::Delta& delta) {
  all.tokens += delta.tokens;
  all.cached_tokens += delta.cached_tokens;
  all.finish = delta.finish;
  all.error = delta.error;
  all.metrics = delta.metrics;
}

}  // namespace

void Completion::take_whole(Choice& choice) {
  serve::Delta delta = choice.output->take();
  add_counts(choice.all, delta);
  choice.all.text += delta.text;
  choice.all.scores.insert(choice.all.scores.end(), std::move_iterator(delta.scores.begin()),
                           std::move_iterator(delta.scores.end()));
}

std::string Completion::take_events(Choice& choice) {
  serve::Delta delta = choice.output->take();
  add_counts(choice.all, delta);
  std::string events;
  if (!choice.has_begun) events += begin_event(choice);
  choice.has_begun = true;
  if (!delta.text.empty() || !delta.scores.empty())
    events += event(written(choice, std::move(delta.text), delta.scores, true));
  if (is_whole(choice.all.finish)) events += end_event(choice);
  return events;
}

// The role of a chat, or the prompt that is to be repeated.
std::string Completion::begin_event(const Choice& choice) const {
  Json begin{{"index", choice.index}};
  if (is_chat_)
    begin["delta"] = {{"role", "assistant"}, {"content", ""}};
  else if (!echo_.empty())
    begin["text"] = echo_;
  else
    return "";
  begin["logprobs"] = nullptr;
  begin["finish_reason"] = nullptr;
  return event(begin);
}

std::string Completion::end_event(const Choice& choice) const {
  Json last{{"index", choice.index}};
  if (is_chat_)
    last["delta"] = Json::object();
  else
    last["text"] = "";
  last["logprobs"] = nullptr;
  last["finish_reason"] = serve::finish_name(choice.all.finish);
  if (wants_metrics_) last["x_ridge"] = metrics_json(*choice.all.metrics);
  return event(last);
}

Completion::Json Completion::envelope(bool is_chunk) const {
  const char* object = !is_chat_  ? "text_completion"
                       : is_chunk ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_s_}, {"model", model_.name()}};
}

Completion::Json Completion::written(Choice& choice,
                                     std::string text,
                                     const std::vector<TokenScores>& scores,
                                     bool is_chunk) const {
  Json made{{"index", choice.index}};
  if (!is_chat_)
    made["text"] = std::move(text);
  else if (is_chunk)
    made["delta"] = {{"content", std::move(text)}};
  else
    made["message"] = {{"role", "assistant"}, {"content", std::move(text)}, {"refusal", nullptr}};
  if (!has_logprobs_)
    made["logprobs"] = nullptr;
  else
    made["logprobs"] = is_chat_ ? chat_logprobs(scores) : text_logprobs(choice, scores);
  made["finish_reason"] = is_chunk ? Json() : Json(serve::finish_name(choice.all.finish));
  if (wants_metrics_ && !is_chunk) made["x_ridge"] = metrics_json(*choice.all.metrics);
  return made;
}

Completion::Json Completion::whole() {
  Json made = envelope(false), list = Json::array();
  for (Choice& each : choices_)
    list.push_back(written(each, echo_ + each.all.text, each.all.scores, false));
  made["choices"] = std::move(list);
  made["usage"] = usage();
  return made;
}

// The prompt counts once, whatever the number of choices.
Completion::Json Completion::usage() const {
  int64_t tokens = 0;
  for (const Choice& each : choices_) tokens += each.all.tokens;
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", tokens},
          {"total_tokens", prompt_tokens_ + tokens},
          {"prompt_tokens_details", {{"cached_tokens", choices_.front().all.cached_tokens}}}};
}

std::string Completion::usage_event() const {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array();
  chunk["usage"] = usage();
  return sse(json_text(chunk));
}

std::string Completion::event(const Json& choice) const {
  Json chunk = envelope(true);
  chunk["choices"] = Json::array({choice});
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

Completion::Json Completion::text_logprobs(Choice& choice,
                                           const std::vector<TokenScores>& scores) const {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const TokenScores& each : scores) {
    const std::string text = token_text(each.chosen.id);
    Json top = Json::object();
    for (const serve::ScoredToken& token : each.top) top[token_text(token.id)] = token.logprob;
    offsets.push_back(choice.text_offset);
    choice.text_offset += std::ssize(text);
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
