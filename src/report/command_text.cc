// SPDX-License-Identifier: Apache-2.0
// The commands with little to print.
#include "report/command_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {
namespace {

std::string loop_of(const record::LoadSummary& s) {
  return s.rate > 0 ? fmt::format("open loop, {} requests/s (Poisson)", s.rate)
                    : "closed loop, " + counted(s.clients, "client");
}

std::string table_text(const record::LoadSummary& s, const TerminalOptions& terminal) {
  Table table("<latency | mean | p50 | p90 | p99 | count");
  const auto add = [&](const char* name, const record::Percentiles& p) {
    if (p.count == 0) return table.add({name, "-", "-", "-", "-", "0"});
    table.add({name, format_ns(p.mean), format_ns(p.p50), format_ns(p.p90), format_ns(p.p99),
               format_integer(p.count)});
  };
  add("first token (TTFT)", s.ttft);
  add("later token (TPOT)", s.tpot);
  add("between pieces (ITL)", s.itl);
  add("whole request", s.e2e);
  return table.text(terminal);
}

}  // namespace

Json load_json(const record::LoadSummary& s) {
  Json json = to_json(s);
  json["errors"] = Json::object();
  if (!s.slo.empty()) {
    json["within_slo"] = s.kept;
    json["goodput_requests_per_s"] = s.per_s(s.kept);
  }
  for (const auto& [error, count] : s.errors) json["errors"][error] = count;
  return json;
}

std::string load_text(const record::LoadSummary& s, const TerminalOptions& terminal) {
  std::string text =
      wrap_lines(fmt::format("{} at {}: {}, prompts of {} words (seed {}), {} tokens each",
                             terminal_safe(s.model), terminal_safe(s.url), loop_of(s), s.prompt,
                             s.seed, s.output),
                 terminal.columns) +
      "\n" + table_text(s, terminal) + "\n";
  text += fmt::format(
      "{} requests in {}, {} failed: {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} prompt "
      "tokens/s\n",
      format_integer(s.completed), format_ns(s.wall_ns), format_integer(s.failed),
      s.per_s(s.completed), s.per_s(s.output_tokens), s.per_s(s.prompt_tokens));
  const int64_t all = s.completed + s.failed;
  if (!s.slo.empty() && all > 0)
    text +=
        fmt::format("goodput under {}: {:.2f} requests/s ({:.0f}% of requests)\n", s.slo,
                    s.per_s(s.kept), 100 * static_cast<double>(s.kept) / static_cast<double>(all));
  for (const auto& [error, count] : s.errors)
    text += fmt::format("failed {} times: {}\n", count, terminal_safe(error, kLongestMessage));
  return text;
}

namespace {

// The key of a GEMM without the empty lists of batches.
std::string problem(std::string key) {
  for (size_t at; (at = key.find(":[]")) != key.npos;) key.erase(at, 3);
  std::replace(key.begin(), key.end(), ':', ' ');
  return terminal_safe(key, kLongestMessage);
}

}  // namespace

std::string tuned_text(std::span<const record::TunedChoices> all, const TerminalOptions& terminal) {
  std::string text = all.empty() ? "Nothing was tuned on this machine yet.\n" : "";
  for (const record::TunedChoices& each : all) {
    if (!text.empty()) text += "\n";
    text += terminal_safe(fmt::format("{}: {}", each.what, each.machine), kLongestMessage) + "\n";
    Table table(
        {{"problem", Align::kLeft}, {"choice", Align::kLeft}, {"time"}, {"default"}, {"gain"}});
    for (const record::TunedChoice& choice : each.choices)
      table.add({problem(choice.problem), terminal_safe(choice.choice, kLongestMessage),
                 format_ns(choice.ns), format_ns(choice.default_ns),
                 fmt::format("{:.2f}x", choice.gain())});
    text += table.text(terminal);
  }
  return text;
}

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

std::string data_set_text(const record::DataSetSummary& s) {
  return fmt::format("Wrote {} ids of {} bytes from {} in {} to {} ({} tokens/s).\n",
                     format_integer(s.ids), s.id_bytes, counted(s.documents, "document"),
                     counted(s.shards, "shard"), terminal_safe(s.folder),
                     format_count(s.tokens_per_s));
}

std::string data_set_text(const record::DataSetContents& c, const TerminalOptions& options) {
  std::string text = fmt::format("{}: {} ids, vocabulary {}\n", terminal_safe(c.path),
                                 format_integer(c.ids), format_integer(c.vocab_size));
  if (c.documents > 0)
    text += fmt::format("{} of {} to {} ids, median {}\n", counted(c.documents, "document"),
                        format_integer(c.least_ids), format_integer(c.most_ids),
                        format_integer(c.median_ids));
  Table table("<shard | ids | documents | <XXH3-128");
  for (const record::DataSetContents::Shard& each : c.shards)
    table.add({terminal_safe(each.name), format_integer(each.ids), format_integer(each.documents),
               terminal_safe(each.hash)});
  if (table.rows() > 0) text += "\n" + table.text(options);
  if (c.checked) text += "\nAll hashes agree.\n";
  return text;
}

Json data_set_json(const record::DataSetContents& c) {
  Json all{
      {"ids", c.ids},
      {"vocab_size", c.vocab_size},
      {"documents", c.documents},
      {"document_ids", {{"least", c.least_ids}, {"median", c.median_ids}, {"most", c.most_ids}}},
      {"shards", value_json(c.shards)},
      {"checked", c.checked}};
  if (!c.origin.empty()) all["origin"] = Json::parse(c.origin);
  if (c.text) all["text"] = *c.text;
  return all;
}

std::string trained_text(const record::TrainedTokenizer& made,
                         int64_t wanted,
                         const TerminalOptions& options) {
  std::string text = fmt::format("Trained {} tokens ({} merges) on {} of text. Wrote to {}: {}.\n",
                                 format_integer(made.tokens), format_integer(made.merges),
                                 format_bytes(made.text_bytes), terminal_safe(made.folder),
                                 fmt::join(made.files, ", "));
  if (made.tokens < wanted)
    text += fmt::format(
        "These are fewer than the {} asked for, because the text has no more pairs to merge.\n",
        format_integer(wanted));
  return options.fit ? wrap_lines(text, options.columns) : text;
}

}  // namespace ridge::report
