// SPDX-License-Identifier: Apache-2.0
// Parses in the order of the file: header, metadata, tensor infos. Then locates the tensors' data.
#include "files/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "files/byte_cursor.h"

namespace ridge::files {
namespace {

// The fewest bytes of an entry. Metadata: key length, one byte of key, type, one byte of value.
// Tensor: name length, one byte of name, rank, type, offset.
constexpr uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;
// Far above any model (the largest have tens of thousands of tensors). Bounds the memory that a
// header can make the reader allocate.
constexpr uint64_t kMaxMetadataEntries = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 18;
constexpr uint64_t kMaxAlignmentBytes = 1 << 20;

struct Header {
  uint32_t version;
  uint64_t tensors;
  uint64_t metadata_entries;
};

// One entry of the tensor table; `offset` is relative to the start of the data.
struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t offset;
  uint64_t bytes;
};

uint64_t bounded(const ByteCursor& cursor, uint64_t count, uint64_t limit, const char* field) {
  if (count > limit) throw cursor.fault("{}: expected at most {}, found {}", field, limit, count);
  return count;
}

Header read_header(ByteCursor& cursor) {
  cursor.set_context("header");
  const auto magic = cursor.read<uint32_t>("magic");
  if (magic != kGgufMagic)
    throw cursor.fault("expected the magic \"GGUF\", found {}",
                       printable({reinterpret_cast<const char*>(&magic), sizeof(magic)}));
  const auto version = cursor.read<uint32_t>("version");
  if (version == 2u << 24 || version == 3u << 24)
    throw cursor.fault("the file is big endian, expected little endian");
  if (version != 2 && version != 3)
    throw cursor.fault("expected version 2 or 3, found {}", version);
  const uint64_t tensors = cursor.read_count("tensor count", kMinTensorBytes);
  const uint64_t entries = cursor.read_count("metadata count", kMinMetadataBytes);
  return {version, bounded(cursor, tensors, kMaxTensors, "tensor count"),
          bounded(cursor, entries, kMaxMetadataEntries, "metadata count")};
}

Shape read_shape(ByteCursor& cursor) {
  const auto rank = cursor.read<uint32_t>("rank");
  if (rank > kGgufMaxRank)
    throw cursor.fault("rank: expected at most {}, found {}", kGgufMaxRank, rank);
  std::array<int64_t, kGgufMaxRank> dims{};  // innermost first
  int64_t positive = 1;  // product of the nonzero extents: a zero must not hide an overflow
  for (uint32_t axis = 0; axis < rank; ++axis) {
    dims[axis] = cursor.read<int64_t>("dimension");
    if (dims[axis] < 0 ||
        __builtin_mul_overflow(positive, std::max<int64_t>(1, dims[axis]), &positive))
      throw cursor.fault("dimension {}: {} makes the number of elements exceed 63 bits", axis,
                         static_cast<uint64_t>(dims[axis]));
  }
  std::reverse(dims.begin(), dims.begin() + rank);
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

DType read_dtype(ByteCursor& cursor) {
  const auto number = cursor.read<uint32_t>("type");
  const auto dtype = dtype_of_ggml(number);
  if (!dtype) throw cursor.fault("type: {} is not supported", ggml_type_name(number));
  return *dtype;
}

uint64_t tensor_bytes(const ByteCursor& cursor, DType dtype, const Shape& shape) {
  const DTypeInfo& row = info(dtype);
  const int64_t row_elements = shape.rank() > 0 ? shape.back() : 1;
  if (row_elements % row.elements_per_block != 0)
    throw cursor.fault("expected rows of whole {} blocks ({} elements), found shape {}", row.name,
                       row.elements_per_block, shape.str());
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.elements() / row.elements_per_block, row.bytes_per_block,
                             &bytes))
    throw cursor.fault("shape {} makes the number of bytes exceed 63 bits", shape.str());
  return static_cast<uint64_t>(bytes);
}

TensorInfo read_tensor_info(ByteCursor& cursor, uint64_t index, uint64_t alignment) {
  cursor.set_context(fmt::format("tensor {}", index));
  const std::string_view name = cursor.read_string("name");
  if (name.empty() || name.size() > kGgufMaxNameBytes)
    throw cursor.fault("expected a name of 1 to {} bytes, found {}", kGgufMaxNameBytes,
                       name.size());
  cursor.set_context(fmt::format("tensor {}", printable(name)));
  const Shape shape = read_shape(cursor);
  const DType dtype = read_dtype(cursor);
  const auto offset = cursor.read<uint64_t>("offset");
  if (offset % alignment != 0)
    throw cursor.fault("offset: expected a multiple of {}, found {}", alignment, offset);
  return {std::string(name), dtype, shape, offset, tensor_bytes(cursor, dtype, shape)};
}

void check_overlap(std::string_view source, const std::vector<TensorInfo>& infos) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : infos)
    if (tensor.bytes > 0) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &before = *order[i - 1], &after = *order[i];
    if (after.offset - before.offset < before.bytes)
      throw file_error("[{}] tensor {}: offset {} overlaps tensor {}, which ends at {}", source,
                       printable(after.name), after.offset, printable(before.name),
                       before.offset + before.bytes);
  }
}

}  // namespace

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string source) {
  GgufFile file;
  ByteCursor cursor(bytes, source);
  const Header header = read_header(cursor);
  file.version_ = header.version;
  file.metadata_ = GgufMetadata(source);
  for (uint64_t i = 0; i < header.metadata_entries; ++i) file.metadata_.read_entry(cursor);

  const auto alignment = static_cast<uint64_t>(
      file.metadata_.integer_or(kGgufAlignmentKey, kGgufDefaultAlignmentBytes,
                                {1, static_cast<int64_t>(kMaxAlignmentBytes)}));
  if (!std::has_single_bit(alignment))
    throw file_error("[{}] key \"{}\": expected a power of two, found {}", source,
                     kGgufAlignmentKey, alignment);
  file.alignment_bytes_ = static_cast<int64_t>(alignment);

  std::vector<TensorInfo> infos;
  infos.reserve(header.tensors);
  for (uint64_t i = 0; i < header.tensors; ++i)
    infos.push_back(read_tensor_info(cursor, i, alignment));
  check_overlap(source, infos);

  // The padding after the table may be absent when no data follows.
  const uint64_t begin =
      std::min<uint64_t>((cursor.offset() + alignment - 1) & ~(alignment - 1), bytes.size());
  file.header_bytes_ = static_cast<int64_t>(begin);
  file.tensors_ = TensorTable(source);
  for (TensorInfo& tensor : infos) {
    uint64_t offset = begin;
    if (tensor.bytes > 0 && __builtin_add_overflow(begin, tensor.offset, &offset))
      offset = UINT64_MAX;  // beyond any file
    const auto place = checked_part(bytes, offset, tensor.bytes, source,
                                    "data of tensor " + printable(tensor.name));
    file.tensors_.add({std::move(tensor.name), tensor.dtype, tensor.shape, place});
  }
  return file;
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  auto mapping = std::make_shared<const MappedFile>(path);
  GgufFile file = parse(mapping->bytes(), mapping->source());
  file.mapping_ = std::move(mapping);
  return file;
}

}  // namespace ridge::files
