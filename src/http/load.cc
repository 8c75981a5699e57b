// SPDX-License-Identifier: Apache-2.0
// Threads that send requests when they are due. A closed loop has as many as clients; an open loop
// makes another whenever all are busy.
#include "http/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "http/event_lines.h"
#include "http/json_text.h"

namespace ridge::http {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr int64_t kMostTokens = int64_t{1} << 20;
constexpr size_t kMostThreads = 1024;
constexpr double kLeastRate = 1e-3, kMostRate = 1e4;  // requests a second
constexpr size_t kMostReply = size_t{16} << 20;

std::optional<int64_t> number_of(std::string_view text) {
  if (text.empty() || text.size() > 7) return std::nullopt;
  int64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value >= 1 && value <= kMostTokens ? std::optional(value) : std::nullopt;
}

json parsed(std::string_view text) {
  try {
    return files::parse_json(text, "reply", {.max_depth = 32, .max_values = 1 << 20});
  } catch (const Error&) {
    return {};
  }
}

// The member of an object, or null.
json member(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}
int64_t count_of(const json& usage, const char* key) {
  const json count = member(usage, key);
  return count.is_number_integer() ? count.get<int64_t>() : 0;
}

// A server's own description of a fault, in one line.
std::string fault(int status, const std::string& body) {
  const json message = member(member(parsed(body), "error"), "message");
  const std::string text = message.is_string() ? message.get<std::string>() : body;
  constexpr size_t kShown = 200;
  return fmt::format("{} {}", status, printable(text, kShown));
}

std::vector<std::pair<std::string, std::string>> headers(const LoadOptions& options) {
  std::vector<std::pair<std::string, std::string>> all{{"Content-Type", "application/json"}};
  if (!options.api_key.empty()) all.emplace_back("Authorization", "Bearer " + options.api_key);
  return all;
}

struct Job {
  double due_ns = 0;
  std::string body;
};

// Sends the request and notes when its text comes.
RequestTimes sent(Client& client, const Job& job, const LoadOptions& options, double begin_ns) {
  RequestTimes times{.due_ns = job.due_ns};
  std::string other;  // a reply that is no stream
  EventLines lines;
  bool is_done = false;
  const auto take = [&](std::string_view data) {
    if (data == "[DONE]") return void(is_done = true);
    const json chunk = parsed(data);
    if (const json error = member(chunk, "error"); !error.is_null())
      times.error = fault(200, std::string(data));
    const json usage = member(chunk, "usage");
    if (usage.is_object()) {
      times.prompt_tokens = count_of(usage, "prompt_tokens");
      times.output_tokens = count_of(usage, "completion_tokens");
    }
    const json choices = member(chunk, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const json text = member(choices[0], "text");
    if (text.is_string() && !text.get_ref<const std::string&>().empty())
      times.arrivals_ns.push_back(now_ns() - begin_ns);
  };
  try {
    const int status = client.send({"POST", "/v1/completions", job.body, headers(options)},
                                   [&](std::string_view bytes) {
                                     if (other.size() < kMostReply)
                                       other += bytes.substr(0, kMostReply - other.size());
                                     lines.push(bytes, take);
                                   });
    if (status != 200)
      times.error = fault(status, other);
    else if (!is_done && times.error.empty())
      times.error = "a stream without its end";
    else if (times.arrivals_ns.empty() && times.error.empty())
      times.error = "an answer without text";
  } catch (const Error& error) {
    times.error = error.what();
  }
  times.end_ns = now_ns() - begin_ns;
  // A server that reports no usage sends a piece a token.
  if (times.output_tokens == 0) times.output_tokens = std::ssize(times.arrivals_ns);
  return times;
}

std::string first_model(Client& client, const LoadOptions& options) {
  std::string body;
  const int status = client.send({"GET", "/v1/models", "", headers(options)},
                                 [&](std::string_view bytes) { body += bytes; });
  if (status != 200) throw runtime_error("[url] /v1/models: {}", fault(status, body));
  const json list = member(parsed(body), "data");
  const json id = list.is_array() && !list.empty() ? member(list[0], "id") : json();
  if (!id.is_string()) throw runtime_error("[url] /v1/models names no model; give one by --model");
  return id.get<std::string>();
}

class Load {
 public:
  Load(const Url& url, const LoadOptions& options, const std::function<void()>& tick)
      : url_(url), options_(options), tick_(tick), random_(options.seed) {}

  LoadResult run() {
    LoadResult result;
    warm_up();
    result.model = options_.model;
    begin_ns_ = now_ns();
    if (options_.rate > 0)
      drive();
    else
      for (int64_t i = 0; i < options_.clients; ++i)
        threads_.emplace_back([this] { closed_loop(); });
    for (std::thread& each : threads_) each.join();
    result.wall_ns = now_ns() - begin_ns_;
    result.requests = std::move(done_);
    return result;
  }

 private:
  void warm_up() {
    Client client(url_, options_.silence_s);
    if (options_.model.empty()) options_.model = first_model(client, options_);
    Job job = next(0);
    made_ = 0;
    const RequestTimes times = sent(client, job, options_, now_ns());
    if (!times.error.empty())
      throw runtime_error("[url] the first request failed: {}", times.error);
  }

  // With the lock held, but for the first.
  Job next(double due_ns) {
    const int64_t prompt = options_.prompt.draw(random_), output = options_.output.draw(random_);
    ++made_;
    const Json body{{"model", options_.model},
                    {"prompt", make_prompt(prompt, options_.shared_prefix, random_.next())},
                    {"max_tokens", output},
                    {"temperature", options_.temperature},
                    {"ignore_eos", true},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}}};
    return {due_ns, json_text(body)};
  }
  bool is_over(double at_ns) const {
    return (options_.requests > 0 && made_ >= options_.requests) ||
           (options_.seconds > 0 && at_ns >= options_.seconds * 1e9);
  }
  void note(RequestTimes times) {
    const std::lock_guard lock(mutex_);
    done_.push_back(std::move(times));
    if (tick_) tick_();
  }

  void closed_loop() {
    Client client(url_, options_.silence_s);
    for (;;) {
      Job job;
      {
        const std::lock_guard lock(mutex_);
        const double now = now_ns() - begin_ns_;
        if (is_over(now)) return;
        job = next(now);
        job.due_ns = now_ns() - begin_ns_;
      }
      note(sent(client, job, options_, begin_ns_));
    }
  }

  // Queues each request when it is due, the first at once, and makes a thread if none is idle.
  void drive() {
    for (double due_ns = 0; !is_over(due_ns); due_ns += pause_ns()) {
      Job job = next(due_ns);
      const double wait_ns = due_ns - (now_ns() - begin_ns_);
      if (wait_ns > 0)
        std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(wait_ns)));
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(job));
      if (queue_.size() > idle_ && threads_.size() < kMostThreads)
        threads_.emplace_back([this] { open_loop(); });
      is_queued_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    all_queued_ = true;
    is_queued_.notify_all();
  }

  double pause_ns() {
    return -std::log(1 - static_cast<double>(random_.uniform())) / options_.rate * 1e9;
  }

  void open_loop() {
    Client client(url_, options_.silence_s);
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        ++idle_;
        is_queued_.wait(lock, [&] { return all_queued_ || !queue_.empty(); });
        --idle_;
        if (queue_.empty()) return;
        job = std::move(queue_.front());
        queue_.pop_front();
      }
      note(sent(client, job, options_, begin_ns_));
    }
  }

  const Url url_;
  LoadOptions options_;
  const std::function<void()>& tick_;
  Random random_;
  double begin_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable is_queued_;
  std::deque<Job> queue_;
  size_t idle_ = 0;
  bool all_queued_ = false;
  int64_t made_ = 0;
  std::vector<RequestTimes> done_;
  std::vector<std::thread> threads_;
};

}  // namespace

Lengths Lengths::parse(const std::string& text, const char* option) {
  constexpr std::string_view kExponential = "exp:";
  constexpr int64_t kMostOfMean = 8;
  const size_t dash = text.find('-');
  std::optional<int64_t> low, high;
  Law law = Law::kFixed;
  if (text.starts_with(kExponential)) {
    law = Law::kExponential;
    low = number_of(std::string_view(text).substr(kExponential.size()));
    if (low) high = std::min(kMostOfMean * *low, kMostTokens);
  } else if (dash != std::string::npos) {
    law = Law::kUniform;
    low = number_of(std::string_view(text).substr(0, dash));
    high = number_of(std::string_view(text).substr(dash + 1));
  } else {
    low = high = number_of(text);
  }
  if (!low || !high || *low > *high)
    throw usage_error("[{}] expected tokens as 128, 64-256 or exp:128, up to {}, got {}", option,
                      kMostTokens, printable(text));
  return {law, *low, *high};
}

int64_t Lengths::draw(Random& random) const {
  const double u = static_cast<double>(random.uniform());
  switch (law) {
    case Law::kFixed:
      return low;
    case Law::kUniform:
      return low + static_cast<int64_t>(u * static_cast<double>(high - low + 1));
    case Law::kExponential:
      break;
  }
  const double drawn = -std::log(1 - u) * static_cast<double>(low);
  return std::clamp<int64_t>(std::llround(drawn), 1, high);
}

void validate(const LoadOptions& o) {
  const auto between = [](const char* option, double value, double least, double most) {
    if (!(value >= least && value <= most))
      throw usage_error("[{}] expected {} to {}, got {}", option, least, most, value);
  };
  between("clients", static_cast<double>(o.clients), 1, static_cast<double>(kMostThreads));
  if (o.rate != 0) between("rate", o.rate, kLeastRate, kMostRate);
  between("requests", static_cast<double>(o.requests), 0, 1e7);
  between("seconds", o.seconds, 0, 1e6);
  between("temperature", o.temperature, 0, 2);
  between("timeout", o.silence_s, 1, 1e6);
  between("shared-prefix", static_cast<double>(o.shared_prefix), 0,
          static_cast<double>(o.prompt.low));
  if (o.requests == 0 && o.seconds == 0)
    throw usage_error("[requests] expected --requests or --seconds, so that the load ends");
}

std::string make_prompt(int64_t words, int64_t shared_prefix, uint32_t seed) {
  static constexpr const char* kWords[] = {
      "time",    "year",  "people",  "way",     "day",     "man",      "thing",
      "woman",   "life",  "child",   "world",   "school",  "state",    "family",
      "student", "group", "country", "problem", "hand",    "part",     "place",
      "case",    "week",  "company", "system",  "program", "question", "work"};
  std::string text;
  Random shared(0), own(seed);
  for (int64_t i = 0; i < words; ++i) {
    if (i > 0) text += ' ';
    text += kWords[(i < shared_prefix ? shared : own).below(std::size(kWords))];
  }
  return text;
}

LoadResult run_load(const Url& url, const LoadOptions& options, const std::function<void()>& tick) {
  validate(options);
  return Load(url, options, tick).run();
}

}  // namespace ridge::http
