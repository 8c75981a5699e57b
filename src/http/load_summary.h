// SPDX-License-Identifier: Apache-2.0
// Summarizes a load: percentiles of latencies, rates, and how many requests kept a promise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/load.h"
#include "record/load_summary.h"

namespace ridge::http {

// Latencies that a request may have at most. What is not named is not promised.
struct Promise {
  std::optional<double> ttft_ns, tpot_ns, e2e_ns;

  // "ttft=500ms,tpot=50ms,e2e=10s"; units ms and s. Throws a usage Error.
  static Promise parse(const std::string& text);
  bool is_empty() const { return !ttft_ns && !tpot_ns && !e2e_ns; }
};

record::Percentiles percentiles(std::vector<double> values);

record::LoadSummary summarize_load(const LoadResult& result, const Promise& promise);

}  // namespace ridge::http
