// SPDX-License-Identifier: Apache-2.0
// ridge generate: continues a prompt, or answers it, as the text comes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
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

std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[sizeof "01 Jan 20000"];
  std::strftime(text, sizeof text, "%d %b %Y", &local);
  return text;
}

// The conversation as the model was trained on it; its special tokens are in the text.
std::vector<int32_t> encode_chat(const Options& o,
                                 const std::string& prompt,
                                 const std::string& jinja,
                                 const text::Tokenizer& tokenizer) {
  if (jinja.empty() && o.chat_template.empty())
    throw usage_error("[chat] the model file has no chat template; --chat-template names one of {}",
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
  if (chat.uses_date()) options.date = today();
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

// A terminal gets the text without control sequences; a file or a pipe gets its bytes.
void show(std::string_view text) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  const std::string safe = is_terminal ? terminal_safe_text(text) : std::string();
  if (is_terminal) text = safe;
  std::fwrite(text.data(), 1, text.size(), stdout);
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
  if (!o.chat && (!o.system.empty() || !o.chat_template.empty()))
    throw usage_error("[chat] --system and --chat-template need --chat");
  serve::validate(o.generate.sampling);
  double begin = now_ns();
  models::ModelFile file = models::ModelFile::open(o.inference.model);
  models::TokenizerFile source = models::read_tokenizer(file.path());
  std::string jinja = source.chat_template;
  text::Tokenizer tokenizer = models::make_tokenizer(std::move(source));
  if (tokenizer.vocab_size() > file.config().vocabulary)
    throw file_error("[model] {}: the tokenizer has {} tokens, the model {}", o.inference.model,
                     tokenizer.vocab_size(), file.config().vocabulary);
  double read_ns = now_ns() - begin;
  std::vector<int32_t> prompt = encode(o, tokenizer, jinja);
  begin = now_ns();
  int64_t needed = static_cast<int64_t>(prompt.size()) + o.generate.max_tokens;
  auto model = open_model(std::move(file), o.inference, needed, !o.no_cache);
  double load_ns = read_ns + now_ns() - begin;
  auto shown = o.inference.json ? std::function<void(std::string_view)>() : show;
  serve::Generation made = serve::generate(*model->session, tokenizer, prompt, o.generate, shown);
  if (o.inference.json) return print_json(prompt, made, load_ns);
  fmt::print("\n");
  nlohmann::ordered_json t = timings(made, prompt.size(), load_ns);
  std::string said = fmt::format("prompt {} tokens", prompt.size());
  if (made.ids.empty())
    said += ", none generated";
  else
    said += fmt::format(", first after {}; {} tokens at {}/s", format_ns(made.prompt_ns),
                        made.ids.size(), format_count(t["decode_tokens_per_s"].get<double>()));
  fmt::print(stderr, "{}; {}\n", said, made.finish_reason);
}

void add_options(Command app, Options& o) {
  constexpr const char* kSampling = "Sampling";
  add_inference_options(app, o.inference);
  app.add_option("PROMPT", o.prompt, "the prompt (default: stdin)");
  app.add_option("--max-tokens", o.generate.max_tokens, "generate at most this many tokens")
      .show_default();
  app.add_option("--stop", o.generate.stop, "stop at this text; may be given several times")
      .one_value();
  app.add_flag("--chat", o.chat, "send the prompt as a user message through the chat template");
  app.add_option("--system", o.system, "with --chat: the system message");
  app.add_option("--chat-template", o.chat_template,
                 "with --chat: a known template instead of the file's");
  app.add_flag("--no-kv-cache", o.no_cache, "recompute the whole sequence for every token");
  serve::SamplingOptions& s = o.generate.sampling;
  app.add_option("--temperature", s.temperature, "0: greedy").show_default().group(kSampling);
  app.add_option("--top-k", s.top_k, "sample from the k most likely tokens (0: all)")
      .show_default()
      .group(kSampling);
  app.add_option("--top-p", s.top_p,
                 "sample from the smallest set with total probability p (0 or 1: all)")
      .show_default()
      .group(kSampling);
  app.add_option("--min-p", s.min_p, "drop tokens below p times the largest probability (0: none)")
      .show_default()
      .group(kSampling);
  app.add_option("--repeat-penalty", s.repeat_penalty,
                 "divide the logits of the last 64 tokens by this (1: off)")
      .show_default()
      .group(kSampling);
  app.add_option("--seed", s.seed, "random seed; the same seed gives the same text")
      .show_default()
      .group(kSampling);
}

}  // namespace

void register_generate(Command program, const AppContext&) {
  auto o = std::make_shared<Options>();
  Command app = program.add_subcommand("generate", "Continue a prompt with a model file");
  add_options(app, *o);
  app.footer(
      "Examples:\n"
      "  ridge generate gemma-3-270m-q4_k_m.gguf \"The capital of France is\" --max-tokens 32\n"
      "  ridge generate SmolLM2-135M-Instruct.Q4_1.gguf --chat \"Name three rivers.\" "
      "--temperature 0.7 --top-p 0.9 --seed 1\n"
      "  ridge generate model/ --json < prompt.txt");
  app.callback([o, app] {
    o->has_prompt = app.given("PROMPT");
    run(*o);
  });
}

}  // namespace ridge::apps
