// SPDX-License-Identifier: Apache-2.0
// ridge inspect: shows the contents of a model file and the memory that the model needs. Runs
// nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/inference_options.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "models/cache_shape.h"
#include "models/model_file.h"
#include "models/parameter_list.h"

namespace ridge::apps {
namespace {

using nlohmann::ordered_json;

struct InspectOptions {
  std::string model;
  std::string contexts;
  int64_t chunk = 512;
  std::string cache_dtype;
  bool json = false;
};

struct MemoryNeed {
  int64_t context;
  int64_t cache_bytes;
};

struct TypeTotal {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

struct Inspection {
  models::ModelFile file;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // of the tensors that the model reads, as stored
  std::map<std::string, TypeTotal> types;
  std::vector<std::string> unread;  // tensors that the model does not read
  std::vector<MemoryNeed> memory;
  DType cache_dtype = DType::kF32;

  double bits_per_weight() const {
    return 8.0 * static_cast<double>(weight_bytes) / static_cast<double>(parameters);
  }
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

// Throws a bad-file Error for the first tensor that is missing or has another shape.
Inspection inspect(const InspectOptions& o, const Command& app) {
  if (o.chunk < 1) throw usage_error("[chunk] expected at least 1 token, got {}", o.chunk);
  Inspection made;
  made.cache_dtype = parse_cache_dtype(o.cache_dtype).value_or(DType::kF32);
  made.file = models::ModelFile::open(o.model);
  const models::ModelConfig& config = made.file.config();
  app.refuse_unused({{window_layers(config) == 0, "without sliding-window layers", {"--chunk"}}});
  std::map<std::string, bool> is_read;
  models::WeightLookup lookup = made.file.lookup();
  for (const models::Parameter& parameter : models::parameters_of(config)) {
    const files::FileTensor& tensor =
        made.file.tensors().at(lookup(parameter.name, parameter.shape).name);
    is_read[tensor.name] = true;
    made.parameters += tensor.shape.elements();
    made.weight_bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  for (const files::FileTensor& tensor : made.file.tensors().all()) {
    TypeTotal& type = made.types[std::string(name(tensor.dtype))];
    type.tensors += 1;
    type.elements += tensor.shape.elements();
    type.bytes += static_cast<int64_t>(tensor.bytes.size());
    if (!is_read.contains(tensor.name)) made.unread.push_back(tensor.name);
  }
  for (int64_t context : contexts(o, config.context)) {
    const models::CacheShape cache = models::cache_shape({.capacity = context,
                                                          .window = config.window,
                                                          .chunk = std::min(o.chunk, context),
                                                          .dtype = made.cache_dtype});
    made.memory.push_back({context, models::cache_bytes(config, cache)});
  }
  return made;
}

std::string format_of(const models::ModelFile& file) {
  return file.is_gguf()
             ? fmt::format("GGUF {}", file.gguf().version())
             : fmt::format("safetensors in {} file{}", file.safetensors().mappings().size(),
                           file.safetensors().mappings().size() == 1 ? "" : "s");
}

ordered_json config_json(const models::ModelConfig& c) {
  ordered_json json{{"layers", c.layers},
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
                    {"rope_scaling", c.rope_scaling.kind.empty() ? "none" : c.rope_scaling.kind},
                    {"rope_factor", c.rope_scaling.factor}};
  if (window_layers(c) > 0) json["window_rope_theta"] = c.window_rope_theta;
  return json;
}

ordered_json metadata_json(const models::ModelFile& file) {
  ordered_json json = ordered_json::object();
  auto text = [](std::string_view key) { return terminal_safe(key, kWholeText); };
  if (!file.is_gguf()) {
    for (const auto& [key, value] : file.safetensors().metadata()) json[text(key)] = text(value);
    return json;
  }
  const files::GgufMetadata& metadata = file.gguf().metadata();
  for (std::string_view key : metadata.keys()) {
    const files::GgufEntry& entry = *metadata.find(key);
    ordered_json& value = json[text(key)];
    if (entry.type == files::GgufType::kString)
      value = text(metadata.string(key));
    else if (entry.type == files::GgufType::kBool)
      value = metadata.boolean(key);
    else if (entry.type == files::GgufType::kArray)
      value = {{"type", files::name(entry.element_type)}, {"count", entry.count}};
    else  // JSON has no nan, so the parser discards it
      value = ordered_json::parse(metadata.describe(entry), nullptr, false);
    if (value.is_discarded()) value = metadata.describe(entry);
  }
  return json;
}

void print_json(const Inspection& made) {
  const models::ModelFile& file = made.file;
  ordered_json json{{"file", terminal_safe(file.path().string(), kWholeText)},
                    {"format", format_of(file)},
                    {"architecture", models::facts(file.config().family).name},
                    {"name", terminal_safe(file.config().name, kWholeText)},
                    {"parameters", made.parameters},
                    {"weight_bytes", made.weight_bytes},
                    {"bits_per_weight", made.bits_per_weight()},
                    {"config", config_json(file.config())}};
  for (const auto& [type, total] : made.types)
    json["types"][type] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  json["cache_dtype"] = cache_dtype_name(made.cache_dtype);
  json["memory"] = ordered_json::array();
  for (const MemoryNeed& need : made.memory)
    json["memory"].push_back({{"context", need.context},
                              {"weight_bytes", made.weight_bytes},
                              {"kv_cache_bytes", need.cache_bytes},
                              {"total_bytes", made.weight_bytes + need.cache_bytes}});
  json["metadata"] = metadata_json(file);
  json["tensors"] = ordered_json::array();
  for (const files::FileTensor& tensor : file.tensors().all())
    json["tensors"].push_back({{"name", terminal_safe(tensor.name, kWholeText)},
                               {"type", name(tensor.dtype)},
                               {"shape", tensor.shape.to_vector()},
                               {"bytes", tensor.bytes.size()}});
  json["unread_tensors"] = ordered_json::array();
  for (const std::string& tensor : made.unread)
    json["unread_tensors"].push_back(terminal_safe(tensor, kWholeText));
  fmt::print("{}\n", json.dump(2));
}

// "blk.*.attn_q.weight": all layers share one row.
std::string without_layer(const std::string& name) {
  size_t begin = name.find_first_of("0123456789");
  if (begin == std::string::npos || begin == 0 || name[begin - 1] != '.') return name;
  size_t end = name.find_first_not_of("0123456789", begin);
  return end == std::string::npos || name[end] != '.'
             ? name
             : name.substr(0, begin) + "*" + name.substr(end);
}

std::string tensor_table(const files::TensorTable& tensors, const TerminalOptions& terminal) {
  struct Row {
    std::string name, type, shape;
    int64_t count = 0, bytes = 0;
  };
  std::vector<Row> rows;
  std::map<std::string, size_t> places;
  for (const files::FileTensor& tensor : tensors.all()) {
    Row row{without_layer(tensor.name), std::string(name(tensor.dtype)), tensor.shape.str()};
    auto [place, fresh] =
        places.emplace(fmt::format("{}\n{}\n{}", row.name, row.type, row.shape), rows.size());
    if (fresh) rows.push_back(row);
    rows[place->second].count += 1;
    rows[place->second].bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  Table table({{"tensor", Align::kLeft},
               {"type", Align::kLeft},
               {"shape"},
               {"count"},
               {"bytes"},
               {"share"}});
  for (const Row& row : rows)
    table.add({terminal_safe(row.name), row.type, row.shape, fmt::to_string(row.count),
               format_bytes(row.bytes),
               fmt::format("{:.1f}%", 100 * static_cast<double>(row.bytes) /
                                          static_cast<double>(tensors.bytes()))});
  return table.text(terminal);
}

std::string metadata_table(const models::ModelFile& file, const TerminalOptions& terminal) {
  Table table({{"key", Align::kLeft}, {"value", Align::kLeft}});
  auto add = [&](std::string_view key, std::string_view value) {
    constexpr size_t kShown = 72;
    std::string text = terminal_safe(value.substr(0, kShown));
    table.add({terminal_safe(key), value.size() > kShown ? text + "..." : text});
  };
  if (file.is_gguf()) {
    const files::GgufMetadata& metadata = file.gguf().metadata();
    for (std::string_view key : metadata.keys())
      add(key, metadata.describe(*metadata.find(key), 3));
  } else {
    for (const auto& [key, value] : file.safetensors().metadata()) add(key, value);
  }
  return table.text(terminal);
}

void print_text(const Inspection& made, const TerminalOptions& terminal) {
  const models::ModelFile& file = made.file;
  const models::ModelConfig& c = file.config();
  fmt::print("{}: {}, {} {}\n", terminal_safe(file.path().string()), format_of(file),
             models::facts(c.family).name, printable(c.name));
  fmt::print("{} parameters, {} of weights, {:.2f} bits each\n\n", format_integer(made.parameters),
             format_bytes(made.weight_bytes), made.bits_per_weight());
  const ordered_json config = config_json(c);
  for (const auto& [key, value] : config.items())
    fmt::print("  {:<18}{}\n", terminal_safe(key),
               value.is_string() ? terminal_safe(value.get<std::string>()) : value.dump());
  Table types({{"type", Align::kLeft}, {"tensors"}, {"elements"}, {"bytes"}});
  for (const auto& [type, total] : made.types)
    types.add({type, fmt::to_string(total.tensors), format_integer(total.elements),
               format_bytes(total.bytes)});
  fmt::print("\n{}\n{}\n{}", types.text(terminal), tensor_table(file.tensors(), terminal),
             metadata_table(file, terminal));
  for (const std::string& tensor : made.unread)
    fmt::print("The model does not read {}.\n", printable(tensor));
  Table memory({{"context"}, {"weights"}, {"KV cache"}, {"total"}});
  for (const MemoryNeed& need : made.memory)
    memory.add({format_integer(need.context), format_bytes(made.weight_bytes),
                format_bytes(need.cache_bytes),
                format_bytes(made.weight_bytes + need.cache_bytes)});
  fmt::print(
      "\n{}{}",
      wrap_lines(
          fmt::format("Memory for one sequence. Keys and values are in {}{}; a "
                      "sliding-window layer holds window + chunk - 1 positions.",
                      cache_dtype_name(made.cache_dtype),
                      made.cache_dtype == DType::kI8 ? " with a scale per head and position" : ""),
          terminal.columns),
      memory.text(terminal));
}

}  // namespace

void register_inspect(Command program, const AppContext& context) {
  auto o = std::make_shared<InspectOptions>();
  Command app = program.add_subcommand(
      "inspect", "Show the contents of a model file and the memory that the model needs");
  add_model_argument(app, o->model);
  app.add_option("--context", o->contexts,
                 "context lengths: 1024,4096 (default: powers of two up to the model's)")
      .numbers();
  add_chunk_option(app, o->chunk);
  app.add_option("--cache-dtype", o->cache_dtype,
                 "type of the keys and values in the KV cache: fp32 (default), bf16 or i8");
  app.add_json_flag(o->json);
  app.footer(
      "Checks that the file has every tensor that the model reads, in the right shape.\n"
      "Examples:\n"
      "  ridge inspect gemma-3-270m-q4_k_m.gguf\n"
      "  ridge inspect model/ --context 2048,8192\n"
      "  ridge inspect model.gguf --json | jq '.types, .memory'");
  app.callback([o, app, &context] {
    Inspection made = inspect(*o, app);
    if (o->json)
      print_json(made);
    else
      print_text(made, context.terminal);
  });
}

}  // namespace ridge::apps
