// SPDX-License-Identifier: Apache-2.0
// ridge bench serve URL: load on any server of OpenAI's completions, and what its clients see.
// Not a subcommand.
#include "apps/bench_serve.h"

#include <fmt/format.h>

#include <memory>

#include "apps/environment.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/units.h"
#include "files/mapped_file.h"
#include "http/load_summary.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

struct Options {
  std::string url;
  http::LoadOptions load;
  std::string prompt = "128", output = "64", slo, key_file;
  int64_t seed = 1;
  bool json = false;
};

// Of `ridge serve`'s --api-key-file: the first line that is a key.
std::string first_key(const std::string& path) {
  constexpr size_t kLargest = 1 << 20;
  const std::string text = files::read_small_file(path, kLargest);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') return line;
    begin = end + 1;
  }
  throw file_error("[{}] expected a key, got none", path);
}

std::string shape_of(const http::LoadOptions& o) {
  return o.rate > 0 ? fmt::format("open loop, {} requests/s (Poisson)", o.rate)
                    : fmt::format("closed loop, {} client{}", o.clients, o.clients == 1 ? "" : "s");
}

std::string table_text(const http::LoadSummary& s, const TerminalOptions& terminal) {
  Table table({{"latency", Align::kLeft}, {"mean"}, {"p50"}, {"p90"}, {"p99"}, {"count"}});
  const auto add = [&](const char* name, const http::Percentiles& p) {
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

report::Json json_of(const http::Percentiles& p) {
  return {{"count", p.count},
          {"mean_ns", p.mean},
          {"p50_ns", p.p50},
          {"p90_ns", p.p90},
          {"p99_ns", p.p99}};
}

report::Json json_of(const Options& o, const std::string& model, const http::LoadSummary& s) {
  report::Json json = {{"url", o.url},
                       {"model", model},
                       {"clients", o.load.rate > 0 ? report::Json() : report::Json(o.load.clients)},
                       {"rate", o.load.rate > 0 ? report::Json(o.load.rate) : report::Json()},
                       {"prompt", o.prompt},
                       {"output", o.output},
                       {"shared_prefix", o.load.shared_prefix},
                       {"seed", o.seed},
                       {"wall_ns", s.wall_ns},
                       {"completed", s.completed},
                       {"failed", s.failed},
                       {"prompt_tokens", s.prompt_tokens},
                       {"output_tokens", s.output_tokens},
                       {"requests_per_s", s.per_s(s.completed)},
                       {"prompt_tokens_per_s", s.per_s(s.prompt_tokens)},
                       {"output_tokens_per_s", s.per_s(s.output_tokens)},
                       {"ttft", json_of(s.ttft)},
                       {"tpot", json_of(s.tpot)},
                       {"itl", json_of(s.itl)},
                       {"e2e", json_of(s.e2e)},
                       {"slo", o.slo.empty() ? report::Json() : report::Json(o.slo)},
                       {"errors", report::Json::object()}};
  if (!o.slo.empty()) {
    json["within_slo"] = s.kept;
    json["goodput_requests_per_s"] = s.per_s(s.kept);
  }
  for (const auto& [error, count] : s.errors) json["errors"][error] = count;
  return json;
}

void print_summary(const Options& o,
                   const std::string& model,
                   const http::LoadSummary& s,
                   const TerminalOptions& terminal) {
  fmt::print("{}\n", wrap_lines(fmt::format("{} at {}: {}, prompts of {} words, {} tokens each",
                                            terminal_safe(model), terminal_safe(o.url),
                                            shape_of(o.load), o.prompt, o.output),
                                terminal.columns));
  fmt::print("{}\n", table_text(s, terminal));
  fmt::print(
      "{} requests in {}, {} failed: {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} prompt "
      "tokens/s\n",
      format_integer(s.completed), format_ns(s.wall_ns), format_integer(s.failed),
      s.per_s(s.completed), s.per_s(s.output_tokens), s.per_s(s.prompt_tokens));
  const int64_t all = s.completed + s.failed;
  if (!o.slo.empty() && all > 0)
    fmt::print("goodput under {}: {:.2f} requests/s ({:.0f}% of requests)\n", o.slo,
               s.per_s(s.kept), 100 * static_cast<double>(s.kept) / static_cast<double>(all));
  for (const auto& [error, count] : s.errors)
    fmt::print("failed {} times: {}\n", count, terminal_safe(error, kLongestMessage));
}

void run(Options o, const AppContext& context) {
  const http::Url url = http::Url::parse(o.url);
  const http::Promise promise = http::Promise::parse(o.slo);
  o.load.prompt = http::Lengths::parse(o.prompt, "prompt-tokens");
  o.load.output = http::Lengths::parse(o.output, "tokens");
  if (o.seed < 0 || o.seed > UINT32_MAX)
    throw usage_error("[seed] expected a number from 0 to {}, got {}", UINT32_MAX, o.seed);
  o.load.seed = static_cast<uint32_t>(o.seed);
  // Four rounds of all clients, if nothing else is said.
  if (o.load.requests == 0 && o.load.seconds == 0) o.load.requests = 4 * o.load.clients;
  http::validate(o.load);
  if (!o.key_file.empty()) o.load.api_key = first_key(o.key_file);
  Progress progress("load", o.load.requests, "requests", context.terminal);
  const http::LoadResult result = http::run_load(url, o.load, [&] { progress.tick(1, ""); });
  progress.hide();
  const http::LoadSummary summary = http::summarize_load(result, promise);
  if (o.json)
    fmt::print("{}", report::json_text(json_of(o, result.model, summary)));
  else
    print_summary(o, result.model, summary, context.terminal);
  if (summary.completed == 0) throw runtime_error("[url] no request was completed");
}

}  // namespace

void add_bench_serve(Command bench, const AppContext& context) {
  auto o = std::make_shared<Options>();
  Command app = bench.add_subcommand(
      "serve", "Measure a server of OpenAI's API under load (ridge serve, llama-server, vLLM ...)");
  app.add_option("URL", o->url, "http://HOST:PORT, without /v1").required();
  app.add_option("--model", o->load.model, "the model to ask for (default: the server's first)");
  app.add_option("--api-key-file", o->key_file, "show the first key of this file");
  Command load = app.under("Load");
  load.add_option("--clients", o->load.clients,
                  "closed loop: so many clients, each with one request at a time")
      .show_default();
  Option rate = load.add_option("--rate", o->load.rate,
                                "open loop: so many requests a second at random times (Poisson), "
                                "whether others have ended or not");
  load.add_option("--requests", o->load.requests,
                  "requests in all (default: 4 for each client, or no limit with --seconds)");
  load.add_option("--seconds", o->load.seconds, "send no request after this time");
  load.add_option("-p,--prompt-tokens", o->prompt,
                  "words of a prompt, about one token each: 128, 64-256 (uniform) or exp:128 "
                  "(exponential)")
      .show_default();
  load.add_option("-n,--tokens", o->output, "tokens of an answer, in the same way").show_default();
  load.add_option("--shared-prefix", o->load.shared_prefix,
                  "words that all prompts begin with, part of their length")
      .show_default();
  load.add_option("--temperature", o->load.temperature, "of all requests").show_default();
  load.add_option("--seed", o->seed, "the same seed sends the same prompts").show_default();
  load.add_option("--timeout", o->load.silence_s,
                  "seconds without a byte after which a request failed")
      .show_default();
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
