// SPDX-License-Identifier: Apache-2.0
// ridge logits: shows the largest logits after some token ids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/attention_choice.h"
#include "models/tokenizer_file.h"
#include "report/command_text.h"
#include "report/standard_output.h"
#include "text/id_list.h"

namespace ridge::apps {
namespace {

struct LogitsOptions {
  InferenceOptions inference;
  std::string ids;
  int64_t top = 8;
};

double log_sum_exp(const std::vector<float>& logits) {
  double top = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float each : logits) sum += std::exp(static_cast<double>(each) - top);
  return top + std::log(sum);
}

// The ids of the largest logits, in descending order.
std::vector<size_t> largest(const std::vector<float>& logits, int64_t count) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t kept = std::min(order.size(), static_cast<size_t>(count));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](size_t a, size_t b) {
                      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                    });
  order.resize(kept);
  return order;
}

// The text of each id, to show next to it; none if the model has no tokenizer that Ridge reads.
std::vector<std::string> texts(const std::vector<size_t>& ids, const models::ModelFile& file) {
  std::vector<std::string> texts;
  try {
    std::optional<models::TokenizerFile> found = models::find_tokenizer(file);
    if (!found) return {};
    const text::Tokenizer tokenizer = models::make_tokenizer(std::move(*found));
    for (size_t id : ids)  // a padded vocabulary has ids without a token
      texts.emplace_back(id < static_cast<size_t>(tokenizer.vocab_size())
                             ? tokenizer.token_bytes(static_cast<int32_t>(id))
                             : "");
  } catch (const Error& error) {
    fmt::print(stderr, "warning: no texts are shown: {}\n", terminal_safe(error.what()));
    texts.clear();
  }
  return texts;
}

void show_logits(const LogitsOptions& o, const std::vector<int32_t>& ids) {
  models::ModelFile file = open_model_file(o.inference);
  const SessionNeeds needs{.positions = std::ssize(ids)};
  const auto inference = bench::with_attention(o.inference, file.config(), needs);
  auto model = open_model(std::move(file), inference, needs);
  serve::Prompt prompt{0, ids, {}};
  model->session->start({&prompt, 1});
  std::vector<float> logits = model->session->logits(0);
  double sum = log_sum_exp(logits);
  std::vector<size_t> order = largest(logits, o.top);
  const std::vector<std::string> names = texts(order, model->file);
  if (!o.inference.json) {
    fmt::print("log-sum-exp {:.5f} after {}\n", sum, counted(std::ssize(ids), "token"));
    for (size_t i = 0; i < order.size(); ++i) {
      const float logit = logits[order[i]];
      fmt::print("{:>8}  {:>10.5f}  {:>7.3f}%{}\n", order[i], logit,
                 100 * std::exp(static_cast<double>(logit) - sum),
                 names.empty() ? "" : fmt::format("  \"{}\"", terminal_safe(names[i])));
    }
    return;
  }
  record::TopLogits found{std::ssize(ids), sum, {}};
  for (size_t i = 0; i < order.size(); ++i)
    found.top.push_back({static_cast<int64_t>(order[i]), logits[order[i]],
                         names.empty() ? std::nullopt : std::optional(names[i])});
  report::write_json(report::logits_json(found));
}

void run(LogitsOptions& o) {
  if (o.top < 1) throw usage_error("[top] expected at least 1, got {}", o.top);
  const std::vector<int32_t> ids = text::parse_ids(o.ids, "ids");
  if (ids.empty()) throw usage_error("[ids] expected at least one id, got none");
  run_on_ranks(o.inference, [&] { show_logits(o, ids); });
}

}  // namespace

void register_logits(Command program, const AppContext&) {
  auto o = std::make_shared<LogitsOptions>();
  Command app = program.add_subcommand("logits", "Show the largest logits after some token ids");
  app.add_option("--ids", o->ids, "token ids of the sequence: 1,2,3").numbers().required();
  app.add_option("--top", o->top, "number of logits to show, the largest first");
  add_inference_options(app, o->inference);
  add_model_rank_options(app, o->inference.ranks);
  app.footer(
      "Shows the text of each token if the model has a tokenizer. With --json, `top` has [id, logit, "
      "text].\n"
      "Examples:\n"
      "  ridge logits SmolLM2-135M-Instruct.Q4_1.gguf --ids 504,3575,282,4649,314\n"
      "  ridge logits model/ --ids 1,2,3 --json --exact");
  app.callback([o] { run(*o); });
}

}  // namespace ridge::apps
