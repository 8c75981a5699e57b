// SPDX-License-Identifier: Apache-2.0
// Reads a header into a tensor table, and joins shards into one table. The writer is
// safetensors_writer.cc.
#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::files {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::string_view kMetadataKey = "__metadata__";

// Depth 3: the header, a tensor, its shape. A few values take 30 bytes of text.
constexpr JsonLimits kHeaderLimits{.max_depth = 3,
                                   .max_values = 4'000'000,
                                   .max_bytes = 100'000'000};

// In ascending order of the reference implementation's dtype rank; the writer sorts by it in
// descending order.
constexpr std::array<std::pair<DType, std::string_view>, 15> kNames = {{{DType::kBool, "BOOL"},
                                                                        {DType::kU8, "U8"},
                                                                        {DType::kI8, "I8"},
                                                                        {DType::kF8E5M2, "F8_E5M2"},
                                                                        {DType::kF8E4M3, "F8_E4M3"},
                                                                        {DType::kI16, "I16"},
                                                                        {DType::kU16, "U16"},
                                                                        {DType::kF16, "F16"},
                                                                        {DType::kBF16, "BF16"},
                                                                        {DType::kI32, "I32"},
                                                                        {DType::kU32, "U32"},
                                                                        {DType::kF32, "F32"},
                                                                        {DType::kF64, "F64"},
                                                                        {DType::kI64, "I64"},
                                                                        {DType::kU64, "U64"}}};

struct Extent {
  uint64_t begin;
  uint64_t end;
};

DType dtype_of(const JsonField& field) {
  if (const auto found = dtype_of_safetensors(field.text())) return *found;
  throw field.fault("a supported element type");
}

Shape shape_of(const JsonField& field) {
  const size_t rank = field.list().size();
  if (rank > static_cast<size_t>(kMaxRank))
    throw field.fault(fmt::format("at most {} dimensions", kMaxRank), fmt::format("{}", rank));
  std::array<int64_t, kMaxRank> dims{};
  int64_t positive = 1;  // product of the nonzero extents: a zero must not hide an overflow
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = field.at(i).integer(0);
    if (__builtin_mul_overflow(positive, std::max<int64_t>(1, dims[i]), &positive))
      throw field.fault("elements that 63 bits count", "more");
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

Extent extent_of(const JsonField& field) {
  if (field.list().size() != 2) throw field.fault("two numbers");
  const Extent extent{static_cast<uint64_t>(field.at(0).integer(0)),
                      static_cast<uint64_t>(field.at(1).integer(0))};
  if (extent.begin > extent.end)
    throw field.fault("a begin before the end", fmt::format("[{}, {}]", extent.begin, extent.end));
  return extent;
}

struct Placed {
  FileTensor tensor;
  Extent extent;
};

// Every message names the file, the tensor and the field.
Placed read_entry(std::string_view source,
                  const std::string& name,
                  const Json& json,
                  std::span<const std::byte> data) {
  const JsonField entry(json, fmt::format("{}: tensor {}", source, printable(name)));
  if (name.empty()) throw entry.fault("a name", "none");
  const JsonField offsets = entry.at("data_offsets");
  const Extent extent = extent_of(offsets);
  const DType dtype = dtype_of(entry.at("dtype"));
  const Shape shape = shape_of(entry.at("shape"));
  if (extent.end > data.size())
    throw offsets.fault(fmt::format("an end within {} bytes of data", data.size()),
                        fmt::format("{}", extent.end));
  int64_t expected_bytes = 0;
  if (__builtin_mul_overflow(shape.elements(), info(dtype).bytes_per_block, &expected_bytes))
    throw entry.at("shape").fault("bytes that 63 bits count", "more");
  const uint64_t bytes = extent.end - extent.begin;
  if (static_cast<uint64_t>(expected_bytes) != bytes)
    throw offsets.fault(
        fmt::format("{} bytes ({} of {})", expected_bytes, shape.str(), *safetensors_name(dtype)),
        fmt::format("{}", bytes));
  return {{name, dtype, shape, data.subspan(extent.begin, bytes)}, extent};
}

TextMap read_metadata(const JsonField& json) {
  TextMap metadata;
  for (const auto& [key, value] : json.object().items()) metadata.emplace(key, json.at(key).text());
  return metadata;
}

// Checks that the tensors fill the data end to end: each begins where the previous one ends.
void check_end_to_end(std::string_view source,
                      std::span<const Placed> sorted,
                      uint64_t data_bytes) {
  uint64_t end = 0;
  for (const auto& [tensor, extent] : sorted) {
    if (extent.begin != end)
      throw file_error(
          "[{}] tensor {}: expected to begin at byte {} of the data, begins at {} ({})", source,
          printable(tensor.name), end, extent.begin, extent.begin < end ? "overlap" : "hole");
    end = extent.end;
  }
  if (end != data_bytes)
    throw file_error("[{}] the tensors end at byte {} of the data, but the data has {} bytes",
                     source, end, data_bytes);
}

Json read_header(std::span<const std::byte> bytes,
                 std::string_view source,
                 uint64_t& header_bytes) {
  if (bytes.size() < kLengthBytes)
    throw file_error("[{}] expected a safetensors header of at least {} bytes, the file has {}",
                     source, kLengthBytes, bytes.size());
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes)
    throw file_error("[{}] the header's length says {} bytes, the file has {} after it (limit {})",
                     source, header_bytes, bytes.size() - kLengthBytes, kMaxHeaderBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_bytes);
  if (text.empty() || text[0] != '{')
    throw file_error("[{}] expected the header to begin with '{{'", source);
  return parse_json(text, source, kHeaderLimits);
}

std::filesystem::path file_in_folder(const std::filesystem::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::error_code error; std::filesystem::exists(folder / name, error)) return folder / name;
  throw file_error("[{}] expected model.safetensors or model.safetensors.index.json in the folder",
                   folder.string());
}

// A shard must be a plain file name in the folder of the index, not a path that leads elsewhere,
// and without characters that would act on a terminal, because messages have it in the path.
void check_shard_name(std::string_view source, const std::string& shard) {
  constexpr size_t kLongestName = 255;  // a file's name is no longer, on every usual file system
  if (shard.empty() || shard.size() > kLongestName || shard == "." || shard == ".." ||
      shard.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
      terminal_safe(shard) != shard)
    throw file_error("[{}] weight_map: expected the name of a file next to the index, found {}",
                     source, printable(shard));
}

}  // namespace

std::optional<std::string_view> safetensors_name(DType dtype) {
  for (const auto& [row, spelling] : kNames)
    if (row == dtype) return spelling;
  return std::nullopt;
}

int safetensors_rank(DType dtype) {
  for (size_t rank = 0; rank < kNames.size(); ++rank)
    if (kNames[rank].first == dtype) return static_cast<int>(rank);
  return -1;
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [dtype, spelling] : kNames)
    if (spelling == name) return dtype;
  return std::nullopt;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string source) {
  uint64_t header_bytes = 0;
  const Json header = read_header(bytes, source, header_bytes);
  const auto data = bytes.subspan(kLengthBytes + header_bytes);

  SafetensorsFile file;
  std::vector<Placed> placed;
  placed.reserve(header.size());
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey)
      file.metadata_ = read_metadata({entry, fmt::format("{}: {}", source, kMetadataKey)});
    else
      placed.push_back(read_entry(source, name, entry, data));
  }
  // Empty tensors sort before the one that begins at the same byte.
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.extent.begin, a.extent.end) < std::pair(b.extent.begin, b.extent.end);
  });
  check_end_to_end(source, placed, data.size());
  file.tensors_ = TensorTable(std::move(source));
  for (Placed& entry : placed) file.tensors_.add(std::move(entry.tensor));
  return file;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  std::error_code error;
  const auto target = std::filesystem::is_directory(path, error) ? file_in_folder(path) : path;
  return target.string().ends_with(".json") ? open_index(target) : open_file(target);
}

SafetensorsFile SafetensorsFile::open_file(const std::filesystem::path& path) {
  auto mapping = std::make_shared<const MappedFile>(path);
  SafetensorsFile file = parse(mapping->bytes(), mapping->source());
  file.mappings_.push_back(std::move(mapping));
  return file;
}

SafetensorsFile SafetensorsFile::open_index(const std::filesystem::path& path) {
  const std::string source = path.string();
  const Json index = read_json(path);
  if (index.is_object() && !index.contains("weight_map"))
    throw file_error(
        "[{}] expected the index of a model's safetensors files, found no \"weight_map\"; a model is "
        "named by its folder, its index or a file of weights",
        source);
  const JsonField shard_of = JsonField(index, source).at("weight_map");

  SafetensorsFile joined;
  joined.tensors_ = TensorTable(source);
  std::map<std::string, SafetensorsFile> shards;
  for (const auto& [name, value] : shard_of.object().items()) {
    const std::string& shard = shard_of.at(name).text();
    auto found = shards.find(shard);
    if (found == shards.end()) {
      check_shard_name(source, shard);
      found = shards.emplace(shard, open_file(path.parent_path() / shard)).first;
    }
    joined.tensors_.add(found->second.tensors_.at(name));
  }
  for (auto& [name, shard] : shards) {
    joined.metadata_.merge(shard.metadata_);
    joined.mappings_.push_back(shard.mappings_.front());
  }
  return joined;
}

}  // namespace ridge::files
