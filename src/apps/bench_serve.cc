// SPDX-License-Identifier: Apache-2.0
// ridge bench serve URL: load on any server of OpenAI's completions, and what its clients see.
// Not a subcommand.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <random>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/split.h"
#include "files/mapped_file.h"
#include "http/load_summary.h"
#include "report/command_text.h"

namespace ridge::apps {
namespace {

constexpr uint32_t kMostDrawnSeed = 1'000'000;  // short enough to type again

struct Options {
  std::string url;
  http::LoadOptions load;
  std::string prompt = "128", output = "64", slo, key_file;
  std::optional<int64_t> seed;
  bool json = false;
};

// Returns the first line of `ridge serve`'s --api-key-file that is a key.
std::string first_key(const std::string& path) {
  constexpr size_t kLargest = 1 << 20;
  for (std::string line : split(files::read_small_file(path, kLargest), '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') return line;
  }
  throw file_error("[{}] expected a key, got none", path);
}

void run(Options o, const AppContext& context) {
  const http::Url url = http::Url::parse(o.url);
  const http::Promise promise = http::Promise::parse(o.slo);
  o.load.prompt = http::Lengths::parse(o.prompt, "prompt-tokens");
  o.load.output = http::Lengths::parse(o.output, "tokens");
  // Prompts of an earlier run would measure the server's prefix cache.
  if (!o.seed) o.seed = std::random_device()() % kMostDrawnSeed;
  if (*o.seed < 0 || *o.seed > UINT32_MAX)
    throw usage_error("[seed] expected a number from 0 to {}, got {}", UINT32_MAX, *o.seed);
  o.load.seed = static_cast<uint32_t>(*o.seed);
  // Four rounds of all clients, if nothing else is said.
  if (o.load.requests == 0 && o.load.seconds == 0) o.load.requests = 4 * o.load.clients;
  http::validate(o.load);
  if (!o.key_file.empty()) o.load.api_key = first_key(o.key_file);
  Progress progress("load", o.load.requests, "requests", context.terminal);
  const http::LoadResult result = http::run_load(url, o.load, [&] { progress.tick(1, ""); });
  progress.hide();
  record::LoadSummary summary = http::summarize_load(result, promise);
  summary.url = o.url;
  summary.clients = o.load.clients;
  summary.rate = o.load.rate;
  summary.prompt = o.prompt;
  summary.output = o.output;
  summary.shared_prefix = o.load.shared_prefix;
  summary.seed = *o.seed;
  summary.slo = o.slo;
  fmt::print("{}", o.json ? report::json_text(report::load_json(summary))
                          : report::load_text(summary, context.terminal));
  if (summary.completed == 0) throw runtime_error("[url] no request was completed");
}

}  // namespace

void add_bench_serve(Command bench, const AppContext& context) {
  auto o = std::make_shared<Options>();
  Command app = bench.add_subcommand(
      "serve", "Measure a server of OpenAI's API under load (ridge serve, vLLM ...)");
  app.add_option("URL", o->url, "http://HOST:PORT, without /v1").required();
  app.add_option("--model", o->load.model, "the model to ask for (default: the server's first)");
  app.add_option("--api-key-file", o->key_file,
                 "send the first key of this file (default: no key)");
  Command load = app.under("Load");
  load.add_option(
      "--clients", o->load.clients,
      "closed loop: number of clients, each with one request at a time; shows the most that the "
      "server does");
  Option rate = load.add_option(
      "--rate", o->load.rate,
      "open loop instead: requests per second, sent at random times (Poisson) "
      "whether or not others have ended; shows latencies under real load (default: a closed loop)");
  load.add_option("--requests", o->load.requests,
                  "total number of requests (default: 4 per client, or no limit with --seconds)");
  load.add_option("--seconds", o->load.seconds,
                  "send requests for this many seconds (default: no limit)");
  load.add_option("-p,--prompt-tokens", o->prompt,
                  "words of a prompt, about one token each: 128, 64-256 (uniform) or exp:128 "
                  "(exponential)");
  load.add_option("-n,--tokens", o->output,
                  "tokens of an answer: 64, 16-128 (uniform) or exp:64 (exponential)");
  load.add_option("--shared-prefix", o->load.shared_prefix,
                  "words that all prompts begin with, part of their length");
  load.add_option("--temperature", o->load.temperature,
                  "softmax temperature of all requests (0: the most likely tokens)");
  load.add_option(
      "--seed", o->seed,
      "seed of prompts, lengths and times; the same seed sends the same prompts, which a "
      "server may keep in its prefix cache (default: another one each time, which the "
      "result names)");
  load.add_option("--timeout", o->load.silence_s,
                  "seconds without a byte after which a request counts as failed");
  Command output = app.under("Output");
  output.add_option("--slo", o->slo,
                    "promised latencies, as ttft=500ms,tpot=50ms,e2e=10s; goodput counts the "
                    "requests that keep them");
  output.add_json_flag(o->json);
  app.footer(
      "Examples:\n"
      "  ridge bench serve http://localhost:8080 --clients 16 --requests 100\n"
      "  ridge bench serve http://localhost:8080 --rate 2 --seconds 60 -p exp:256 -n 32-128 \\\n"
      "      --slo ttft=500ms,tpot=50ms --json");
  app.callback([o, app, rate, &context] {
    app.refuse_unused({{rate.given(), "with --rate", {"--clients"}}});
    run(*o, context);
  });
}

}  // namespace ridge::apps
