// SPDX-License-Identifier: Apache-2.0
// ridge inspect: shows the contents of a model file and the memory that the model needs. Runs
// nothing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "models/cache_shape.h"
#include "models/model_file.h"
#include "models/parameter_list.h"
#include "report/model_contents.h"

namespace ridge::apps {
namespace {

struct InspectOptions {
  std::string model;
  std::string contexts;
  int64_t chunk = 512;
  std::string cache_dtype;
  bool json = false;
};

// The requested contexts, or 512, 1024, ... and the model's.
std::vector<int64_t> contexts(const InspectOptions& o, int64_t most) {
  std::vector<int64_t> list;
  if (!o.contexts.empty()) {
    list = parse_sizes(o.contexts, "context");
    for (int64_t context : list)
      if (context > most)
        throw usage_error("[context] expected 1 to {} positions, the model's context, got {}", most,
                          context);
    return list;
  }
  for (int64_t context = 512; context < most; context *= 2) list.push_back(context);
  list.push_back(most);
  return list;
}

int64_t window_layers(const models::ModelConfig& c) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) count += c.is_window(layer) ? 1 : 0;
  return count;
}

std::string format_of(const models::ModelFile& file) {
  return file.is_gguf()
             ? fmt::format("GGUF {}", file.gguf().version())
             : fmt::format("safetensors in {} file{}", file.safetensors().mappings().size(),
                           file.safetensors().mappings().size() == 1 ? "" : "s");
}

record::ModelContents::Config config_rows(const models::ModelConfig& c) {
  record::ModelContents::Config rows{
      {"layers", c.layers},
      {"hidden", c.hidden},
      {"heads", c.heads},
      {"kv_heads", c.kv_heads},
      {"head_size", c.head_size},
      {"feed_forward", c.feed_forward},
      {"vocabulary", c.vocabulary},
      {"context", c.context},
      {"window", c.window},
      {"window_layers", window_layers(c)},
      {"tied_head", c.tied_head},
      {"qkv_bias", c.qkv_bias},
      {"output_bias", c.output_bias},
      {"mlp_bias", c.mlp_bias},
      {"norm_eps", c.norm_eps},
      {"rope_theta", c.rope_theta},
      {"rope_scaling", c.rope_scaling.kind.empty() ? std::string("none") : c.rope_scaling.kind},
      {"rope_factor", c.rope_scaling.factor}};
  if (window_layers(c) > 0) rows.emplace_back("window_rope_theta", c.window_rope_theta);
  return rows;
}

// Throws a bad-file Error for the first tensor that is missing or has another shape.
record::ModelContents inspect(const InspectOptions& o,
                              const Command& app,
                              DType cache_dtype,
                              const models::ModelFile& file) {
  const models::ModelConfig& config = file.config();
  app.refuse_unused({{window_layers(config) == 0, "without sliding-window layers", {"--chunk"}}});
  record::ModelContents made{
      .path = file.path().string(),
      .format = format_of(file),
      .architecture = std::string(models::facts(config.family).name),
      .name = config.name,
      .config = config_rows(config),
      .tensors = &file.tensors(),
      .gguf = file.is_gguf() ? &file.gguf().metadata() : nullptr,
      .safetensors = file.is_gguf() ? nullptr : &file.safetensors().metadata(),
      .cache_dtype = std::string(serve::cache_dtype_name(cache_dtype))};
  std::map<std::string, bool> is_read;
  models::WeightLookup lookup = file.lookup();
  for (const models::Parameter& parameter : models::parameters_of(config)) {
    const files::FileTensor& tensor =
        file.tensors().at(lookup(parameter.name, parameter.shape).name);
    is_read[tensor.name] = true;
    made.parameters += tensor.shape.elements();
    made.weight_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  for (const files::FileTensor& tensor : file.tensors().all()) {
    record::ModelContents::TypeTotal& type = made.types[std::string(name(tensor.dtype))];
    type.tensors += 1;
    type.elements += tensor.shape.elements();
    type.bytes += static_cast<int64_t>(tensor.bytes.size());
    if (!is_read.contains(tensor.name)) made.unread.push_back(tensor.name);
  }
  for (int64_t context : contexts(o, config.context)) {
    const models::CacheShape cache = models::cache_shape({.capacity = context,
                                                          .window = config.window,
                                                          .chunk = std::min(o.chunk, context),
                                                          .dtype = cache_dtype});
    made.memory.push_back({context, models::cache_bytes(config, cache)});
  }
  return made;
}

}  // namespace

void register_inspect(Command program, const AppContext& context) {
  auto o = std::make_shared<InspectOptions>();
  Command app = program.add_subcommand(
      "inspect", "Show the contents of a model file and the memory that the model needs");
  add_model_argument(app, o->model);
  app.add_option(
         "--context", o->contexts,
         "tokens of context whose memory is shown: 1024,4096 (default: powers of two up to the model's)")
      .numbers();
  add_chunk_option(app, o->chunk);
  app.add_option("--cache-dtype", o->cache_dtype,
                 "type of the keys and values in the KV cache: fp32, bf16 or i8 (default: fp32)");
  app.add_json_flag(o->json);
  app.footer(
      "Checks that the file has every tensor that the model reads, in the right shape.\n"
      "Examples:\n"
      "  ridge inspect gemma-3-270m-q4_k_m.gguf\n"
      "  ridge inspect model/ --context 2048,8192\n"
      "  ridge inspect model.gguf --json | jq '.types, .memory'");
  app.callback([o, app, &context] {
    if (o->chunk < 1) throw usage_error("[chunk] expected at least 1 token, got {}", o->chunk);
    const DType cache_dtype = serve::parse_cache_dtype(o->cache_dtype).value_or(DType::kF32);
    const models::ModelFile file = models::ModelFile::open(o->model);
    const record::ModelContents made = inspect(*o, app, cache_dtype, file);
    if (o->json)
      fmt::print("{}\n", report::contents_json(made).dump(2));
    else
      fmt::print("{}", report::contents_text(made, context.terminal));
  });
}

}  // namespace ridge::apps
