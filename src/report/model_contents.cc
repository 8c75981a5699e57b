// SPDX-License-Identifier: Apache-2.0
// Writes tables of the tensors, the metadata and the memory.
#include "report/command_text.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {
namespace {

Json config_json(const record::ModelContents& contents) {
  Json json;
  for (const auto& entry : contents.config)
    std::visit([&](const auto& each) { json[entry.first] = each; }, entry.second);
  return json;
}

Json metadata_json(const record::ModelContents& contents) {
  Json json = Json::object();
  auto text = [](std::string_view key) { return terminal_safe(key, kWholeText); };
  if (contents.gguf == nullptr) {
    for (const auto& [key, value] : *contents.safetensors) json[text(key)] = text(value);
    return json;
  }
  const files::GgufMetadata& metadata = *contents.gguf;
  for (std::string_view key : metadata.keys()) {
    const files::GgufEntry& entry = *metadata.find(key);
    Json& value = json[text(key)];
    if (entry.type == files::GgufType::kString)
      value = text(metadata.string(key));
    else if (entry.type == files::GgufType::kBool)
      value = metadata.boolean(key);
    else if (entry.type == files::GgufType::kArray)
      value = {{"type", files::name(entry.element_type)}, {"count", entry.count}};
    else  // JSON has no nan, so the parser discards it
      value = Json::parse(metadata.describe(entry), nullptr, false);
    if (value.is_discarded()) value = metadata.describe(entry);
  }
  return json;
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
  Table table("<tensor | <type | shape | count | bytes | share");
  for (const Row& row : rows)
    table.add({terminal_safe(row.name), row.type, row.shape, fmt::to_string(row.count),
               format_bytes(row.bytes),
               fmt::format("{:.1f}%", 100 * static_cast<double>(row.bytes) /
                                          static_cast<double>(tensors.bytes()))});
  return table.text(terminal);
}

std::string metadata_table(const record::ModelContents& contents, const TerminalOptions& terminal) {
  Table table("<key | <value");
  auto add = [&](std::string_view key, std::string_view value) {
    constexpr size_t kShown = 72;
    std::string text = terminal_safe(value.substr(0, kShown));
    table.add({terminal_safe(key), value.size() > kShown ? text + "..." : text});
  };
  if (contents.gguf != nullptr)
    for (std::string_view key : contents.gguf->keys())
      add(key, contents.gguf->describe(*contents.gguf->find(key), 3));
  else
    for (const auto& [key, value] : *contents.safetensors) add(key, value);
  return table.text(terminal);
}

}  // namespace

Json contents_json(const record::ModelContents& made) {
  Json json{{"file", terminal_safe(made.path, kWholeText)},
            {"format", made.format},
            {"architecture", made.architecture},
            {"name", terminal_safe(made.name, kWholeText)},
            {"parameters", made.parameters},
            {"weight_bytes", made.weight_bytes},
            {"bits_per_weight", made.bits_per_weight()},
            {"config", config_json(made)}};
  for (const auto& [type, total] : made.types)
    json["types"][type] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  json["cache_dtype"] = made.cache_dtype;
  json["memory"] = Json::array();
  for (const record::ModelContents::MemoryNeed& need : made.memory)
    json["memory"].push_back({{"context", need.context},
                              {"weight_bytes", made.weight_bytes},
                              {"kv_cache_bytes", need.cache_bytes},
                              {"total_bytes", made.weight_bytes + need.cache_bytes}});
  json["metadata"] = metadata_json(made);
  json["tensors"] = Json::array();
  for (const files::FileTensor& tensor : made.tensors->all())
    json["tensors"].push_back({{"name", terminal_safe(tensor.name, kWholeText)},
                               {"type", name(tensor.dtype)},
                               {"shape", tensor.shape.to_vector()},
                               {"bytes", tensor.bytes.size()}});
  json["unread_tensors"] = Json::array();
  for (const std::string& tensor : made.unread)
    json["unread_tensors"].push_back(terminal_safe(tensor, kWholeText));
  return json;
}

std::string contents_text(const record::ModelContents& made, const TerminalOptions& terminal) {
  std::string text = fmt::format("{}: {}, {} {}\n", terminal_safe(made.path), made.format,
                                 made.architecture, printable(made.name)) +
                     fmt::format("{} parameters, {} of weights, {:.2f} bits each\n\n",
                                 format_integer(made.parameters), format_bytes(made.weight_bytes),
                                 made.bits_per_weight());
  const Json config = config_json(made);
  for (const auto& [key, value] : config.items())
    text += fmt::format("  {:<18}{}\n", terminal_safe(key),
                        value.is_string() ? terminal_safe(value.get<std::string>()) : value.dump());
  Table types("<type | tensors | elements | bytes");
  for (const auto& [type, total] : made.types)
    types.add({type, fmt::to_string(total.tensors), format_integer(total.elements),
               format_bytes(total.bytes)});
  text += fmt::format("\n{}\n{}\n{}", types.text(terminal), tensor_table(*made.tensors, terminal),
                      metadata_table(made, terminal));
  for (const std::string& tensor : made.unread)
    text += fmt::format("The model does not read {}.\n", printable(tensor));
  Table memory("context | weights | KV cache | total");
  for (const record::ModelContents::MemoryNeed& need : made.memory)
    memory.add({format_integer(need.context), format_bytes(made.weight_bytes),
                format_bytes(need.cache_bytes),
                format_bytes(made.weight_bytes + need.cache_bytes)});
  return text +
         fmt::format(
             "\n{}{}",
             wrap_lines(fmt::format("Memory for one sequence. Keys and values are in {}{}; a "
                                    "sliding-window layer holds window + chunk - 1 positions.",
                                    made.cache_dtype,
                                    made.cache_dtype == "i8" || made.cache_dtype == "fp8"
                                        ? " with a scale per head and position"
                                        : ""),
                        terminal.columns),
             memory.text(terminal));
}

}  // namespace ridge::report
