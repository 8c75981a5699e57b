// SPDX-License-Identifier: Apache-2.0
// ridge generate: continues or answers a prompt and prints the text as it is generated.
#include <fmt/format.h>

#include <fmt/chrono.h>
#include <algorithm>
#include <cstdio>
#include <ctime>
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
#include "serve/generator.h"
#include "text/chat_template.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;

struct Options {
  InferenceOptions inference;
  std::string prompt;
  bool has_prompt = false;
  serve::GenerateOptions generate;
  bool chat = false;
  std::string system;
  std::string chat_template;
  bool no_cache = false;
};

// The conversation in the model's chat format; special tokens are part of the text.
std::vector<int32_t> encode_chat(const Options& o,
                                 const std::string& prompt,
                                 const std::string& jinja,
                                 const text::Tokenizer& tokenizer) {
  if (jinja.empty() && o.chat_template.empty())
    throw usage_error(
        "[chat] the model file has no chat template; choose one with --chat-template: {}",
        fmt::join(text::ChatTemplate::names(), ", "));
  text::ChatTemplate chat = o.chat_template.empty() ? text::ChatTemplate::recognise(jinja)
                                                    : text::ChatTemplate::named(o.chat_template);
  const text::TokenizerSpec& spec = tokenizer.spec();
  auto written = [&](int32_t id) {
    return id == text::kNoToken ? std::string() : spec.tokens[static_cast<size_t>(id)];
  };
  std::vector<text::ChatMessage> messages;
  if (!o.system.empty()) messages.push_back({"system", o.system});
  messages.push_back({"user", prompt});
  text::ChatOptions options{.bos = written(spec.bos), .eos = written(spec.eos)};
  if (chat.uses_date())
    options.date = fmt::format("{:%d %b %Y}", fmt::localtime(std::time(nullptr)));
  std::string rendered = chat.render(messages, options);
  return tokenizer.encode(rendered,
                          {.parse_special = true, .add_bos = !chat.writes_bos() && spec.add_bos});
}

std::vector<int32_t> encode(const Options& o,
                            const text::Tokenizer& tokenizer,
                            const std::string& jinja) {
  std::string prompt = o.has_prompt ? o.prompt : read_text("-");
  if (prompt.empty()) throw usage_error("[prompt] expected a text, got none");
  if (o.chat) return encode_chat(o, prompt, jinja, tokenizer);
  return tokenizer.encode(prompt, {.add_bos = tokenizer.spec().add_bos});
}

void show(std::string_view text) {
  write_text(text);
  std::fflush(stdout);
  if (std::ferror(stdout) != 0) throw runtime_error("[stdout] cannot write the output");
}

double per_second(int64_t count, double ns) {
  return ns > 0 ? static_cast<double>(count) * 1e9 / ns : 0;
}

nlohmann::ordered_json timings(const serve::Generation& made,
                               size_t prompt_tokens,
                               double load_ns) {
  int64_t later = std::max<int64_t>(static_cast<int64_t>(made.ids.size()) - 1, 0);
  int64_t prompt = static_cast<int64_t>(prompt_tokens);
  return {{"load_ms", load_ns / 1e6},
          {"prompt_tokens", prompt},
          {"ttft_ms", made.prompt_ns / 1e6},
          {"prompt_tokens_per_s", per_second(prompt, made.prompt_ns)},
          {"generated_tokens", made.ids.size()},
          {"decode_ms", made.decode_ns / 1e6},
          {"tpot_ms", later > 0 ? made.decode_ns / 1e6 / static_cast<double>(later) : 0.0},
          {"decode_tokens_per_s", per_second(later, made.decode_ns)}};
}

void print_json(const std::vector<int32_t>& prompt, const serve::Generation& made, double load_ns) {
  nlohmann::ordered_json json{{"prompt_ids", prompt},
                              {"ids", made.ids},
                              {"text", made.text},
                              {"finish_reason", made.finish_reason},
                              {"timings", timings(made, prompt.size(), load_ns)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run(const Options& o) {
  if (o.generate.max_tokens < 0 || o.generate.max_tokens > kMostTokens)
    throw usage_error("[max-tokens] expected 0 to {}, got {}", kMostTokens, o.generate.max_tokens);
  serve::validate(o.generate.sampling);
  double begin = now_ns();
  models::ModelFile file = models::ModelFile::open(o.inference.model);
  models::TokenizerFile source = models::read_tokenizer(file.path());
  std::string jinja = source.chat_template;
  text::Tokenizer tokenizer = models::make_tokenizer(std::move(source));
  if (tokenizer.vocab_size() > file.config().vocabulary)
    throw file_error("[model] {}: the tokenizer has {} tokens, but the model has {}",
                     o.inference.model, tokenizer.vocab_size(), file.config().vocabulary);
  double read_ns = now_ns() - begin;
  std::vector<int32_t> prompt = encode(o, tokenizer, jinja);
  begin = now_ns();
  int64_t needed = static_cast<int64_t>(prompt.size()) + o.generate.max_tokens;
  auto model =
      open_model(std::move(file), o.inference, {.positions = needed, .cached = !o.no_cache});
  double load_ns = read_ns + now_ns() - begin;
  auto shown = o.inference.json ? std::function<void(std::string_view)>() : show;
  serve::Generation made = serve::generate(*model->session, tokenizer, prompt, o.generate, shown);
  if (o.inference.json) return print_json(prompt, made, load_ns);
  fmt::print("\n");
  nlohmann::ordered_json t = timings(made, prompt.size(), load_ns);
  std::string summary =
      fmt::format("{} prompt tokens, {} generated", prompt.size(), made.ids.size());
  if (!made.ids.empty())
    summary += fmt::format(", TTFT {}, decode {} tokens/s", format_ns(made.prompt_ns),
                           format_count(t["decode_tokens_per_s"].get<double>()));
  fmt::print(stderr, "{} ({})\n", summary, made.finish_reason);
}

void add_options(Command app, Options& o) {
  add_inference_options(app, o.inference);
  app.add_option("PROMPT", o.prompt, "the prompt (default: stdin)");
  app.add_option("--max-tokens", o.generate.max_tokens, "generate at most this many tokens")
      .show_default();
  app.add_option("--stop", o.generate.stop, "stop at this text (repeatable)").one_value();
  app.add_flag("--chat", o.chat, "format the prompt as a user message with the chat template");
  app.add_option("--system", o.system, "with --chat: the system message");
  app.add_option("--chat-template", o.chat_template,
                 "with --chat: the name of a template to use instead of the file's");
  app.add_flag("--no-kv-cache", o.no_cache, "recompute the whole sequence for every token");
  serve::SamplingOptions& s = o.generate.sampling;
  app = app.under("Sampling");
  app.add_option("--temperature", s.temperature, "softmax temperature (0: greedy)").show_default();
  app.add_option("--top-k", s.top_k, "sample from the k most likely tokens (0: all)")
      .show_default();
  app.add_option("--top-p", s.top_p,
                 "sample from the smallest set with total probability p (0 or 1: all)")
      .show_default();
  app.add_option("--min-p", s.min_p, "drop tokens below p times the largest probability (0: none)")
      .show_default();
  app.add_option("--repeat-penalty", s.repeat_penalty,
                 "penalize the last 64 tokens: divide positive logits by this, multiply negative "
                 "ones (1: off)")
      .show_default();
  app.add_option("--seed", s.seed, "random seed; the same seed gives the same text").show_default();
}

}  // namespace

void register_generate(Command program, const AppContext&) {
  auto o = std::make_shared<Options>();
  Command app = program.add_subcommand("generate", "Continue a prompt with a model file");
  add_options(app, *o);
  app.footer(
      "Examples:\n"
      "  ridge generate gemma-3-270m-q4_k_m.gguf \"The capital of France is\" --max-tokens 32\n"
      "  ridge generate SmolLM2-135M-Instruct.Q4_1.gguf --chat \"Name three rivers.\" --temperature 0.7\n"
      "  ridge generate model/ --json < prompt.txt");
  app.callback([o, app] {
    app.refuse_unused({{!o->chat, "without --chat", {"--system", "--chat-template"}},
                       {o->generate.sampling.temperature == 0,
                        "at temperature 0, which takes the most likely token (see --temperature)",
                        {"--top-k", "--top-p", "--min-p", "--seed"}}});
    o->has_prompt = app.given("PROMPT");
    run(*o);
  });
}

}  // namespace ridge::apps
