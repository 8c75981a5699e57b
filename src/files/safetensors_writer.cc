// SPDX-License-Identifier: Apache-2.0
// Writes a header as the reference implementation would, then the tensors.
#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/safetensors.h"

namespace ridge::files {
namespace {

constexpr size_t kHeaderAlignmentBytes = 8;

// JSON text of a string. Throws for invalid UTF-8, which JSON cannot represent.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw usage_error("[safetensors] {} is not UTF-8", printable(text));
  }
}

void check_sources(std::span<const TensorSource> tensors) {
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__")
      throw usage_error("[safetensors] {} is not a valid tensor name", printable(tensor.name));
    if (!names.insert(tensor.name).second)
      throw usage_error("[safetensors] two tensors are named {}", printable(tensor.name));
    if (!safetensors_name(tensor.dtype))
      throw usage_error("[safetensors] tensor {}: the format does not support {}",
                        printable(tensor.name), name(tensor.dtype));
  }
}

// Wider elements first, then by the format's order of types, then by name.
std::vector<const TensorSource*> file_order(std::span<const TensorSource> tensors) {
  std::vector<const TensorSource*> order;
  for (const TensorSource& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorSource* a, const TensorSource* b) {
    const int rank_a = safetensors_rank(a->dtype), rank_b = safetensors_rank(b->dtype);
    return rank_a != rank_b ? rank_a > rank_b : a->name < b->name;
  });
  return order;
}

std::string header_text(std::span<const TensorSource* const> order, const TextMap& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) text += quoted(key) + ":" + quoted(value) + ",";
    text.back() = '}';
    text += ',';
  }
  int64_t offset = 0;
  for (const TensorSource* tensor : order) {
    const int64_t end = offset + tensor->bytes();
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}},",
                        quoted(tensor->name), *safetensors_name(tensor->dtype), tensor->shape.str(),
                        offset, end);
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.append((kHeaderAlignmentBytes - text.size() % kHeaderAlignmentBytes) % kHeaderAlignmentBytes,
              ' ');
  return text;
}

// Writes and syncs the file without renaming it into place.
AtomicFile write_beside(const std::filesystem::path& path,
                        std::span<const TensorSource> tensors,
                        const TextMap& metadata) {
  const auto order = file_order(tensors);
  const std::string header = header_text(order, metadata);
  const uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header_bytes, 1)));
  file.write(header);
  for (const TensorSource* tensor : order) file.write(read_checked(*tensor));
  file.finish();
  return file;
}

// Consecutive groups of tensors, each of at most max_bytes or a single tensor.
std::vector<std::span<const TensorSource>> split_into_shards(std::span<const TensorSource> tensors,
                                                             int64_t max_bytes) {
  std::vector<std::span<const TensorSource>> shards;
  size_t begin = 0;
  int64_t filled_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > begin && filled_bytes + tensors[i].bytes() > max_bytes) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      filled_bytes = 0;
    }
    filled_bytes += tensors[i].bytes();
  }
  shards.push_back(tensors.subspan(begin));
  return shards;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorSource> tensors,
                       const TextMap& metadata) {
  check_sources(tensors);
  write_beside(path, tensors, metadata).commit();
}

void write_safetensors_folder(const std::filesystem::path& folder,
                              std::span<const TensorSource> tensors,
                              int64_t max_shard_bytes,
                              const TextMap& metadata) {
  if (max_shard_bytes <= 0)
    throw usage_error("[safetensors] expected a positive shard size, got {}", max_shard_bytes);
  check_sources(tensors);
  const auto shards = split_into_shards(tensors, max_shard_bytes);
  const auto whole = folder / "model.safetensors";
  if (shards.size() == 1) return write_safetensors(whole, tensors, metadata);
  if (std::filesystem::exists(whole))
    throw usage_error("[{}] must be removed first: loaders would read it instead of the shards",
                      whole.string());

  nlohmann::json weight_map = nlohmann::json::object();
  int64_t total_bytes = 0;
  std::vector<AtomicFile> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    files.push_back(write_beside(folder / name, shards[i], metadata));
    for (const TensorSource& tensor : shards[i]) {
      weight_map[tensor.name] = name;
      total_bytes += tensor.bytes();
    }
  }
  for (AtomicFile& file : files) file.commit();
  const nlohmann::json index = {{"metadata", {{"total_size", total_bytes}}},
                                {"weight_map", weight_map}};
  write_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace ridge::files
