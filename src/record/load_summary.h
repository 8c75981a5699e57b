// SPDX-License-Identifier: Apache-2.0
// The load on a server and what its clients saw. It is a plain record, which http/load_summary.h
// fills.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "record/figures.h"

namespace ridge::record {

// Percentiles are by nearest rank: each is the smallest value that so many percent of all do not
// exceed.
struct Percentiles {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

struct LoadSummary {
  std::string url, model;
  int64_t clients = 0;         // in a closed loop
  double rate = 0;             // requests a second in an open loop; 0: closed
  std::string prompt, output;  // lengths, as --prompt-tokens and --tokens spell them
  int64_t shared_prefix = 0;   // words
  int64_t seed = 0;
  std::string slo;  // the promised latencies, as --slo spells them; empty: none
  int64_t completed = 0, failed = 0;
  int64_t prompt_tokens = 0, output_tokens = 0;  // the completed requests'; the server counts them
  double wall_ns = 0;
  // In ns: until the first text; per later token, a request's mean; between pieces of text; until
  // the end.
  Percentiles ttft, tpot, itl, e2e;
  int64_t kept = 0;                       // completed requests within the promise
  std::map<std::string, int64_t> errors;  // the failed requests'

  double per_s(int64_t count) const {
    return wall_ns > 0 ? static_cast<double>(count) / wall_ns * 1e9 : 0;
  }
};

template <class See>
void figures(const See& see, const Percentiles& r) {
  see("count", r.count), see("mean_ns", r.mean), see("p50_ns", r.p50), see("p90_ns", r.p90),
      see("p99_ns", r.p99);
}

template <class See>
void figures(const See& see, const LoadSummary& r) {
  see("url", r.url), see("model", r.model);
  see("clients", r.rate > 0 ? 0 : r.clients, Unknown::kNull), see("rate", r.rate, Unknown::kNull);
  see("prompt", r.prompt), see("output", r.output), see("shared_prefix", r.shared_prefix),
      see("seed", r.seed), see("wall_ns", r.wall_ns), see("completed", r.completed),
      see("failed", r.failed), see("prompt_tokens", r.prompt_tokens),
      see("output_tokens", r.output_tokens), see("requests_per_s", r.per_s(r.completed)),
      see("prompt_tokens_per_s", r.per_s(r.prompt_tokens)),
      see("output_tokens_per_s", r.per_s(r.output_tokens)), see("ttft", r.ttft),
      see("tpot", r.tpot), see("itl", r.itl), see("e2e", r.e2e), see("slo", r.slo, Unknown::kNull);
}

}  // namespace ridge::record
