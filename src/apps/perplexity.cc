// SPDX-License-Identifier: Apache-2.0
// ridge perplexity: the perplexity of a text under a model.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "bench/attention_choice.h"
#include "files/text_input.h"
#include "models/tokenizer_file.h"
#include "report/command_text.h"
#include "report/standard_output.h"
#include "serve/text_score.h"
#include "text/id_list.h"

namespace ridge::apps {
namespace {

struct PerplexityOptions {
  InferenceOptions inference;
  std::string file;
  std::string ids;
  bool has_ids = false;
  std::string compared;  // the type of the KV cache of a second run; empty: none
};

std::vector<int32_t> encode(const PerplexityOptions& o, const models::ModelFile& file) {
  if (o.has_ids) return text::parse_ids(o.ids, "ids");
  text::Tokenizer tokenizer = models::load_tokenizer(file.path());
  const RankOptions& ranks = o.inference.ranks;
  const std::string text = o.file == "-"
                               ? ranks.of_first(ranks.is_first() ? files::read_text("-") : "")
                               : files::read_text(o.file);
  return tokenizer.encode(text, {.add_bos = tokenizer.spec().add_bos});
}

record::TextScore score(serve::Session& session,
                        const serve::InferenceOptions& o,
                        const std::vector<int32_t>& ids,
                        const TerminalOptions& terminal) {
  Progress progress("perplexity", std::ssize(ids), "tokens", terminal);
  return serve::score_text(session, o, ids, [&](int64_t tokens) { progress.tick(tokens); });
}

void score_file(PerplexityOptions& o, const TerminalOptions& terminal) {
  serve::InferenceOptions other = o.inference;
  const bool compares_cache = !o.compared.empty();
  other.fast_8bit = other.fast_8bit && compares_cache;
  if (compares_cache) {
    other.cache_dtype = o.compared;
    other.chosen_cache_dtype(other.selection(other.level.level), "compare-cache");
  }
  models::ModelFile file = open_model_file(o.inference);
  std::vector<int32_t> ids = encode(o, file);
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  constexpr int64_t kLeast = 2;  // a token, and the one that it predicts
  if (file.config().context < kLeast)
    throw usage_error("[model] expected a context of at least {} positions, got {}", kLeast,
                      file.config().context);
  const SessionNeeds needs{.positions = std::ssize(ids), .least = kLeast};
  const auto inference = bench::with_attention(o.inference, file.config(), needs);
  auto model = open_model(std::move(file), inference, needs);
  if (o.compared == serve::cache_dtype_name(*model->session->options().cache_dtype))
    throw usage_error("[compare-cache] expected another type than that of the KV cache, got {}",
                      o.compared);
  const record::TextScore first = score(*model->session, o.inference, ids, terminal);
  std::optional<record::TextScore> compared;
  if (compares_cache || o.inference.fast_8bit) {
    model->session.reset();  // releases its memory
    other = bench::with_attention(other, model->file.config(), needs);
    model = open_model(std::move(model->file), other, needs);
    compared = score(*model->session, other, ids, terminal);
  }
  if (o.inference.json)
    report::write_json(report::score_json(first, compared));
  else
    fmt::print("{}", report::score_text(first, compared, terminal));
}

void run(PerplexityOptions& o, const TerminalOptions& terminal) {
  if (o.has_ids == !o.file.empty()) throw usage_error("[perplexity] expected either FILE or --ids");
  run_on_ranks(o.inference, [&] { score_file(o, terminal); });
}

}  // namespace

void register_perplexity(Command program, const AppContext& context) {
  auto o = std::make_shared<PerplexityOptions>();
  Command app =
      program.add_subcommand("perplexity", "Compute the perplexity of a text under a model");
  add_inference_options(app, o->inference);
  add_model_rank_options(app, o->inference.ranks);
  app.add_option("FILE", o->file, "a text file, or - for stdin; the longer, the surer the result");
  Option ids = app.add_option("--ids", o->ids, "token ids instead of a text: 1,2,3").numbers();
  app.add_option(
      "--compare-cache", o->compared,
      "score the text again with the KV cache in this type (fp32, bf16, i8 or fp8), and print "
      "how far the result with --cache-dtype is from it");
  app.footer(
      "Uses natural logarithms. Cuts a text that is longer than the context into independent "
      "pieces,\n"
      "and scores all tokens but the first of each piece. With --fast-8bit scores the text again with\n"
      "activations in 16 bits, unless --compare-cache asks for another cache, and prints the distance.\n"
      "Examples:\n"
      "  ridge perplexity gemma-3-270m-q4_k_m.gguf LICENSE\n"
      "  ridge perplexity model.gguf LICENSE --cache-dtype i8 --compare-cache fp32\n"
      "  ridge perplexity model.gguf LICENSE --fast-8bit\n"
      "  ridge perplexity model/ --ids 1,2,3 --json --exact");
  app.callback([o, ids, &context] {
    o->has_ids = ids.given();
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
