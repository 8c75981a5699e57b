// SPDX-License-Identifier: Apache-2.0
// ridge inspect: shows the contents of a model file and the memory that the model needs. Runs
// nothing.
#include <fmt/format.h>

#include <memory>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "planning/model_contents.h"
#include "report/command_text.h"

namespace ridge::apps {
namespace {

struct InspectOptions {
  std::string model;
  planning::ContentsOptions contents;
  std::string cache_dtype;
  bool json = false;
};

}  // namespace

void register_inspect(Command program, const AppContext& context) {
  auto o = std::make_shared<InspectOptions>();
  Command app = program.add_subcommand(
      "inspect", "Show the contents of a model file and the memory that the model needs");
  add_model_argument(app, o->model);
  app.add_option(
         "--context", o->contents.contexts,
         "tokens of context whose memory is shown: 1024,4096 (default: powers of two up to the model's)")
      .numbers();
  app.add_option(
      "--chunk", o->contents.chunk,
      "tokens of a prompt that one prefill run computes: a sliding-window layer keeps as "
      "many positions more");
  app.add_option(
      "--cache-dtype", o->cache_dtype,
      "type of the keys and values in the KV cache: fp32, bf16, i8 or fp8 (default: fp32)");
  app.add_json_flag(o->json);
  app.footer(
      "Checks that the file has every tensor that the model reads, in the right shape.\n"
      "Examples:\n"
      "  ridge inspect gemma-3-270m-q4_k_m.gguf\n"
      "  ridge inspect model/ --context 2048,8192\n"
      "  ridge inspect model.gguf --json | jq '.types, .memory'");
  app.callback([o, app, &context] {
    if (o->contents.chunk < 1)
      throw usage_error("[chunk] expected at least 1 token, got {}", o->contents.chunk);
    o->contents.cache_dtype = serve::parse_cache_dtype(o->cache_dtype).value_or(DType::kF32);
    const models::ModelFile file = models::ModelFile::open(o->model);
    app.refuse_unused({{planning::window_layers(file.config()) == 0,
                        "without sliding-window layers",
                        {"--chunk"}}});
    const record::ModelContents made = planning::model_contents(file, o->contents);
    if (o->json)
      fmt::print("{}\n", report::contents_json(made).dump(2));
    else
      fmt::print("{}", report::contents_text(made, context.terminal));
  });
}

}  // namespace ridge::apps
