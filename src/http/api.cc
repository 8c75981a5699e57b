// SPDX-License-Identifier: Apache-2.0
// Finds a request's route, checks who may use it, and turns what is thrown into error replies.
#include "http/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/printable.h"
#include "http/api_error.h"
#include "http/body.h"
#include "http/completion.h"
#include "http/event_log_json.h"
#include "http/generation.h"
#include "http/json_text.h"
#include "http/live_page.h"
#include "http/metrics.h"
#include "text/utf8.h"

namespace ridge::http {

using Json = nlohmann::ordered_json;

constexpr const char* kModels = "/v1/models";

struct Api::Route {
  const char* path;
  const char* method;
  Reply (Api::*reply)(const Message&, std::function<void()>&) const;
  bool is_open = false;  // without a key
  bool is_page = false;
  bool is_state = false;
};

const Api::Route Api::kRoutes[] = {{"/health", "GET", &Api::health, true, false, true},
                                   {"/ready", "GET", &Api::ready, true, false, true},
                                   {"/", "GET", &Api::page, true, true},
                                   {"/page.css", "GET", &Api::page_style, true, true},
                                   {"/page.js", "GET", &Api::page_script, true, true},
                                   {"/version", "GET", &Api::version},
                                   {"/metrics", "GET", &Api::metrics, false, false, true},
                                   {"/debug/activity", "GET", &Api::activity},
                                   {"/debug/trace", "GET", &Api::trace},
                                   {kModels, "GET", &Api::models},
                                   {"/v1/chat/completions", "POST", &Api::chat},
                                   {"/v1/completions", "POST", &Api::completion},
                                   {"/tokenize", "POST", &Api::tokenize},
                                   {"/detokenize", "POST", &Api::detokenize}};

const Api::Route* Api::find(const std::string& asked) const {
  const std::string path = asked.starts_with("/v1/models/") ? kModels : asked;  // a model's name
  for (const Route& each : kRoutes)
    if (path == each.path && (has_page_ || !each.is_page)) return &each;
  return nullptr;
}

std::optional<Reply> Api::refuse(const Message& head) const {
  const bool is_host_allowed = hosts_.accepts_host(head.host);
  if (!is_host_allowed || !hosts_.accepts_origin(head.origin))
    return error_reply({403,
                        fmt::format("the {} {} is not allowed; the server's option "
                                    "--allowed-hosts names those that are",
                                    is_host_allowed ? "origin" : "host",
                                    printable(is_host_allowed ? head.origin : head.host)),
                        "", "host_not_allowed"});
  const Route* route = find(head.path);
  if (!keys_.empty() && !(route != nullptr && route->is_open) && !keys_.accept(head.authorization))
    return error_reply({401, "expected the header \"Authorization: Bearer KEY\" with a valid key",
                        "", "invalid_api_key"});
  if (route == nullptr)
    return error_reply(
        {404, fmt::format("no such path: {}", printable(head.path)), "", "not_found"});
  const bool is_head = head.method == "HEAD" && std::string_view(route->method) == "GET";
  if (head.method != route->method && !is_head) {
    Reply reply = error_reply({405,
                               fmt::format("{} expects the method {}, got {}", route->path,
                                           route->method, printable(head.method)),
                               "", "method_not_allowed"});
    reply.headers.emplace_back("Allow", route->method);
    return reply;
  }
  return std::nullopt;
}

Reply Api::fault(int status, const std::string& message) const {
  return error_reply({status, message});
}

bool Api::asks_for_state(const Message& head) const {
  const Route* route = find(head.path);
  return route != nullptr && route->is_state;
}

Reply Api::reply(const Message& message, std::function<void()> wake) {
  std::optional<Reply> refused = refuse(message);
  if (refused.has_value()) return std::move(*refused);
  const Route* route = find(message.path);
  try {
    return (this->*route->reply)(message, wake);
  } catch (const ApiError& error) {
    return error_reply(error);
  } catch (const std::bad_alloc&) {
    return error_reply({503, "out of memory for this request"});
  } catch (const std::exception& error) {
    return error_reply({500, error.what()});
  }
}

const ServedModel& Api::model() const {
  const ServedModel* model = model_;
  if (model == nullptr) throw ApiError(503, "the model is loading", "", "loading");
  return *model;
}

// The page itself holds nothing that a key protects.
Reply Api::page(const Message&, std::function<void()>&) const {
  return live_page(!keys_.empty(), model_ == nullptr);
}
Reply Api::page_style(const Message&, std::function<void()>&) const { return live_style(); }
Reply Api::page_script(const Message&, std::function<void()>&) const { return live_script(); }

Reply Api::health(const Message&, std::function<void()>&) const {
  model();
  if (drains_) throw ApiError(503, "the server is stopping", "", "draining");
  return {200, json_text({{"status", "ok"}})};
}

// Whether a request would be accepted now: for what spreads requests over servers.
Reply Api::ready(const Message& message, std::function<void()>& wake) const {
  Reply reply = health(message, wake);
  const serve::Engine& engine = model().engine;
  if (engine.counts().waiting >= engine.options().queue)
    throw ApiError(503, "[queue] the server's queue is full", "", "queue_full");
  return reply;
}

Reply Api::version(const Message&, std::function<void()>&) const {
  return {200, json_text({{"version", version_}})};
}

Reply Api::metrics(const Message&, std::function<void()>&) const {
  return {200, metrics_text(model().engine.counts(), model().name(), now_ns() / 1e9), kMetricsType};
}

Reply Api::activity(const Message& message, std::function<void()>&) const {
  return {200, event_log_json(model(), query_integer(message.query, "after", 0, INT64_MAX, 0))};
}

Reply Api::trace(const Message& message, std::function<void()>&) const {
  const int64_t seconds = query_integer(message.query, "seconds", 1, kMostTraceSeconds, 5);
  return {200, event_log_trace(model(), version_, seconds)};
}

Reply Api::models(const Message& message, std::function<void()>&) const {
  const ServedModel& m = model();
  const Json one{{"id", m.name()},
                 {"object", "model"},
                 {"created", m.created_s},
                 {"owned_by", "ridge"},
                 {"max_model_len", m.bounds.context}};
  if (message.path == fmt::format("{}/{}", kModels, m.name())) return {200, json_text(one)};
  if (message.path != kModels) throw ApiError(404, "no such model", "model", "model_not_found");
  return {200, json_text({{"object", "list"}, {"data", Json::array({one})}})};
}

namespace {

Reply begin(Generation generation,
            uint32_t tenant,
            const ServedModel& model,
            std::function<void()>& wake) {
  generation.request.tenant = tenant;
  Reply reply;
  reply.streams = generation.streams;
  reply.answer = std::make_unique<Completion>(std::move(generation), model, std::move(wake));
  if (!reply.streams) return reply;
  reply.content_type = "text/event-stream";
  reply.headers.emplace_back("Cache-Control", "no-cache");
  reply.headers.emplace_back("X-Accel-Buffering", "no");  // nginx passes events on as they come
  return reply;
}

}  // namespace

uint32_t Api::tenant_of(const Message& message) const {
  return keys_.tenant(message.authorization).value_or(0);
}

Reply Api::chat(const Message& message, std::function<void()>& wake) const {
  const ServedModel& m = model();
  return begin(read_chat(Body(message.body), m.bounds), tenant_of(message), m, wake);
}

Reply Api::completion(const Message& message, std::function<void()>& wake) const {
  const ServedModel& m = model();
  return begin(read_completion(Body(message.body), m.bounds), tenant_of(message), m, wake);
}

Reply Api::tokenize(const Message& message, std::function<void()>&) const {
  const ServedModel& m = model();
  const Body body(message.body);
  std::optional<std::string> text = body.text("prompt");
  if (!text.has_value()) text = body.text("content");
  if (!text.has_value()) throw ApiError(400, "[prompt] expected a text, got none", "prompt");
  const bool begins = body.flag("add_special_tokens").value_or(true);
  const std::vector<int32_t> ids = encode_prompt(*text, begins, m.bounds);
  return {200,
          json_text({{"count", ids.size()}, {"max_model_len", m.bounds.context}, {"tokens", ids}})};
}

Reply Api::detokenize(const Message& message, std::function<void()>&) const {
  const ServedModel& m = model();
  const Body body(message.body);
  const nlohmann::json* tokens = body.find("tokens");
  if (tokens == nullptr) throw ApiError(400, "[tokens] expected token ids, got none", "tokens");
  const std::vector<int32_t> ids = read_ids(*tokens, "tokens", m.bounds);
  const std::string text = text::to_valid_utf8(m.engine.tokenizer().decode(ids, {.special = true}));
  return {200, json_text({{"prompt", text}})};
}

}  // namespace ridge::http
