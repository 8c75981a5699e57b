// SPDX-License-Identifier: Apache-2.0
// Load on a server of OpenAI's completions: streamed requests, closed loop or open loop, and when
// each token came. Knows nothing of what answers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "http/client.h"

namespace ridge::http {

// A number of tokens: fixed, uniform or exponential.
struct Lengths {
  enum class Law : uint8_t { kFixed, kUniform, kExponential } law = Law::kFixed;
  int64_t low = 1, high = 1;  // fixed: low; exponential: its mean is low, up to high

  // "128", "64-256" (uniform), "exp:128" (exponential, at most 8 times its mean). Throws a usage
  // Error that names `option`.
  static Lengths parse(const std::string& text, const char* option);
  int64_t draw(Random& random) const;
};

struct LoadOptions {
  std::string model;     // empty: the first that the server names
  std::string api_key;   // empty: none is shown
  int64_t clients = 1;   // a closed loop: each sends its next request when the last has ended
  double rate = 0;       // an open loop: requests a second, at random times (Poisson); 0: closed
  int64_t requests = 0;  // in all; 0: until the time is over
  double seconds = 0;    // requests that begin later are not sent; 0: no limit
  Lengths prompt, output;
  int64_t shared_prefix = 0;  // words that all prompts begin with, part of their length
  double temperature = 0;
  uint32_t seed = 1;
  double silence_s = 600;  // without a byte, a request has failed
};
// Throws usage Errors for options out of range.
void validate(const LoadOptions& options);

// Times in ns since the load began.
struct RequestTimes {
  double due_ns = 0;  // when it should begin: latencies count from here
  double end_ns = 0;
  std::vector<double> arrivals_ns = {};  // a piece of text each
  int64_t prompt_tokens = 0, output_tokens = 0;
  std::string error = {};  // empty: it ended as it should
};

struct LoadResult {
  std::string model;
  std::vector<RequestTimes> requests;
  double wall_ns = 0;
};

// One request is sent before the load, unmeasured, so that lazy work is done. Throws a run-time
// Error if that one fails. `tick` is called after each request, on any thread, one at a time.
LoadResult run_load(const Url& url, const LoadOptions& options, const std::function<void()>& tick);

// A prompt of so many words, most of which are one token in most vocabularies.
std::string make_prompt(int64_t words, int64_t shared_prefix, uint32_t seed);

}  // namespace ridge::http
