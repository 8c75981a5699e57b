// SPDX-License-Identifier: Apache-2.0
// ridge perplexity: the perplexity of a text under a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "apps/text_io.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/units.h"
#include "models/tokenizer_file.h"

namespace ridge::apps {
namespace {

struct PerplexityOptions {
  InferenceOptions inference;
  std::string file;
  std::string ids;
  bool has_ids = false;
};

std::vector<int32_t> encode(const PerplexityOptions& o, const models::ModelFile& file) {
  if (o.has_ids) return parse_ids(o.ids, "ids");
  text::Tokenizer tokenizer = models::load_tokenizer(file.path());
  return tokenizer.encode(read_text(o.file), {.add_bos = tokenizer.spec().add_bos});
}

void run(const PerplexityOptions& o, const TerminalOptions& terminal) {
  if (o.has_ids == !o.file.empty()) throw usage_error("[perplexity] expected either FILE or --ids");
  models::ModelFile file = models::ModelFile::open(o.inference.model);
  std::vector<int32_t> ids = encode(o, file);
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  constexpr int64_t kLeast = 2;  // a token, and the one that it predicts
  if (file.config().context < kLeast)
    throw usage_error("[model] expected a context of at least {} positions, got {}", kLeast,
                      file.config().context);
  auto model =
      open_model(std::move(file), o.inference, {.positions = std::ssize(ids), .least = kLeast});
  double begin = now_ns();
  // A text that is longer than the context is cut into pieces; tokens do not attend to earlier
  // pieces.
  size_t piece = static_cast<size_t>(model->session->options().capacity);
  serve::Likelihood sum;
  size_t pieces = 0;
  Progress progress("perplexity", std::ssize(ids), "tokens", terminal);
  for (size_t at = 0; at + 1 < ids.size(); at += piece, ++pieces) {
    size_t end = std::min(at + piece, ids.size());
    if (end - at < 2) break;
    serve::Likelihood part = model->session->score({ids.data() + at, end - at});
    sum.nll += part.nll;
    sum.tokens += part.tokens;
    progress.tick(static_cast<int64_t>(end - at));
  }
  progress.hide();
  double seconds = (now_ns() - begin) / 1e9;
  double mean = sum.nll / static_cast<double>(sum.tokens);
  if (o.inference.json) {
    nlohmann::ordered_json json{{"tokens", ids.size()},
                                {"counted", sum.tokens},
                                {"pieces", pieces},
                                {"nll_mean", mean},
                                {"perplexity", std::exp(mean)},
                                {"seconds", seconds},
                                {"tokens_per_s", static_cast<double>(ids.size()) / seconds}};
    fmt::print("{}\n", json.dump());
    return;
  }
  const std::string result = fmt::format(
      "perplexity {:.4f}, mean negative log-likelihood {:.5f} over {} of {} tokens{}; {} "
      "tokens/s",
      std::exp(mean), mean, format_integer(sum.tokens),
      format_integer(static_cast<int64_t>(ids.size())),
      pieces > 1 ? fmt::format(" in {} pieces", pieces) : "",
      format_count(static_cast<double>(ids.size()) / seconds));
  fmt::print("{}", terminal.fit ? wrap_lines(result, terminal.columns) : result + "\n");
}

}  // namespace

void register_perplexity(Command program, const AppContext& context) {
  auto o = std::make_shared<PerplexityOptions>();
  Command app =
      program.add_subcommand("perplexity", "Compute the perplexity of a text under a model");
  add_inference_options(app, o->inference);
  app.add_option("FILE", o->file, "a text file, or - for stdin");
  Option ids = app.add_option("--ids", o->ids, "token ids instead of a text: 1,2,3").numbers();
  app.footer(
      "Uses natural logarithms. Cuts a text that is longer than the context into independent "
      "pieces,\n"
      "and scores all tokens but the first of each piece.\n"
      "Examples:\n"
      "  ridge perplexity gemma-3-270m-q4_k_m.gguf LICENSE\n"
      "  ridge perplexity model/ --ids 1,2,3 --json --exact");
  app.callback([o, ids, &context] {
    o->has_ids = ids.given();
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
