// SPDX-License-Identifier: Apache-2.0
// The reader: header to table, and shards to one table. The writer is safetensors_writer.cc.
#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"

namespace ridge::files {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::string_view kMetadataKey = "__metadata__";

// Depth 3: the header, a tensor, its shape. Values: 30 bytes of text hold a few.
constexpr JsonLimits kHeaderLimits{.max_depth = 3,
                                   .max_values = 4'000'000,
                                   .max_bytes = 100'000'000};

// In ascending order of the reference implementation's dtype rank; the writer sorts by it,
// descending.
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

// One tensor of the header while it is checked; every message names file and tensor.
class HeaderEntry {
 public:
  HeaderEntry(std::string_view source, const std::string& name, const Json& entry)
      : source_(source), name_(name), entry_(entry) {
    if (name_.empty()) throw fault("expected a name");
    if (!entry_.is_object()) throw fault("expected an object");
  }

  DType dtype() const {
    const Json& value = field("dtype");
    if (!value.is_string()) throw fault("dtype: expected a string");
    const auto& text = value.get_ref<const std::string&>();
    const auto found = dtype_of_safetensors(text);
    if (!found) throw fault(fmt::format("dtype {} is not supported", printable(text)));
    return *found;
  }

  Shape shape() const {
    const Json& value = field("shape");
    if (!value.is_array()) throw fault("shape: expected an array");
    if (value.size() > static_cast<size_t>(kMaxRank))
      throw fault(
          fmt::format("shape: expected at most {} dimensions, found {}", kMaxRank, value.size()));
    std::array<int64_t, kMaxRank> dims{};
    int64_t positive = 1;  // `positive` skips zeros, which must not hide an overflow
    for (size_t i = 0; i < value.size(); ++i) {
      const uint64_t dim = unsigned_of(value[i], "shape");
      if (dim > INT64_MAX || __builtin_mul_overflow(positive, std::max<int64_t>(1, dim), &positive))
        throw fault("shape: the number of elements exceeds 63 bits");
      dims[i] = static_cast<int64_t>(dim);
    }
    return Shape(std::span<const int64_t>(dims.data(), value.size()));
  }

  Extent extent() const {
    const Json& value = field("data_offsets");
    if (!value.is_array() || value.size() != 2) throw fault("data_offsets: expected two numbers");
    const Extent extent{unsigned_of(value[0], "data_offsets"),
                        unsigned_of(value[1], "data_offsets")};
    if (extent.begin > extent.end)
      throw fault(fmt::format("data_offsets: [{}, {}] runs backwards", extent.begin, extent.end));
    return extent;
  }

  Error fault(std::string_view what) const {
    return file_error("[{}] tensor {}: {}", source_, printable(name_), what);
  }

 private:
  const Json& field(const char* key) const {
    const auto found = entry_.find(key);
    if (found == entry_.end()) throw fault(fmt::format("{} is missing", key));
    return *found;
  }

  uint64_t unsigned_of(const Json& value, const char* key) const {
    if (!value.is_number_unsigned()) throw fault(fmt::format("{}: expected unsigned numbers", key));
    return value.get<uint64_t>();
  }

  std::string_view source_;
  const std::string& name_;
  const Json& entry_;
};

struct Placed {
  FileTensor tensor;
  Extent extent;
};

Placed read_entry(std::string_view source,
                  const std::string& name,
                  const Json& json,
                  std::span<const std::byte> data) {
  const HeaderEntry entry(source, name, json);
  const Extent extent = entry.extent();
  const DType dtype = entry.dtype();
  const Shape shape = entry.shape();
  if (extent.end > data.size())
    throw entry.fault(
        fmt::format("data_offsets: ends at {}, the data has {} bytes", extent.end, data.size()));
  int64_t expected_bytes = 0;
  if (__builtin_mul_overflow(shape.elements(), info(dtype).bytes_per_block, &expected_bytes))
    throw entry.fault("shape: the number of bytes exceeds 63 bits");
  if (static_cast<uint64_t>(expected_bytes) != extent.end - extent.begin)
    throw entry.fault(fmt::format("{} of {} take {} bytes, data_offsets span {}", shape.str(),
                                  *safetensors_name(dtype), expected_bytes,
                                  extent.end - extent.begin));
  return {{name, dtype, shape, data.subspan(extent.begin, extent.end - extent.begin)}, extent};
}

TextMap read_metadata(std::string_view source, const Json& json) {
  if (!json.is_object()) throw file_error("[{}] {}: expected an object", source, kMetadataKey);
  TextMap metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      throw file_error("[{}] {}: expected a string for {}", source, kMetadataKey, printable(key));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// The data is the tensors end to end: sorted by place, each begins where the one before ended.
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
    throw file_error("[{}] the tensors end at byte {} of the data, which has {}", source, end,
                     data_bytes);
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

// A shard is a plain file name beside the index: nothing that leads elsewhere.
void check_shard_name(std::string_view source, const std::string& shard) {
  if (shard.empty() || shard == "." || shard == ".." ||
      shard.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
    throw file_error("[{}] weight_map: expected a file name beside the index, found {}", source,
                     printable(shard));
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
      file.metadata_ = read_metadata(source, entry);
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
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw file_error("[{}] expected an object weight_map", source);

  SafetensorsFile joined;
  joined.tensors_ = TensorTable(source);
  std::map<std::string, SafetensorsFile> shards;
  for (const auto& [name, value] : index["weight_map"].items()) {
    if (!value.is_string())
      throw file_error("[{}] weight_map: expected a file name for {}", source, printable(name));
    const auto& shard = value.get_ref<const std::string&>();
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
