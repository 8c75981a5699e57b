// SPDX-License-Identifier: Apache-2.0
// Two hundred clients of every bad habit on one server, and the conditions that must hold meanwhile
// and afterwards.
#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/process_memory.h"
#include "http/api.h"
#include "http/http_client.h"
#include "http/server.h"
#include "models/tokenizer_file.h"
#include "serve/bytes_tokenizer.h"
#include "serve/generator.h"
#include "serve/real_model.h"

namespace ridge::http {

// A model behind a server whose limits are soon reached: few slots, a cache for two of them, short
// patience.
class TorturedServer {
 public:
  static constexpr int64_t kSlots = 16, kCapacity = 192, kQueue = 48;
  static constexpr double kPatienceSeconds = 1;

  TorturedServer(const std::string& path, backends::Backend& backend, serve::SessionOptions options)
      : file_(models::ModelFile::open(path)),
        tokenizer_(file_.is_gguf() ? models::load_tokenizer(path)
                                   : serve::bytes_tokenizer(file_.config().vocabulary)),
        session_(file_, bounded(std::move(options)), backend),
        engine_(session_, tokenizer_, {.max_batched_tokens = 48, .queue = kQueue}),
        model_("tortured", engine_, serve::ChatFormat{text::ChatTemplate::named("chatml"), ""}),
        api_("ridge test", {}),
        server_(api_,
                {.port = 0,
                 .client_connections = 512,  // all clients have one address
                 .body_bytes = int64_t{1} << 20,
                 .idle_s = kPatienceSeconds,
                 .read_s = kPatienceSeconds,
                 .write_s = 2}) {
    api_.open(model_);
  }

  const serve::Engine& engine() const { return engine_; }
  const Server& server() const { return server_; }
  int64_t vocabulary() const { return file_.config().vocabulary; }

 private:
  static serve::SessionOptions bounded(serve::SessionOptions options) {
    options.slots = kSlots;
    options.capacity = kCapacity;
    options.chunk = 96;
    options.prefix_caching = true;
    options.kv_capacity_tokens = 2 * kCapacity;
    return options;
  }

  const models::ModelFile file_;
  const text::Tokenizer tokenizer_;
  serve::Session session_;
  serve::Engine engine_;
  const ServedModel model_;
  Api api_;
  const Server server_;
};

class Torture {
 public:
  static constexpr int kClients = 200;

  explicit Torture(const TorturedServer& under) : under_(under) {
    // A prompt's answer is the same whatever else is served, and `expected_` has those of some.
    for (size_t length : {3u, 20u, 70u}) {
      json ids = json::array();
      for (size_t i = 0; i < length; ++i) ids.push_back((17 * i + length) % 150);
      const Response made = HttpClient(port()).post("/v1/completions", fixed(ids).dump());
      EXPECT_EQ(made.status, 200) << made.body;
      expected_.emplace_back(ids, text_of(made));
    }
  }

  // Answers that are compared must be equal. Without, they must be there.
  void compare(bool compares) { compares_ = compares; }

  void run(double seconds) {
    end_ = std::chrono::steady_clock::now() +
           std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
    std::vector<std::thread> threads;
    threads.emplace_back([this] { watch(); });
    threads.emplace_back([this] { notice_stops(); });
    for (unsigned i = 0; i < kClients; ++i)
      threads.emplace_back([this, seed = ++runs_] { misbehave(seed); });
    for (std::thread& each : threads) each.join();
    await_rest();
  }

  // Memory, blocks and connections that are in use while nothing is asked.
  struct Rest {
    int64_t descriptors = 0, threads = 0, resident_bytes = 0;
  };
  static Rest rest() {
    const auto entries = [](const char* folder) {
      return std::distance(std::filesystem::directory_iterator(folder),
                           std::filesystem::directory_iterator());
    };
    ::malloc_trim(0);
    return {entries("/proc/self/fd"), entries("/proc/self/task"),
            read_process_memory().resident_bytes};
  }

  int64_t seen(int status) const {
    const auto found = statuses_.find(status);
    return found == statuses_.end() ? 0 : found->second;
  }
  int64_t requests() const { return requests_; }
  double worst_health_ms() const { return worst_health_ms_; }
  // Counts the cancelled requests that were last at this stage.
  int64_t cancelled(serve::Stage stage) const { return cancelled_[static_cast<size_t>(stage)]; }
  int64_t closed() const { return closed_; }

  void print() const {
    const serve::EngineCounts counts = under_.engine().counts();
    std::string replies;
    for (const auto& [status, count] : statuses_) replies += fmt::format(" {}: {},", status, count);
    replies.pop_back();
    fmt::print(
        "{} requests (replies{}), {} steps, {} preemptions, {} cancelled; /health {} times, at most "
        "{:.1f} ms, {} times over 100 ms; stopped for {:.0f} ms\n",
        requests_.load(), replies, counts.steps, counts.preemptions,
        counts.finished[static_cast<size_t>(serve::Finish::kCancelled)], healths_.load(),
        worst_health_ms_, slow_healths_, stopped_ms_.load());
    fmt::print(
        "cancelled {} in the queue, {} in prefill, {} in decode; {} slow readers cut, {} silent or "
        "slow senders closed\n",
        cancelled(serve::Stage::kQueued), cancelled(serve::Stage::kPrefill),
        cancelled(serve::Stage::kDecode), cut_.load(), closed_.load());
  }

 private:
  using json = nlohmann::json;
  using Random = std::minstd_rand;

  int64_t port() const { return under_.server().port(); }
  bool is_over() const { return std::chrono::steady_clock::now() >= end_; }
  static int64_t below(Random& random, int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  }
  static double ms_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }
  static void pause(Random& random, int64_t most_ms) {
    std::this_thread::sleep_for(std::chrono::microseconds(below(random, 1000 * most_ms + 1)));
  }
  static json fixed(const json& ids) {
    return {{"prompt", ids}, {"max_tokens", 8}, {"temperature", 0}, {"ignore_eos", true}};
  }
  static std::string text_of(const Response& made) {
    const json reply = json::parse(made.body, nullptr, false);
    return reply.is_discarded() ? "" : reply.at("choices").at(0).at("text").get<std::string>();
  }

  void count(int status) {
    const std::lock_guard lock(mutex_);
    ++statuses_[status];
    ++requests_;
  }
  // A client whom this machine lets wait for longer than the server's patience may find its
  // connection closed.
  void expect_status(const HttpClient& client,
                     const Response& made,
                     std::initializer_list<int> expected) {
    count(made.status);
    if (made.status == 0 && client.age_s() >= TorturedServer::kPatienceSeconds) return;
    const bool is_expected = std::ranges::find(expected, made.status) != expected.end();
    EXPECT_TRUE(is_expected) << "expected " << *expected.begin() << ", got " << made.status
                             << made.body;
    if (made.status >= 400) {
      EXPECT_TRUE(json::parse(made.body, nullptr, false).contains("error")) << made.body;
    }
  }

  // A request that takes a while, of any length that fits.
  std::string any_request(Random& random, int64_t most_tokens = TorturedServer::kCapacity) const {
    json ids = json::array();
    const int64_t length = 1 + below(random, TorturedServer::kCapacity), kind = below(random, 3);
    for (int64_t i = 0; i < length; ++i)
      ids.push_back(kind == 0 ? 5 : below(random, under_.vocabulary()));
    json body{{"prompt", ids},
              {"max_tokens", 1 + below(random, most_tokens)},
              {"ignore_eos", true},
              {"stream", below(random, 4) > 0}};
    if (below(random, 4) == 0) body["n"] = 2;
    if (below(random, 4) == 0) body["logprobs"] = 3;
    if (below(random, 4) == 0) body["priority"] = below(random, 5) - 2;
    return body.dump();
  }
  void ask(HttpClient& client, const std::string& body) {
    client.send("POST", "/v1/completions", body);
  }

  // Stays until the answer has come.
  void complete(Random& random) {
    const auto& [ids, text] = expected_[static_cast<size_t>(below(random, std::ssize(expected_)))];
    HttpClient client(port());
    const Response made = client.post("/v1/completions", fixed(ids).dump());
    expect_status(client, made, {200, 429});
    if (made.status == 200 && compares_) {
      EXPECT_EQ(text_of(made), text);
    }
  }
  // Leaves at some time: in the queue, while the prompt is computed, or in the answer.
  void leave(Random& random) {
    HttpClient client(port());
    ask(client, any_request(random));
    if (below(random, 2) == 0) client.break_off();
    if (below(random, 3) == 0) return;
    if (below(random, 2) == 0) return pause(random, 60);
    for (int64_t events = below(random, 20); events > 0; --events)
      if (client.read_until("data: ").empty()) break;
  }
  // Leaves soon after its long prompt has pushed others out.
  void push_in(Random& random) {
    json ids = json::array();
    for (int64_t i = 0; i < 180; ++i) ids.push_back(below(random, under_.vocabulary()));
    HttpClient client(port());
    ask(client, json{{"prompt", ids}, {"max_tokens", 2}, {"priority", -3}}.dump());
    pause(random, 60);
  }
  // Leaves when the answer is about to end.
  void race(Random& random) {
    HttpClient client(port());
    ask(client, any_request(random, 3));
    client.skim();
    if (below(random, 2) == 0) client.break_off();
  }
  // Closes its sending half, which ends the request, or says nothing, or nothing more.
  void half_open(Random& random) {
    HttpClient client(port());
    if (below(random, 8) == 0) return outstay(client, random);
    if (below(random, 2) == 0) ask(client, any_request(random));
    if (below(random, 2) == 0) client.end_sending();
    if (below(random, 4) == 0) client.send("POST /v1/completions HTTP/1.1\r\nContent-Le");
    pause(random, 300);
  }
  // Until the server's patience ends.
  void outstay(HttpClient& client, Random& random) {
    static const std::string beginnings[] = {
        "", "P", "POST /v1/completions HTTP/1.1\r\nContent-Length: 900\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 900\r\n\r\n{"};
    client.send(beginnings[static_cast<size_t>(below(random, 4))]);
    if (below(random, 2) == 0)  // a byte at a time does not help
      for (int i = 0; i < 40; ++i) {
        client.send("X");
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
      }
    EXPECT_TRUE(client.is_closed());
    ++closed_;
  }
  // Takes a little now and then, of an answer with much to say, or nothing.
  void dawdle(Random& random) {
    HttpClient client(port(), 2048);
    ask(client,
        R"({"prompt": [5, 6], "max_tokens": 180, "ignore_eos": true, "stream": true, "logprobs": 20})");
    if (below(random, 8) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3000));
      const bool was_refused = client.read_until("\r\n").find("429") != std::string::npos;
      if (!was_refused && client.read_until("[DONE]").empty()) ++cut_;
      return;
    }
    for (int64_t times = below(random, 30); times > 0 && client.skim(); --times) pause(random, 40);
  }
  void flood_header(Random& random) {
    HttpClient client(port());
    client.send("GET /health HTTP/1.1\r\n");
    for (int64_t i = 100 + below(random, 3000); i > 0; --i) client.send("X-Flood: 0123456789\r\n");
    client.send("\r\n");
    // A server that has refused closes, and what was sent after that can cost the client the reply.
    const Response made = client.read();
    made.status == 0 ? count(0) : expect_status(client, made, {200, 431});
  }
  void send_giant(Random& random) {
    HttpClient client(port());
    if (below(random, 2) == 0) {
      client.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 1099511627776\r\n\r\n");
      return expect_status(client, client.read(), {413});
    }
    client.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10; ++i) client.send("40000\r\n" + std::string(0x40000, ' ') + "\r\n");
    const Response made = client.read();
    made.status == 0 ? count(0) : expect_status(client, made, {413});
  }
  void send_nonsense(Random& random) {
    static const std::string bodies[] = {"{\"prompt\": \"\xff\xfe\"}", "{",
                                         std::string(5000, '['),       "{\"prompt\": \"\\ud800\"}",
                                         "{\"prompt\": 1e999}",        "\xc0\x80",
                                         "{\"prompt\": [1e308]}",      "null"};
    HttpClient client(port());
    for (int64_t times = 1 + below(random, 4); times > 0; --times)
      expect_status(client,
                    client.post("/v1/completions", bodies[static_cast<size_t>(below(random, 8))]),
                    {400});
    if (below(random, 2) == 0) client.send("\x16\x03\x01 no request at all\r\n\r\n");
  }
  // A field with a number that it may not have; most of them may not.
  void misnumber(Random& random) {
    static const std::string fields[] = {
        "max_tokens", "temperature", "top_p", "top_k",    "min_p",      "repetition_penalty",
        "seed",       "n",           "stop",  "priority", "logit_bias", "presence_penalty",
        "logprobs",   "echo"};
    static const std::string values[] = {"-1",    "0",     "2147483648", "9223372036854775808",
                                         "1e308", "null",  "\"NaN\"",    "[1]",
                                         "{}",    "-1e308"};
    std::string value = values[static_cast<size_t>(below(random, 10))];
    if (below(random, 10) == 0) value = std::string(300, '[') + "1" + std::string(300, ']');
    HttpClient client(port());
    const Response made = client.post(
        "/v1/completions", fmt::format(R"({{"prompt": [5], "max_tokens": 1, "{}": {}}})",
                                       fields[static_cast<size_t>(below(random, 14))], value));
    expect_status(client, made, {200, 400, 429});
  }
  // Prompts that fill the context, and that are one token too long.
  void fill(Random& random) {
    HttpClient client(port());
    const int64_t more = below(random, 2);
    const json body{
        {"prompt", std::vector<int>(static_cast<size_t>(TorturedServer::kCapacity + more), 5)}};
    const Response made = client.post("/v1/completions", body.dump());
    if (more > 0) return expect_status(client, made, {400});
    expect_status(client, made, {200, 429});
    if (made.status != 200) return;
    EXPECT_EQ(json::parse(made.body).at("usage").at("completion_tokens"), 1);
  }
  // Sends the next requests before it has read the first reply, which holds them back.
  void hurry(Random& random) {
    HttpClient client(port());
    for (int i = 0; i < 3; ++i) client.send("GET", "/metrics", "");
    ask(client, any_request(random, 4));
    for (int i = 0; i < 3; ++i) expect_status(client, client.read(), {200});
    if (below(random, 2) == 0) expect_status(client, client.read(), {200, 429});
  }

  void misbehave(unsigned seed) {
    Random random(seed);
    void (Torture::*const habits[])(Random&) = {
        &Torture::complete,   &Torture::complete,      &Torture::leave,  &Torture::leave,
        &Torture::race,       &Torture::half_open,     &Torture::dawdle, &Torture::flood_header,
        &Torture::send_giant, &Torture::send_nonsense, &Torture::fill,   &Torture::hurry,
        &Torture::misnumber,  &Torture::push_in};
    while (!is_over()) (this->*habits[below(random, std::ssize(habits))])(random);
  }

  // Counts the requests that were cancelled since the last look, of the last that the engine logs.
  void count_cancelled() {
    const serve::EventLog::Snapshot seen = under_.engine().event_log().since(event_, 0);
    event_ = seen.event;
    for (const serve::LoggedRequest& each : seen.requests)
      if (each.finish == serve::Finish::kCancelled)
        ++cancelled_[static_cast<size_t>(each.reached().back().stage)];
  }

  // Asks for health all the time.
  void watch() {
    while (!is_over()) {
      const auto begin = std::chrono::steady_clock::now();
      const double stopped_before_ms = stopped_ms_;
      HttpClient client(port());
      const int status = client.get("/health").status;
      EXPECT_TRUE(status == 200 || client.age_s() >= TorturedServer::kPatienceSeconds) << status;
      const double all_ms = ms_since(begin);
      if (all_ms > 100)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until a stop is noticed
      const double took_ms = all_ms - (stopped_ms_ - stopped_before_ms);
      worst_health_ms_ = std::max(worst_health_ms_, took_ms);
      slow_healths_ += took_ms > 100;
      ++healths_;
      count_cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Somebody may stop the whole process for a while, which is no fault of the server.
  void notice_stops() {
    constexpr double kStopMs = 500;
    while (!is_over()) {
      const auto begin = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (const double took_ms = ms_since(begin); took_ms > kStopMs)
        stopped_ms_ = stopped_ms_ + took_ms;
    }
  }

  // All clients have left.
  void await_rest() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while ((!under_.engine().is_idle() || under_.server().connections() > 0) &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(under_.engine().is_idle());
    EXPECT_EQ(under_.server().connections(), 0);
    const serve::EngineCounts counts = under_.engine().counts();
    EXPECT_EQ(counts.blocks_in_use, 0);
    EXPECT_EQ(counts.running, 0);
    EXPECT_EQ(counts.waiting, 0);
    EXPECT_EQ(counts.finished[static_cast<size_t>(serve::Finish::kFailed)], 0);
    EXPECT_EQ(counts.internal_errors, 0);
  }

  const TorturedServer& under_;
  std::vector<std::pair<json, std::string>> expected_;
  bool compares_ = true;
  std::chrono::steady_clock::time_point end_;
  unsigned runs_ = 0;  // all clients together
  std::mutex mutex_;
  std::map<int, int64_t> statuses_;
  std::atomic<int64_t> requests_ = 0, healths_ = 0, cut_ = 0, closed_ = 0;
  std::atomic<double> stopped_ms_ = 0;
  // The watching thread's.
  double worst_health_ms_ = 0;
  int64_t slow_healths_ = 0, event_ = 0;
  std::array<int64_t, 3> cancelled_ = {};  // by stage
};

// So long, in two halves: what is in use after the first is in use after the second.
inline void torture(const TorturedServer& under, double seconds, bool compares) {
  Torture clients(under);
  clients.compare(compares);
  clients.run(seconds / 2);
  const Torture::Rest first = Torture::rest();
  clients.run(seconds / 2);
  const Torture::Rest second = Torture::rest();
  clients.print();
  fmt::print("at rest {} and {} MiB, {} and {} descriptors, {} and {} threads\n",
             first.resident_bytes >> 20, second.resident_bytes >> 20, first.descriptors,
             second.descriptors, first.threads, second.threads);
  EXPECT_EQ(second.descriptors, first.descriptors);
  EXPECT_EQ(second.threads, first.threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(second.resident_bytes, first.resident_bytes + (int64_t{48} << 20));
#endif
  // On a machine that is busy otherwise, a few seconds may not see each of them. A full queue is
  // met about once in 5000 requests.
  constexpr int64_t kMany = 5000;
  for (const auto& [status, many] :
       {std::pair{200, kMany}, {400, kMany}, {413, kMany}, {429, 20 * kMany}, {431, kMany}})
    EXPECT_TRUE(clients.requests() < many || clients.seen(status) > 0) << status;
  // The small model's prompts take no time. In ten minutes a client left in prefill in 1 of 80
  // steps, of which a sanitizer's program makes few.
  constexpr double kLong = 20;
  constexpr int64_t kManySteps = 500;
  const serve::EngineCounts counts = under.engine().counts();
  for (serve::Stage stage :
       {serve::Stage::kQueued, serve::Stage::kPrefill, serve::Stage::kDecode}) {
    const bool is_rare = stage == serve::Stage::kPrefill && counts.steps < kManySteps;
    EXPECT_TRUE(seconds < kLong || clients.requests() < kMany || is_rare ||
                clients.cancelled(stage) > 0)
        << static_cast<int>(stage);
  }
  EXPECT_TRUE(clients.requests() < kMany || clients.closed() > 0);
  EXPECT_TRUE(counts.steps < kMany || counts.preemptions > 0);
  EXPECT_LT(clients.worst_health_ms(), 5000);
}

}  // namespace ridge::http
