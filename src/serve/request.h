// SPDX-License-Identifier: Apache-2.0
// A request to the engine, and the output queue through which its answer comes. Knows no model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request_metrics.h"
#include "serve/sampling.h"

namespace ridge::serve {

struct Request {
  std::vector<int32_t> prompt = {};
  SamplingOptions sampling = {};
  int64_t max_tokens = 0;              // at least 1; a full context also ends the answer
  std::vector<std::string> stop = {};  // Any of these texts ends the answer and is left out of it.
  bool ignores_end = false;            // End-of-generation tokens do not end the answer.
  int64_t top_logprobs = -1;           // number of alternatives; -1: no log-probabilities
  // Requests run in order of arrival; each step to a smaller priority counts as an earlier arrival.
  int64_t priority = 0;
  uint32_t tenant = 0;  // Requests share cached prefixes only within a tenant.
};

// Why an answer ended.
enum class Finish : uint8_t {
  kNone,       // It has not ended.
  kStop,       // an end-of-generation token or a stop text
  kLength,     // max_tokens, or the context is full
  kCancelled,  // The reader cancelled it, or the engine stopped.
  kFailed,     // Delta::error says why.
};
inline constexpr Finish kFinishes[] = {Finish::kStop, Finish::kLength, Finish::kCancelled,
                                       Finish::kFailed};
std::string_view finish_name(Finish finish);  // "stop", "length", "cancelled", "failed"

enum class Refusal : uint8_t { kNone, kFull, kDraining };
struct RequestHandle {
  uint64_t id = 0;                   // 0: refused
  Refusal refusal = Refusal::kNone;  // A refused request gets no output.
};

// A token and the natural logarithm of its probability, before temperature and top-k, -p, min-p.
struct ScoredToken {
  int32_t id = 0;
  double logprob = 0;
};
struct TokenScores {
  ScoredToken chosen;
  std::vector<ScoredToken> top = {};  // most likely first
};

// The part of an answer since the reader's last `take`.
struct Delta {
  std::string text = {};                 // valid UTF-8
  std::vector<TokenScores> scores = {};  // one per token, if the request asks for them
  int64_t tokens = 0;                    // generated tokens, including one that ended the answer
  std::vector<int32_t> ids = {};         // theirs, in order
  int64_t cached_tokens = 0;             // prompt tokens that the prefix cache held
  Finish finish = Finish::kNone;
  std::string error = {};                                   // set if kFailed
  std::shared_ptr<const RequestMetrics> metrics = nullptr;  // set at the end

  // Adds the part that follows.
  void append(Delta next);
};

// The engine puts, one reader on any thread takes. Deltas that wait are merged into one, so that
// the queue never holds more than one answer.
class OutputQueue {
 public:
  // The engine's thread calls `wake`, without a lock, at the end of each step that put something.
  // It must return soon and may not throw.
  explicit OutputQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(Delta delta);
  void wake() const {
    if (wake_) wake_();
  }
  // Takes all that was put since the last call. Nothing comes after a finish.
  Delta take();

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  Delta waiting_;
};

}  // namespace ridge::serve
