// SPDX-License-Identifier: Apache-2.0
// Names what differs between the two runs: the activations or the KV cache.
#include "report/text_score.h"

#include <fmt/format.h>

#include "base/units.h"

namespace ridge::report {

std::string score_text(const record::TextScore& score,
                       const std::optional<record::TextScore>& compared,
                       const TerminalOptions& terminal) {
  std::string text = fmt::format(
      "perplexity {:.4f}, mean negative log-likelihood {:.5f} over {} of {} tokens{}; {} "
      "tokens/s",
      score.perplexity(), score.mean(), format_integer(score.counted), format_integer(score.tokens),
      score.pieces > 1 ? fmt::format(" in {} pieces", score.pieces) : "",
      format_count(score.tokens_per_s()));
  if (compared) {
    const bool by_bits = compared->activation_bits != score.activation_bits;
    const std::string one = by_bits ? "8 bits" : score.cache_dtype,
                      other = by_bits ? "16 bits" : compared->cache_dtype;
    text += fmt::format(
        "\nwith {} in {} instead of {}: perplexity {:.4f}, mean negative log-likelihood {:.5f}\n"
        "difference of {} from {}: {:+.6f} in the mean negative log-likelihood",
        by_bits ? "activations" : "the KV cache", other, one, compared->perplexity(),
        compared->mean(), one, other, score.mean() - compared->mean());
  }
  return terminal.fit ? wrap_lines(text, terminal.columns) : text + "\n";
}

Json score_json(const record::TextScore& score, const std::optional<record::TextScore>& compared) {
  Json json = to_json(score);
  if (!compared) return json;
  json["compared"] = to_json(*compared, "cache_dtype activation_bits nll_mean perplexity");
  json["compared"]["nll_mean_difference"] = score.mean() - compared->mean();
  return json;
}

Json logits_json(const record::TopLogits& logits) {
  Json top = Json::array();
  for (const record::TopLogits::Logit& each : logits.top) {
    top.push_back({each.id, each.logit});
    if (each.text) top.back().push_back(*each.text);
  }
  return {{"tokens", logits.tokens}, {"logsumexp", logits.log_sum_exp}, {"top", std::move(top)}};
}

}  // namespace ridge::report
