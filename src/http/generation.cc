// SPDX-License-Identifier: Apache-2.0
// The fields of completions: prompts, messages, sampling, ends.
#include "http/generation.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <random>

#include "base/error.h"
#include "base/printable.h"
#include "http/api_error.h"
#include "text/chat_template.h"
#include "text/utf8.h"

namespace ridge::http {
namespace {

using nlohmann::json;

constexpr int64_t kMostAlternatives = 20;
constexpr size_t kMostStops = 16;
constexpr int64_t kMostChoices = 128;

bool is_one(const json& value) { return value.is_number() && value.get<double>() == 1; }
bool is_false(const json& value) { return value.is_boolean() && !value.get<bool>(); }
bool is_empty(const json& value) {
  return (value.is_structured() && value.empty()) || (value.is_string() && value == "");
}
bool is_none(const json& value) {
  return value.is_string() && (value == "none" || value == "auto");
}
bool is_text(const json& value) {
  return (value.is_object() && value.value("type", json()) == "text") ||
         (value.is_array() && value.size() == 1 && value[0] == "text");
}

// A field that the API knows and Ridge does not have yet, and the values that ask for nothing.
struct Absent {
  const char* key;
  bool (*asks_nothing)(const json&);
};
constexpr Absent kAbsent[] = {
    {"tools", is_empty},        {"tool_choice", is_none},      {"functions", is_empty},
    {"function_call", is_none}, {"response_format", is_text},  {"modalities", is_text},
    {"audio", is_empty},        {"prediction", is_empty},      {"web_search_options", is_empty},
    {"best_of", is_one},        {"use_beam_search", is_false}, {"suffix", is_empty}};

[[noreturn]] void refuse_absent(const std::string& key) {
  throw ApiError(422, fmt::format("[{}] not supported yet", key), key, "unsupported_parameter");
}

void refuse_absent(const Body& body) {
  body.integer("best_of", 1, kMostChoices);  // checked as a number first
  for (const Absent& each : kAbsent) {
    const json* value = body.find(each.key);
    if (value != nullptr && !each.asks_nothing(*value)) refuse_absent(each.key);
  }
}

void check_model(const Body& body, const RequestBounds& model) {
  const std::optional<std::string> name = body.text("model");
  if (name.has_value() && *name != model.model)
    throw ApiError(404,
                   fmt::format("[model] expected \"{}\", the model that is served, got {}",
                               model.model, printable(*name)),
                   "model", "model_not_found");
}

int64_t context(const RequestBounds& model) { return model.context; }

int64_t random_seed() {
  static std::mutex mutex;
  static std::random_device device;
  const std::lock_guard lock(mutex);
  return static_cast<int64_t>(static_cast<uint32_t>(device()));
}

// {"ID": bias}.
std::vector<serve::LogitBias> read_biases(const Body& body, const RequestBounds& model) {
  const json* value = body.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object()) refuse_field("logit_bias", "an object", *value);
  if (std::ssize(*value) > serve::kMostLogitBiases)
    throw ApiError(400,
                   fmt::format("[logit_bias] expected at most {} tokens, got {}",
                               serve::kMostLogitBiases, value->size()),
                   "logit_bias");
  const int64_t last = model.vocabulary - 1;
  std::vector<serve::LogitBias> biases;
  for (const auto& [key, bias] : value->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id > last)
      refuse_field("logit_bias", fmt::format("token ids from 0 to {} as keys", last), key);
    const double number = bias.is_number() ? bias.get<double>() : NAN;
    if (!(number >= -100 && number <= 100))
      refuse_field("logit_bias", "biases from -100 to 100", bias);
    biases.push_back({id, number});
  }
  return biases;
}

serve::SamplingOptions read_sampling(const Body& body, const RequestBounds& model) {
  serve::SamplingOptions o;
  o.temperature = body.number("temperature", 0, 100).value_or(1);
  o.top_p = body.number("top_p", 0, 1).value_or(1);
  o.min_p = body.number("min_p", 0, 1).value_or(0);
  o.top_k = body.integer("top_k", 0, int64_t{1} << 24).value_or(0);
  for (const char* key : {"repetition_penalty", "repeat_penalty"})
    o.repeat_penalty = body.number(key, 0.01, 100).value_or(o.repeat_penalty);
  o.presence_penalty = body.number("presence_penalty", -2, 2).value_or(0);
  o.frequency_penalty = body.number("frequency_penalty", -2, 2).value_or(0);
  o.logit_bias = read_biases(body, model);
  const std::optional<int64_t> seed = body.integer("seed", 0, UINT32_MAX);
  o.seed = seed.has_value() ? *seed : random_seed();
  return o;
}

std::vector<std::string> read_stops(const Body& body) {
  const json* value = body.find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  const auto add = [&](const json& stop) {
    if (!stop.is_string()) refuse_field("stop", "a string or a list of strings", stop);
    stops.push_back(stop.get<std::string>());
  };
  if (!value->is_array()) {
    add(*value);
    return stops;
  }
  if (value->size() > kMostStops)
    throw ApiError(
        400, fmt::format("[stop] expected at most {} texts, got {}", kMostStops, value->size()),
        "stop");
  for (const json& stop : *value) add(stop);
  return stops;
}

// Everything but the prompt.
Generation read_options(const Body& body, const RequestBounds& model, int64_t most_tokens) {
  check_model(body, model);
  refuse_absent(body);
  Generation made;
  made.request.sampling = read_sampling(body, model);
  // More could never wait at once.
  const int64_t most_choices = std::min(kMostChoices, model.queue);
  made.choices = body.integer("n", 1, most_choices).value_or(1);
  made.request.stop = read_stops(body);
  made.request.max_tokens = most_tokens;
  for (const char* key : {"max_tokens", "max_completion_tokens"})
    made.request.max_tokens =
        body.integer(key, 1, context(model)).value_or(made.request.max_tokens);
  made.request.ignores_end = body.flag("ignore_eos").value_or(false);
  made.request.priority =
      body.integer("priority", -model.most_priority, model.most_priority).value_or(0);
  made.streams = body.flag("stream").value_or(false);
  made.wants_metrics = body.flag("x_ridge").value_or(false);
  const json* options = body.find("stream_options");
  if (options != nullptr) {
    if (!options->is_object()) refuse_field("stream_options", "an object", *options);
    const json usage = options->value("include_usage", json());
    if (!usage.is_null() && !usage.is_boolean())
      refuse_field("stream_options.include_usage", "true or false", usage);
    made.includes_usage = usage.is_boolean() && usage.get<bool>();
  }
  return made;
}

[[noreturn]] void refuse_length(int64_t most, const std::string& found) {
  throw ApiError(
      400, fmt::format("[prompt] expected at most {} tokens, the context, got {}", most, found),
      "prompt", "context_length_exceeded");
}

void expect_fits(const std::vector<int32_t>& prompt, const RequestBounds& model) {
  if (std::ssize(prompt) > context(model))
    refuse_length(context(model), fmt::format("{}", prompt.size()));
}

// So many bytes are more tokens than the context has, whatever they are.
void expect_may_fit(size_t bytes, const RequestBounds& model) {
  const size_t least = bytes / model.longest_token_bytes;
  if (least > static_cast<size_t>(context(model)))
    refuse_length(context(model), fmt::format("at least {}", least));
}

// A list of one prompt is that prompt.
const json& single_prompt(const Body& body) {
  const json* prompt = body.find("prompt");
  if (prompt == nullptr) throw ApiError(400, "[prompt] expected a prompt, got none", "prompt");
  if (prompt->is_array() && !prompt->empty() && !prompt->front().is_number()) {
    if (prompt->size() > 1) refuse_absent("prompt: several prompts");
    prompt = &prompt->front();
  }
  return *prompt;
}

std::vector<int32_t> read_prompt(const json& prompt, const RequestBounds& model) {
  if (prompt.is_array()) return read_ids(prompt, "prompt", model);
  if (!prompt.is_string()) refuse_field("prompt", "a string or a list of token ids", prompt);
  return encode_prompt(prompt.get_ref<const std::string&>(), true, model);
}

// A message's text: a string, or a list of parts of which each is a text.
std::string read_content(const json& message, const std::string& place) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null())
    throw ApiError(400, fmt::format("[{}.content] expected a text, got none", place), "messages");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) refuse_field(place + ".content", "a string or a list", *content);
  std::string text;
  for (const json& part : *content) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (type != "text") {
      if (!type.is_string()) refuse_field(place + ".content", "parts with a type", part);
      refuse_absent("messages: content of type " + printable(type.get<std::string>()));
    }
    const json written = part.value("text", json());
    if (!written.is_string()) refuse_field(place + ".content.text", "a string", written);
    text += written.get_ref<const std::string&>();
  }
  return text;
}

std::vector<text::ChatMessage> read_messages(const Body& body) {
  const json* list = body.find("messages");
  if (list == nullptr) throw ApiError(400, "[messages] expected a list, got none", "messages");
  if (!list->is_array() || list->empty())
    refuse_field("messages", "a list of at least one message", *list);
  std::vector<text::ChatMessage> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& message = (*list)[i];
    const std::string place = fmt::format("messages[{}]", i);
    if (!message.is_object()) refuse_field(place, "an object", message);
    const json role = message.value("role", json());
    if (!role.is_string()) refuse_field(place + ".role", "a string", role);
    std::string name = role.get<std::string>();
    if (name == "developer") name = "system";
    const json calls = message.value("tool_calls", json());
    if (name == "tool" || name == "function" || (!calls.is_null() && !calls.empty()))
      refuse_absent("messages: tool calls");
    messages.push_back({std::move(name), read_content(message, place)});
  }
  return messages;
}

std::vector<int32_t> encode_messages(const Body& body, const RequestBounds& model) {
  if (!model.chat.has_value())
    throw ApiError(400,
                   "[messages] the model file has no chat template; start the server with "
                   "--chat-template, or use /v1/completions",
                   "messages");
  const std::vector<text::ChatMessage> messages = read_messages(body);
  size_t bytes = 0;
  for (const text::ChatMessage& each : messages) bytes += each.content.size();
  expect_may_fit(bytes, model);
  serve::ChatFormat format = *model.chat;
  if (format.chat.uses_date())
    format.date = fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr)));
  try {
    return serve::encode_chat(messages, format, *model.tokenizer);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
}

}  // namespace

std::vector<int32_t> encode_prompt(const std::string& text,
                                   bool begins,
                                   const RequestBounds& model) {
  expect_may_fit(text.size(), model);
  const text::Tokenizer& tokenizer = *model.tokenizer;
  return tokenizer.encode(text, {.add_bos = begins && tokenizer.spec().add_bos});
}

std::vector<int32_t> read_ids(const json& list,
                              const std::string& key,
                              const RequestBounds& model) {
  if (!list.is_array()) refuse_field(key, "a list of token ids", list);
  const int64_t last = model.tokenizer->vocab_size() - 1;
  std::vector<int32_t> ids;
  for (const json& id : list) {
    const bool is_id = id.is_number_integer() && id >= 0 && id <= last;
    if (!is_id) refuse_field(key, fmt::format("token ids from 0 to {}", last), id);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Generation read_completion(const Body& body, const RequestBounds& model) {
  constexpr int64_t kDefaultTokens = 16;  // OpenAI's
  Generation made = read_options(body, model, std::min(kDefaultTokens, context(model)));
  made.request.top_logprobs = body.integer("logprobs", 0, kMostAlternatives).value_or(-1);
  const json& prompt = single_prompt(body);
  made.request.prompt = read_prompt(prompt, model);
  expect_fits(made.request.prompt, model);
  if (!body.flag("echo").value_or(false)) return made;
  if (made.request.top_logprobs >= 0)
    throw ApiError(422, "[echo] with logprobs is not supported yet", "echo",
                   "unsupported_parameter");
  made.echo = prompt.is_string()
                  ? prompt.get<std::string>()
                  : text::to_valid_utf8(model.tokenizer->decode(made.request.prompt));
  return made;
}

Generation read_chat(const Body& body, const RequestBounds& model) {
  Generation made = read_options(body, model, context(model));
  made.is_chat = true;
  const std::optional<int64_t> top = body.integer("top_logprobs", 0, kMostAlternatives);
  if (body.flag("logprobs").value_or(false))
    made.request.top_logprobs = top.value_or(0);
  else if (top.value_or(0) > 0)
    throw ApiError(400, "[top_logprobs] has no effect without \"logprobs\": true", "top_logprobs");
  made.request.prompt = encode_messages(body, model);
  expect_fits(made.request.prompt, model);
  return made;
}

}  // namespace ridge::http
