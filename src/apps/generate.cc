// SPDX-License-Identifier: Apache-2.0
// ridge generate: continues or answers a prompt and prints the text as it is generated.
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "bench/attention_choice.h"
#include "files/text_input.h"
#include "models/tokenizer_file.h"
#include "record/answer.h"
#include "report/standard_output.h"
#include "serve/conversation.h"
#include "serve/stop_text.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kChatPositions = 8192;  // a chat's context; the full one may take gigabytes

struct Options {
  InferenceOptions inference;
  std::string prompt;
  bool has_prompt = false;
  serve::GenerateOptions generate;
  bool chat = false;
  std::string system;
  serve::ChatFormatOptions chat_format;
  bool no_cache = false;
};

// The prompt: the argument, or all of stdin.
std::string prompt_text(const Options& o) {
  const RankOptions& ranks = o.inference.ranks;
  if (!o.has_prompt && ranks.is_first() && ::isatty(STDIN_FILENO) != 0)
    fmt::print(stderr, "Type the prompt; Ctrl-D on an empty line ends it.\n");
  const std::string prompt =
      o.has_prompt ? o.prompt : ranks.of_first(ranks.is_first() ? files::read_text("-") : "");
  if (prompt.empty()) throw usage_error("[prompt] expected a text, got none");
  return prompt;
}

void show(std::string_view text) {
  report::write_text(text);
  std::fflush(stdout);
  if (std::ferror(stdout) != 0) throw runtime_error("[stdout] cannot write the output");
}

void print_json(const serve::Turn& turn, double load_ns) {
  const serve::Generation& made = turn.answer;
  record::Answer answer{turn.prompt, made.ids, made.text, made.finish_reason, {}};
  answer.timings = {load_ns, made.prompt_ns, made.decode_ns, std::ssize(turn.prompt),
                    std::ssize(made.ids)};
  report::write_json(answer);
}

void print_summary(const serve::Turn& turn) {
  const serve::Generation& made = turn.answer;
  std::string line = counted(std::ssize(turn.prompt), "prompt token");
  if (turn.answer.cached_tokens > 0)
    line += fmt::format(" ({} of them in the KV cache)", turn.answer.cached_tokens);
  line += fmt::format(", {} generated", made.ids.size());
  if (!made.ids.empty()) line += fmt::format(", TTFT {}", format_ns(made.prompt_ns));
  if (made.ids.size() > 1)  // the first token is the prompt's
    line += fmt::format(", decode {} tokens/s", format_count(record::AnswerTimings::per_second(
                                                    std::ssize(made.ids) - 1, made.decode_ns)));
  fmt::print(stderr, "{} ({})\n", line, made.finish_reason);
}

// Explains in a chat why the answer is missing or cut.
void print_limit(const serve::Turn& turn, const serve::Session& session, int64_t max_tokens) {
  const int64_t capacity = session.options().capacity;
  const std::string& reason = turn.answer.finish_reason;
  if (reason == "context")
    fmt::print(stderr,
               "The context is full: with this message, the conversation has {} tokens, and the "
               "context {}. Send a shorter one, or /clear for a new conversation.\n",
               turn.prompt.size(), capacity);
  else if (reason == "length" && std::ssize(turn.answer.ids) < max_tokens)
    fmt::print(stderr,
               "The context of {} tokens is full, so the answer is cut. /clear starts a new "
               "conversation{}.\n",
               capacity,
               capacity < session.config().context ? "; --context allocates a longer one" : "");
  else if (reason == "length")
    fmt::print(stderr, "The answer is cut after {} tokens (--max-tokens).\n", max_tokens);
}

// The next message, which the first rank reads; /exit at the end of the input.
std::string next_message(const RankOptions& ranks) {
  std::string line;
  if (!ranks.is_first()) return ranks.of_first("");
  fmt::print(stderr, "> ");
  if (!std::getline(std::cin, line)) {
    fmt::print(stderr, "\n");
    line = "/exit";
  }
  return ranks.of_first(line);
}

// Answers messages from the terminal until /exit or the end of the input. Hints go to stderr, so
// that stdout has the answers alone. All ranks stop an answer after the same token.
void chat(serve::Conversation& conversation,
          const serve::Session& session,
          serve::GenerateOptions options,
          const RankOptions& ranks) {
  if (ranks.is_first())
    fmt::print(stderr,
               "Type a message and press Enter. Ctrl-C stops an answer, /clear starts a new "
               "conversation,\n/exit or Ctrl-D leaves.\n");
  for (;;) {
    const std::string line = next_message(ranks);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line == "/exit") return;
    if (line == "/clear") {
      conversation.clear();
      continue;
    }
    const InterruptRequest interrupt;
    options.is_interrupted = [&] { return ranks.any(interrupt.is_set()); };
    const serve::Turn turn = conversation.answer(line, options, show);
    if (!ranks.is_first()) continue;
    if (turn.answer.finish_reason != "context") {
      show("\n");
      print_summary(turn);
    }
    print_limit(turn, session, options.max_tokens);
  }
}

void answer(Options& o) {
  double begin = now_ns();
  serve::TextModelFile opened = serve::open_with_tokenizer(o.inference);
  std::optional<serve::ChatFormat> format;
  if (o.chat) format = serve::chat_format(o.chat_format, opened.chat_template);
  const text::Tokenizer& tokenizer = *opened.tokenizer;
  double load_ns = now_ns() - begin;
  auto open = [&](int64_t positions) {
    const SessionNeeds needs{
        .positions = positions, .cached = !o.no_cache, .prefix_caching = o.chat};
    const auto inference = bench::with_attention(o.inference, opened.file.config(), needs);
    return open_model(std::move(opened.file), inference, needs);
  };
  if (o.chat && !o.has_prompt && !o.inference.json && ::isatty(STDIN_FILENO) != 0) {
    auto model = open(kChatPositions);
    serve::Conversation conversation(*model->session, tokenizer, *format, o.system);
    return chat(conversation, *model->session, o.generate, o.inference.ranks);
  }
  const std::string prompt = prompt_text(o);
  serve::Turn turn;
  if (format) {
    std::vector<text::ChatMessage> messages = serve::opening(o.system);
    messages.push_back({"user", prompt});
    turn.prompt = serve::encode_chat(messages, *format, tokenizer);
  } else {
    turn.prompt = tokenizer.encode(prompt, {.add_bos = tokenizer.spec().add_bos});
  }
  begin = now_ns();
  auto model = open(std::ssize(turn.prompt) + o.generate.max_tokens);
  load_ns += now_ns() - begin;
  auto shown = o.inference.json ? std::function<void(std::string_view)>() : show;
  turn.answer = serve::generate(*model->session, tokenizer, turn.prompt, o.generate, shown);
  if (!o.inference.ranks.is_first()) return;
  if (o.inference.json) return print_json(turn, load_ns);
  fmt::print("\n");
  print_summary(turn);
  const int64_t capacity = model->session->options().capacity;
  if (turn.answer.finish_reason == "length" && std::ssize(turn.answer.ids) < o.generate.max_tokens)
    fmt::print(
        stderr, "The context of {} tokens is full, so the text is cut before --max-tokens{}.\n",
        capacity,
        capacity < model->session->config().context ? "; --context allocates a longer one" : "");
}

void run(Options& o) {
  if (o.generate.max_tokens < 0 || o.generate.max_tokens > kMostTokens)
    throw usage_error("[max-tokens] expected 0 to {}, got {}", kMostTokens, o.generate.max_tokens);
  serve::validate(o.generate.sampling);
  const serve::StopText checked(o.generate.stop);
  run_on_ranks(o.inference, [&] { answer(o); });
}

void add_options(Command app, Options& o) {
  add_inference_options(app, o.inference);
  add_shape_options(app, o.inference);
  add_model_rank_options(app, o.inference.ranks);
  app.add_option("--prompt,PROMPT", o.prompt,
                 "the prompt (default: stdin; on a terminal, --chat starts a conversation)");
  app.add_option("--max-tokens", o.generate.max_tokens, "tokens to generate at most");
  app.add_option("--stop", o.generate.stop, "stop at this text (repeatable)").one_value();
  app.add_flag(
      "--chat", o.chat,
      "format the prompt as a user message with the chat template; without a prompt, chat on "
      "the terminal");
  app.add_option("--system", o.system, "with --chat: the system message");
  add_chat_format_options(app, o.chat_format);
  app.add_flag("--no-kv-cache", o.no_cache,
               "recompute the whole sequence for every token (slow; to compare with the cache)");
  serve::SamplingOptions& s = o.generate.sampling;
  app = app.under("Sampling");
  app.add_option("--temperature", s.temperature,
                 "softmax temperature: 0 takes the most likely token, higher is more random");
  app.add_option("--top-k", s.top_k, "sample from the k most likely tokens (0: all)");
  app.add_option("--top-p", s.top_p,
                 "sample from the smallest set with total probability p (0 or 1: all)");
  app.add_option("--min-p", s.min_p, "drop tokens below p times the largest probability (0: none)");
  app.add_option("--repeat-penalty", s.repeat_penalty,
                 "penalize the last 64 tokens: divide positive logits by this, multiply negative "
                 "ones (1: off)");
  app.add_option("--presence-penalty", s.presence_penalty,
                 "subtract this from the logits of tokens that were generated (0: off)");
  app.add_option(
      "--frequency-penalty", s.frequency_penalty,
      "subtract this from the logit of a token each time that it was generated (0: off)");
  app.add_option("--seed", s.seed, "seed of the sampling; the same seed gives the same text");
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
      "  ridge generate SmolLM2-135M-Instruct.Q4_1.gguf --chat      a conversation\n"
      "  ridge generate model.gguf --max-tokens 8 -- \"--threads sets\"      a prompt that begins with -\n"
      "  ridge generate model.gguf --adapter my_adapter \"Once\"      with a LoRA of ridge train --save\n"
      "  ridge generate model/ --json < prompt.txt");
  app.callback([o, app] {
    app.refuse_unused(
        {{!o->chat, "without --chat", {"--system", "--chat-template", "--parse-special"}},
         {o->no_cache, "with --no-kv-cache", {"--cache-dtype"}},
         {o->inference.random_weights, "with --random-weights", {"--adapter"}},
         {o->generate.sampling.temperature == 0,
          "at temperature 0, which takes the most likely token (see --temperature)",
          {"--top-k", "--top-p", "--min-p", "--seed"}}});
    o->has_prompt = app.given("PROMPT");
    run(*o);
  });
}

}  // namespace ridge::apps
