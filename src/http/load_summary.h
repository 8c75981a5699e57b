// SPDX-License-Identifier: Apache-2.0
// What a load showed: percentiles of latencies, rates, and how many requests kept a promise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "http/load.h"

namespace ridge::http {

// Latencies that a request may have at most. What is not named is not promised.
struct Promise {
  std::optional<double> ttft_ns, tpot_ns, e2e_ns;

  // "ttft=500ms,tpot=50ms,e2e=10s"; units ms and s. Throws a usage Error.
  static Promise parse(const std::string& text);
  bool is_empty() const { return !ttft_ns && !tpot_ns && !e2e_ns; }
};

// By nearest rank: the smallest value that so many percent of all do not exceed.
struct Percentiles {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};
Percentiles percentiles(std::vector<double> values);

struct LoadSummary {
  int64_t completed = 0, failed = 0;
  int64_t prompt_tokens = 0, output_tokens = 0;  // of completed requests, as the server counts them
  double wall_ns = 0;
  // In ns: to the first text; per later token, a request's mean; between pieces of text; to the end.
  Percentiles ttft, tpot, itl, e2e;
  int64_t kept = 0;                       // completed requests within the promise
  std::map<std::string, int64_t> errors;  // of failed requests

  double per_s(int64_t count) const {
    return wall_ns > 0 ? static_cast<double>(count) / wall_ns * 1e9 : 0;
  }
};
LoadSummary summarize_load(const LoadResult& result, const Promise& promise);

}  // namespace ridge::http
