// SPDX-License-Identifier: Apache-2.0
// ridge convert: writes a model in another format or with other element types.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "apps/subcommand.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "base/units.h"
#include "models/convert.h"
#include "models/stored_types.h"

namespace ridge::apps {
namespace {

struct ConvertArguments {
  std::string in, out, type, adapter;
  int64_t max_shard_mib = 5 << 10;
  bool force = false;
  bool random_weights = false;
  uint64_t seed = 0;
};

constexpr int64_t kMostShardMib = int64_t{1} << 30;

bool writes_gguf(const ConvertArguments& o) {
  return std::filesystem::path(o.out).extension() == ".gguf";
}

void run(const ConvertArguments& o, const TerminalOptions& terminal) {
  const std::filesystem::path out(o.out);
  const bool to_gguf = writes_gguf(o);
  models::ConvertOptions options;
  if (!o.type.empty()) {
    options.type = parse_dtype(o.type);
    if (!options.type)
      throw usage_error("[type] expected one of {}, got {}", models::convertible_types(to_gguf),
                        printable(o.type));
  }
  if (o.max_shard_mib < 1 || o.max_shard_mib > kMostShardMib)
    throw usage_error("[max-shard] expected 1 to {} MiB, got {}", kMostShardMib, o.max_shard_mib);
  options.max_shard_bytes = o.max_shard_mib << 20;
  options.seed = o.seed;
  start_openmp_threads();
  std::error_code error;
  if (to_gguf && !o.force && std::filesystem::exists(out, error))
    throw usage_error("[out] {} exists; --force replaces it", out.string());
  if (std::filesystem::equivalent(o.in, out, error))
    throw usage_error("[out] expected another path than that of the model to convert, got {}",
                      printable(o.out));
  models::ModelFile file =
      o.random_weights ? models::ModelFile::open_shape(o.in) : models::ModelFile::open(o.in);
  std::optional<models::Adapter> adapter;
  if (!o.adapter.empty()) options.adapter = &adapter.emplace(models::Adapter::open(o.adapter));
  std::optional<Progress> bar;
  options.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar.emplace("convert", total, "bytes", terminal);
    bar->reach(done);
  };
  models::ConvertResult made = to_gguf ? models::convert_to_gguf(file, out, options)
                                       : models::convert_to_folder(file, out, options);
  bar.reset();
  for (const std::string& note : made.notes)
    fmt::print(stderr, "note: {}\n", terminal_safe(note, kLongestMessage));
  fmt::print("Wrote {} ({} tensors, {}).\n", terminal_safe((to_gguf ? out : out / "").string()),
             made.tensors, format_bytes(made.bytes));
}

}  // namespace

void register_convert(Command program, const AppContext& context) {
  auto o = std::make_shared<ConvertArguments>();
  Command app = program.add_subcommand(
      "convert", "Write a model in another format or with other element types");
  app.add_option("IN", o->in, "a .gguf file, or a folder with config.json and safetensors")
      .required();
  app.add_option("OUT", o->out,
                 "NAME.gguf writes GGUF for llama.cpp; any other name is a folder for transformers")
      .required();
  app.add_option(
      "--type", o->type,
      fmt::format(
          "type of the matrices: {}; fewer bits are smaller and faster, more are closer to the "
          "original (default: as stored; for a folder one of the last three)",
          models::convertible_types(true)));
  app.add_option(
      "--adapter", o->adapter,
      "merge this LoRA adapter of ridge train or PEFT: a folder with adapter_config.json");
  app.add_flag(
      "--random-weights", o->random_weights,
      "draw random weights, to measure times; IN is a config.json, a folder that contains one, or a "
      "shape by its name, like llama-2-7b (ridge plan --help lists them)");
  app.add_option("--seed", o->seed, "seed of random weights; the same seed gives the same file");
  app.add_option("--max-shard", o->max_shard_mib, "maximum size of a .safetensors file, in MiB");
  app.add_flag("--force", o->force, "replace an existing .gguf file");
  app.footer(
      "A failed conversion leaves nothing behind. GGUF files hold vectors in fp32 and the output\n"
      "matrix in at least q6_k or q8_0. If a matrix's rows are not whole blocks, it gets the\n"
      "next type with shorter blocks. Random weights are for measuring times: norms are 1, other\n"
      "weights normal with standard deviation 0.02.\n"
      "Examples:\n"
      "  ridge convert model/ model-q4_k.gguf --type q4_k\n"
      "  ridge convert gemma-3-270m-q4_k_m.gguf gemma/ --type bf16\n"
      "  ridge convert SmolLM2-135M-Instruct.Q4_1.gguf smol-q4_0.gguf --type q4_0\n"
      "  ridge convert model/ --adapter my_adapter/ merged/\n"
      "  ridge convert --random-weights llama-2-7b random.gguf --type q4_k");
  app.callback([o, app, &context] {
    const bool to_gguf = writes_gguf(*o);
    app.refuse_unused({{to_gguf, "with a .gguf file as output", {"--max-shard"}},
                       {!to_gguf, "with a folder as output", {"--force"}},
                       {!o->random_weights, "without --random-weights", {"--seed"}},
                       {o->random_weights, "with --random-weights", {"--adapter"}}});
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
