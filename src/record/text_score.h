// SPDX-License-Identifier: Apache-2.0
// The likelihood of a text under a model, and under the same model with coarser arithmetic.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "record/figures.h"

namespace ridge::record {

struct TextScore {
  int64_t tokens = 0, counted = 0, pieces = 0;
  double nll = 0;  // the sum over the counted tokens
  std::string cache_dtype = {};
  int activation_bits = 0;  // GEMMs with quantized weights on a CPU; else 0
  double seconds = 0;

  double mean() const { return nll / static_cast<double>(counted); }
  double perplexity() const { return std::exp(mean()); }
  double tokens_per_s() const { return static_cast<double>(tokens) / seconds; }
};

template <class See>
void figures(const See& see, const TextScore& r) {
  see({"tokens", "", "of the text"}, r.tokens);
  see({"counted", "", "tokens with a prediction: all but the first of each piece"}, r.counted);
  see({"pieces", "", "parts of a text that is longer than the context"}, r.pieces);
  see({"nll_mean", "", "mean negative log-likelihood, by natural logarithms"}, r.mean());
  see("perplexity", r.perplexity()), see("cache_dtype", r.cache_dtype);
  see("activation_bits", r.activation_bits), see("seconds", r.seconds);
  see("tokens_per_s", r.tokens_per_s());
}

}  // namespace ridge::record
