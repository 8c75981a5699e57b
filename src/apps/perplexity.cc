// SPDX-License-Identifier: Apache-2.0
// ridge perplexity: the perplexity of a text under a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "apps/text_io.h"
#include "apps/tuning_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "models/tokenizer_file.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

struct PerplexityOptions {
  InferenceOptions inference;
  std::string file;
  std::string ids;
  bool has_ids = false;
  std::string compared;  // the type of the KV cache of a second run; empty: none
};

// The likelihood of a text under one session.
struct Score {
  std::string cache_dtype;
  int activation_bits = 0;  // of GEMMs with quantized weights on a CPU; else 0
  serve::Likelihood sum;
  size_t pieces = 0;
  double seconds = 0;

  double mean() const { return sum.nll / static_cast<double>(sum.tokens); }
};

std::vector<int32_t> encode(const PerplexityOptions& o, const models::ModelFile& file) {
  if (o.has_ids) return parse_ids(o.ids, "ids");
  text::Tokenizer tokenizer = models::load_tokenizer(file.path());
  return tokenizer.encode(read_text(o.file), {.add_bos = tokenizer.spec().add_bos});
}

// A text that is longer than the context is cut into pieces; tokens do not attend to earlier pieces.
Score score(serve::Session& session,
            const InferenceOptions& o,
            const std::vector<int32_t>& ids,
            const TerminalOptions& terminal) {
  Score score;
  if (!o.exact && chosen_device(o.machine) == "cpu") score.activation_bits = o.fast_8bit ? 8 : 16;
  score.cache_dtype = serve::cache_dtype_name(*session.options().cache_dtype);
  const double begin = now_ns();
  const size_t piece = static_cast<size_t>(session.options().capacity);
  Progress progress("perplexity", std::ssize(ids), "tokens", terminal);
  for (size_t at = 0; at + 1 < ids.size(); at += piece, ++score.pieces) {
    size_t end = std::min(at + piece, ids.size());
    if (end - at < 2) break;
    serve::Likelihood part = session.score({ids.data() + at, end - at});
    score.sum.nll += part.nll;
    score.sum.tokens += part.tokens;
    progress.tick(static_cast<int64_t>(end - at));
  }
  progress.hide();
  score.seconds = (now_ns() - begin) / 1e9;
  return score;
}

void print_json(const Score& score,
                const std::optional<Score>& compared,
                size_t tokens,
                const TerminalOptions&) {
  nlohmann::ordered_json json{{"tokens", tokens},
                              {"counted", score.sum.tokens},
                              {"pieces", score.pieces},
                              {"nll_mean", score.mean()},
                              {"perplexity", std::exp(score.mean())},
                              {"cache_dtype", score.cache_dtype},
                              {"activation_bits", score.activation_bits},
                              {"seconds", score.seconds},
                              {"tokens_per_s", static_cast<double>(tokens) / score.seconds}};
  if (compared)
    json["compared"] = {{"cache_dtype", compared->cache_dtype},
                        {"activation_bits", compared->activation_bits},
                        {"nll_mean", compared->mean()},
                        {"perplexity", std::exp(compared->mean())},
                        {"nll_mean_difference", score.mean() - compared->mean()}};
  fmt::print("{}\n", json.dump());
}

void print_text(const Score& score,
                const std::optional<Score>& compared,
                size_t tokens,
                const TerminalOptions& terminal) {
  std::string result = fmt::format(
      "perplexity {:.4f}, mean negative log-likelihood {:.5f} over {} of {} tokens{}; {} "
      "tokens/s",
      std::exp(score.mean()), score.mean(), format_integer(score.sum.tokens),
      format_integer(static_cast<int64_t>(tokens)),
      score.pieces > 1 ? fmt::format(" in {} pieces", score.pieces) : "",
      format_count(static_cast<double>(tokens) / score.seconds));
  if (compared) {
    const bool by_bits = compared->activation_bits != score.activation_bits;
    const std::string one = by_bits ? "8 bits" : score.cache_dtype,
                      other = by_bits ? "16 bits" : compared->cache_dtype;
    result += fmt::format(
        "\nwith {} in {} instead of {}: perplexity {:.4f}, mean negative log-likelihood {:.5f}\n"
        "difference of {} from {}: {:+.6f} in the mean negative log-likelihood",
        by_bits ? "activations" : "the KV cache", other, one, std::exp(compared->mean()),
        compared->mean(), one, other, score.mean() - compared->mean());
  }
  fmt::print("{}", terminal.fit ? wrap_lines(result, terminal.columns) : result + "\n");
}

void run(const PerplexityOptions& o, const TerminalOptions& terminal) {
  if (o.has_ids == !o.file.empty()) throw usage_error("[perplexity] expected either FILE or --ids");
  InferenceOptions other = o.inference;
  const bool compares_cache = !o.compared.empty();
  other.fast_8bit = other.fast_8bit && compares_cache;
  if (compares_cache) {
    other.cache_dtype = o.compared;
    chosen_cache_dtype(other, inference_selection(other, other.level.level), "compare-cache");
  }
  models::ModelFile file = models::ModelFile::open(o.inference.model);
  std::vector<int32_t> ids = encode(o, file);
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  constexpr int64_t kLeast = 2;  // a token, and the one that it predicts
  if (file.config().context < kLeast)
    throw usage_error("[model] expected a context of at least {} positions, got {}", kLeast,
                      file.config().context);
  const SessionNeeds needs{.positions = std::ssize(ids), .least = kLeast};
  const InferenceOptions inference = with_attention(o.inference, file.config(), needs);
  auto model = open_model(std::move(file), inference, needs);
  if (o.compared == serve::cache_dtype_name(*model->session->options().cache_dtype))
    throw usage_error("[compare-cache] expected another type than that of the KV cache, got {}",
                      o.compared);
  const Score first = score(*model->session, o.inference, ids, terminal);
  std::optional<Score> compared;
  if (compares_cache || o.inference.fast_8bit) {
    model->session.reset();  // releases its memory
    other = with_attention(other, model->file.config(), needs);
    model = open_model(std::move(model->file), other, needs);
    compared = score(*model->session, other, ids, terminal);
  }
  (o.inference.json ? print_json : print_text)(first, compared, ids.size(), terminal);
}

}  // namespace

void register_perplexity(Command program, const AppContext& context) {
  auto o = std::make_shared<PerplexityOptions>();
  Command app =
      program.add_subcommand("perplexity", "Compute the perplexity of a text under a model");
  add_inference_options(app, o->inference);
  app.add_option("FILE", o->file, "a text file, or - for stdin; the longer, the surer the result");
  Option ids = app.add_option("--ids", o->ids, "token ids instead of a text: 1,2,3").numbers();
  app.add_option(
      "--compare-cache", o->compared,
      "score the text again with the KV cache in this type (fp32, bf16 or i8), and print "
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
