// SPDX-License-Identifier: Apache-2.0
// A request to the engine, and the outbox through which its answer comes. Knows no model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/account.h"
#include "serve/sampling.h"

namespace ridge::serve {

struct Request {
  std::vector<int32_t> prompt = {};
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;              // at least 1; the context's end also ends an answer
  std::vector<std::string> stop = {};  // texts that end the answer, not included in it
  bool ignores_end = false;            // tokens that end a generation do not end it
  int64_t top_logprobs = -1;           // -1: no log-probabilities; else the alternatives to report
  int64_t priority = 0;                // smaller ones first, equal ones as they come
  uint32_t tenant = 0;                 // the cache's prefixes are shared within a tenant only
};

// Why an answer ended.
enum class Finish : uint8_t {
  kNone,       // it has not
  kStop,       // a token that ends a generation, or a stop text
  kLength,     // max_tokens, or the context is full
  kCancelled,  // by the reader or because the engine stopped
  kFailed,     // the error says why
};
inline constexpr Finish kFinishes[] = {Finish::kStop, Finish::kLength, Finish::kCancelled,
                                       Finish::kFailed};
std::string_view finish_name(Finish finish);  // "stop", "length", "cancelled", "failed"

// A token and its natural logarithm of the probability, before temperature and cuts.
struct ScoredToken {
  int32_t id = 0;
  double logprob = 0;
};
struct TokenScores {
  ScoredToken chosen;
  std::vector<ScoredToken> top = {};  // most likely first
};

// What has happened to an answer since the last look.
struct Delta {
  std::string text = {};                 // valid UTF-8
  std::vector<TokenScores> scores = {};  // one per token, if the request asks for them
  int64_t tokens = 0;                    // generated, including one that ended the answer
  int64_t cached_tokens = 0;  // of the prompt, so far: those that were not computed again
  Finish finish = Finish::kNone;
  std::string error = {};                            // with kFailed
  std::shared_ptr<const Account> account = nullptr;  // with a finish
};

// The engine writes, one reader takes; any two threads. What is not taken yet is joined, so that it
// never holds more than one answer.
class Outbox {
 public:
  // `wake` is called on the engine's thread, without a lock, at the end of a step after which there is
  // something to take: it must return soon and may not throw.
  explicit Outbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(Delta delta);
  void wake() const {
    if (wake_) wake_();
  }
  // All that was put since the last call. After a finish nothing comes.
  Delta take();

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  Delta waiting_;
};

}  // namespace ridge::serve
