// SPDX-License-Identifier: Apache-2.0
// ridge serve: answers requests of OpenAI's API with a model file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "base/error.h"
#include "base/units.h"
#include "http/api.h"
#include "http/server.h"
#include "report/terminal.h"
#include "serve/shared_steps.h"

namespace ridge::apps {
namespace {

struct Options {
  InferenceOptions inference;
  http::ServerOptions server;
  serve::EngineOptions engine;
  std::optional<int64_t> max_batched_tokens;
  int64_t slots = 8;
  std::string kv_memory;
  std::string name;  // empty: the name of the file
  std::string key_file;
  std::string allowed_hosts;
  serve::ChatFormatOptions chat;
  bool no_page = false;
  bool batch_invariant = false;
};

// A model that is ready to answer. Each member needs those above it.
struct LoadedModel {
  LoadedModel(const Options& o, const TerminalOptions& terminal);

  std::optional<text::Tokenizer> tokenizer;
  std::unique_ptr<OpenModel> model;
  std::unique_ptr<serve::Engine> engine;
  std::optional<http::ServedModel> served;
  std::string no_chat;  // why chats are off; empty if they are not
};

// "models/llama.gguf" is llama, "models/llama/" too.
std::string name_of(const Options& o, const std::filesystem::path& path) {
  if (!o.name.empty()) return o.name;
  const std::filesystem::path last = path.has_filename() ? path : path.parent_path();
  return (last.extension() == ".gguf" ? last.stem() : last.filename()).string();
}

// All ranks open the same session.
std::unique_ptr<OpenModel> open_session(const Options& o, models::ModelFile file) {
  // A step of prompts alone may have no fewer tokens than one in which a sequence decodes.
  serve::InferenceOptions inference = o.inference;
  inference.chunk = std::max(inference.chosen_chunk(), o.max_batched_tokens.value_or(0));
  const int64_t cache_bytes = o.kv_memory.empty() ? 0 : parse_bytes(o.kv_memory, "kv-memory");
  return open_model(std::move(file), inference,
                    {.positions = serve::kServedContext,
                     .slots = o.slots,
                     .prefix_caching = true,
                     .cache_bytes = cache_bytes});
}

LoadedModel::LoadedModel(const Options& o, const TerminalOptions& terminal) {
  serve::TextModelFile opened = serve::open_with_tokenizer(o.inference);
  const std::string name = name_of(o, opened.file.path());
  std::optional<serve::ChatFormat> chat;
  try {
    chat = serve::chat_format(o.chat, opened.chat_template);
  } catch (const Error& error) {
    if (!o.chat.name.empty()) throw;
    no_chat = error.what();  // texts can be completed all the same
  }
  tokenizer = std::move(opened.tokenizer);
  model = open_session(o, std::move(opened.file));
  serve::EngineOptions options = o.engine;
  options.ranks = o.inference.ranks.joined.get();
  const bool tf32 = model->session->options().selection.has("tf32");
  if (auto known = known_ceilings(o.inference.machine, tf32))
    options.ceilings = std::make_shared<const cost::Ceilings>(*std::move(known));
  options.max_batched_tokens = o.max_batched_tokens.value_or(
      serve::suitable_step_tokens(*model->session, options.ceilings.get()));
  std::optional<Progress> progress;
  engine = std::make_unique<serve::Engine>(
      *model->session, *tokenizer, options, [&](int64_t, int64_t all) {
        if (!progress) progress.emplace("recording steps", all, "graphs", terminal);
        progress->tick(1);
      });
  served.emplace(name, *engine, std::move(chat));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string url(const http::ServerOptions& o, int64_t port) {
  const bool is_v6 = o.host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_v6 ? "[" + o.host + "]" : o.host, port);
}

void print_banner(const Options& o, const LoadedModel& loaded, const http::ApiKeys& keys) {
  const serve::SessionOptions& s = loaded.model->session->options();
  const models::ModelConfig& config = loaded.model->file.config();
  const models::CacheShape cache = serve::cache_of(s, config);
  const auto line = [](const char* what, const std::string& text) {
    fmt::print("  {:<8} {}\n", what, terminal_safe(text, kLongestMessage));
  };
  line("model", loaded.served->name());
  line("chat", loaded.no_chat.empty() ? "/v1/chat/completions" : "off: " + loaded.no_chat);
  if (!o.no_page) line("page", "/: a chat, and the engine at work");
  line("slots", fmt::format("{} requests of up to {} positions at once", s.slots,
                            format_integer(s.capacity)));
  line("cache", fmt::format("{} blocks of {} positions, {} in all, {}",
                            format_integer(cache.full.blocks), cache.full.block_tokens,
                            format_integer(cache.full.blocks * cache.full.block_tokens),
                            format_bytes(models::cache_bytes(config, cache))));
  line("steps", fmt::format("up to {} tokens of prompts, {} while others decode", s.chunk,
                            loaded.engine->options().max_batched_tokens));
  const cost::Ceilings* ceilings = loaded.engine->options().ceilings.get();
  if (o.engine.step_ms > 0)
    line("", fmt::format("for {:g} ms by prediction: {} tokens at position 1, {} at {}",
                         o.engine.step_ms, loaded.engine->budget().tokens(1),
                         loaded.engine->budget().tokens(s.capacity), format_integer(s.capacity)));
  line("rates", ceilings != nullptr
                    ? "ceilings " + ceilings->measured_at
                    : "no MFU, MBU or predictions: run `ridge machine` once for the ceilings");
  line("queue", fmt::format("{} requests, more are refused (429)", o.engine.queue));
  line("limits", fmt::format("header {}, body {}, prompt {} tokens, {} connections",
                             format_bytes(o.server.header_bytes), format_bytes(o.server.body_bytes),
                             format_integer(s.capacity), o.server.connections));
  line("time", fmt::format("{} s idle, {} s to send a body, {} s to take a reply", o.server.idle_s,
                           o.server.read_s, o.server.write_s));
  line("keys", keys.empty() ? "none asked for (--api-key-file)" : "asked for");
  if (keys.empty() && !is_loopback(o.server.host))
    line("warning", "everybody who reaches this address can use the model");
}

// A server that only this machine reaches, and that asks for no key, trusts whoever reaches it.
http::AllowedHosts allowed_hosts(const Options& o) {
  if (!o.allowed_hosts.empty()) return http::AllowedHosts(o.allowed_hosts);
  if (!o.key_file.empty() || !is_loopback(o.server.host)) return {};
  return http::AllowedHosts("localhost,*.localhost");
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

void add_switch(std::string& switches, const std::string& more) {
  switches += (switches.empty() ? "" : ",") + more;
}

// A rank that has no HTTP: it runs the first rank's steps until that one ends.
void follow(const Options& o) {
  const auto model = open_session(o, serve::open_with_tokenizer(o.inference).file);
  serve::warm_up(*model->session, [](const serve::Bucket&, int64_t, int64_t) {});
  serve::follow_steps(model->session->runner(), o.inference.ranks.joined->all());
}

void run(Options o, const TerminalOptions& terminal) {
  if (o.batch_invariant) {
    if (is_gpu(o.inference.machine))
      throw usage_error("[batch-invariant] expected a CPU (--device cpu), got a GPU");
    add_switch(o.inference.level.switches, "+batch_invariant");
  }
  join_ranks(o.inference);
  http::validate(o.server);
  if (o.max_batched_tokens) o.engine.max_batched_tokens = *o.max_batched_tokens;
  serve::validate(o.engine);
  const http::ApiKeys keys = o.key_file.empty() ? http::ApiKeys() : http::ApiKeys::read(o.key_file);
  const bool is_first = o.inference.ranks.is_first();
  const InterruptRequest interrupt(
      is_first ? "\nFinishing what is open; a second signal ends it now.\n" : "",
      InterruptRequest::Signals::kAll);
  if (!is_first) return follow(o);
  http::Api api(kProgram, keys, allowed_hosts(o), !o.no_page);
  std::optional<LoadedModel> loaded;  // outlives the server, whose answers refer to it
  http::Server server(api, o.server);
  fmt::print("Listening on {}, loading the model\n", terminal_safe(url(o.server, server.port())));
  loaded.emplace(o, terminal);
  api.open(*loaded->served);
  print_banner(o, *loaded, keys);
  fmt::print("Ready\n");
  while (!interrupt.is_set()) pause();
  api.drain();
  loaded->engine->drain();
  server.drain();
  while (!loaded->engine->is_idle() || server.connections() > 0) pause();
  fmt::print("Stopped after {} requests\n", format_integer(loaded->engine->counts().queue.count));
  if (interrupt.signal() == SIGHUP) end_by_interrupt(SIGHUP);
}

void add_options(Command app, Options& o) {
  add_model_argument(app, o.inference.model);
  add_adapter_option(app, o.inference.adapter);
  add_shape_options(app, o.inference);
  app.add_option("--host", o.server.host, "listen on this address");
  app.add_option("--port", o.server.port, "listen on this TCP port (0: a free one)");
  app.add_option("--model-name", o.name, "the model's name in the API (default: the file's name)");
  app.add_option(
      "--api-key-file", o.key_file,
      "answer only requests with a key of this file, which has one KEY or KEY TENANT per line; "
      "tenants share no cached prefixes (default: no keys)");
  app.add_option("--allowed-hosts", o.allowed_hosts,
                 "answer only requests whose Host and Origin are an address or one of these names: "
                 "a,*.b.org, or * for any (default: localhost, if the server listens on this "
                 "machine alone and asks for no key; else any)");
  app.add_flag("--no-page", o.no_page, "serve only the API, without the live page at /");
  add_chat_format_options(app, o.chat);
  Command batching = app.under("Batching");
  batching.add_option("--max-sequences", o.slots,
                      "max requests at once; more raise the total speed and need more memory");
  batching.add_option(
      "--context", o.inference.context,
      "max tokens of a request, prompt and answer together (default: 2048, or the model's)");
  batching.add_option(
      "--kv-memory", o.kv_memory,
      "memory of the KV cache, which all requests share: 4GiB, 500MB or a number of "
      "bytes; less preempts more often (default: --max-sequences times --context tokens)");
  batching.add_option("--queue", o.engine.queue, "max requests that wait; more are refused (429)");
  batching.add_option(
      "--max-priority", o.engine.most_priority,
      "requests may have priorities from -N to N, smaller ones first, whatever their key");
  batching.add_option(
      "--priority-ms", o.engine.priority_ms,
      "serve a request as if it had come so many ms earlier for each step to a smaller "
      "priority");
  batching.add_option(
      "--max-batched-tokens", o.max_batched_tokens,
      "max tokens per step while a request decodes; lower is smoother, higher prefills "
      "faster, and a --chunk below it grows to it (default: 128 on a CPU; on a GPU what "
      "it computes in 75 ms by prediction, up to 2048)");
  batching.add_option(
      "--max-step-ms", o.engine.step_ms,
      "max predicted time of such a step in ms, which lowers its tokens, to one prompt token at "
      "least; needs the ceilings of `ridge machine` (default: no limit)");
  batching.add_flag(
      "--batch-invariant", o.batch_invariant,
      "make a request's tokens bit-equal to those that it gets alone, whatever shares its steps "
      "(CPUs only); prefill is a tenth slower, one answer alone takes more than twice as long, many "
      "at once lose nothing (short for --pass +batch_invariant)");
  Command limits = app.under("Limits");
  limits.add_option("--max-connections", o.server.connections, "max connections");
  limits.add_option(
      "--max-client-connections", o.server.client_connections,
      "max connections of one client's address; a reverse proxy is one client, so set it "
      "to --max-connections behind one");
  limits.add_option("--max-header-bytes", o.server.header_bytes, "max bytes of a request's header");
  limits.add_option("--max-body-bytes", o.server.body_bytes,
                    "max bytes of a request's body; longer ones are refused (413)");
  limits.add_option(
      "--http-threads", o.server.threads,
      "threads that speak HTTP; more help with hundreds of clients, but take cores from the model");
  Command computing = app.under("Computing");
  add_phase_options(computing, o.inference.chunk, o.inference.exact, o.inference.fast_8bit,
                    o.inference.cache_dtype);
  add_level_option(computing, o.inference.level);
  add_pass_option(computing, o.inference.level);
  add_machine_options(computing, o.inference.machine);
  add_model_rank_options(app, o.inference.ranks);
}

}  // namespace

void register_serve(Command program, const AppContext& context) {
  auto o = std::make_shared<Options>();
  Command app = program.add_subcommand("serve", "Serve a model file by OpenAI's HTTP API");
  add_options(app, *o);
  app.footer(
      "Examples:\n"
      "  ridge serve SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "  ridge serve model.gguf --max-sequences 16 --context 4096 --port 8000\n"
      "  ridge serve model.gguf --batch-invariant             the same answers in any company\n"
      "  ridge serve model.gguf --model-name gpt-4o-mini      for clients with a fixed name\n"
      "  ridge serve llama-2-7b --random-weights --tokenizer model/ --tensor-parallel 2\n"
      "\n"
      "Requests, once the server prints Ready:\n"
      "  curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\",\n"
      "       \"content\": \"Name three rivers.\"}], \"max_tokens\": 64, \"stream\": true}'\n"
      "  curl localhost:8080/v1/completions -d '{\"prompt\": \"Once\", \"temperature\": 0}'\n"
      "  curl localhost:8080/metrics\n"
      "  OPENAI_BASE_URL=http://localhost:8080/v1 OPENAI_API_KEY=any  for the openai package\n"
      "\n"
      "Ctrl-C or SIGTERM refuses new requests and finishes the open ones; a second one ends at "
      "once.");
  app.callback([o, app, &context] {
    app.refuse_unused({{o->inference.random_weights, "with --random-weights", {"--adapter"}}});
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
