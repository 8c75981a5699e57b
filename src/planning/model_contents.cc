// SPDX-License-Identifier: Apache-2.0
// Looks every parameter up in the file.
#include "planning/model_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/split.h"
#include "base/units.h"
#include "models/cache_shape.h"
#include "models/parameter_list.h"
#include "serve/session_choice.h"

namespace ridge::planning {
namespace {

// The requested contexts, or 512, 1024, ... and the model's.
std::vector<int64_t> contexts(const ContentsOptions& o, int64_t most) {
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

std::string format_of(const models::ModelFile& file) {
  return file.is_gguf()
             ? fmt::format("GGUF {}", file.gguf().version())
             : "safetensors in " + counted(std::ssize(file.safetensors().mappings()), "file");
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

}  // namespace

int64_t window_layers(const models::ModelConfig& c) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) count += c.is_window(layer) ? 1 : 0;
  return count;
}

record::ModelContents model_contents(const models::ModelFile& file, const ContentsOptions& o) {
  const models::ModelConfig& config = file.config();
  record::ModelContents made{
      .path = file.path().string(),
      .format = format_of(file),
      .architecture = std::string(models::facts(config.family).name),
      .name = config.name,
      .config = config_rows(config),
      .tensors = &file.tensors(),
      .gguf = file.is_gguf() ? &file.gguf().metadata() : nullptr,
      .safetensors = file.is_gguf() ? nullptr : &file.safetensors().metadata(),
      .cache_dtype = std::string(serve::cache_dtype_name(o.cache_dtype))};
  std::map<std::string, bool> is_read;
  models::WeightLookup lookup = file.lookup();
  for (const models::Parameter& parameter : models::parameters_of(config)) {
    const models::StoredWeight weight = lookup(parameter.name, parameter.shape);
    const files::FileTensor& tensor = file.tensors().at(weight.name);
    is_read[tensor.name] = is_read[weight.order] = true;
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
                                                          .dtype = o.cache_dtype});
    made.memory.push_back({context, models::cache_bytes(config, cache)});
  }
  return made;
}

}  // namespace ridge::planning
