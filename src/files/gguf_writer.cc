// SPDX-License-Identifier: Apache-2.0
// Encodes the values and the header, then writes the tensors, each padded to the alignment.
#include "files/gguf_writer.h"

#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"

namespace ridge::files {
namespace {

constexpr uint32_t kVersion = 3;

template <typename T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_string(std::string& text, std::string_view value) {
  append(text, static_cast<uint64_t>(value.size()));
  text += value;
}

void check_source(const TensorSource& tensor) {
  const std::string shown = printable(tensor.name);
  if (tensor.name.empty() || tensor.name.size() >= kGgufMaxNameBytes)
    throw usage_error("[gguf] expected a tensor name of 1 to {} bytes, got {}",
                      kGgufMaxNameBytes - 1, shown);
  if (!ggml_number(tensor.dtype))
    throw usage_error("[gguf] tensor {}: the format does not support {}", shown,
                      name(tensor.dtype));
  if (tensor.shape.rank() > kGgufMaxRank)
    throw usage_error("[gguf] tensor {}: expected at most {} dimensions, got {}", shown,
                      kGgufMaxRank, tensor.shape.str());
  const int64_t block = info(tensor.dtype).elements_per_block;
  if ((tensor.shape.rank() > 0 ? tensor.shape.back() : 1) % block != 0)
    throw usage_error("[gguf] tensor {}: expected rows of whole {} blocks ({} elements), got {}",
                      shown, name(tensor.dtype), block, tensor.shape.str());
}

void append_tensor_info(std::string& text, const TensorSource& tensor, int64_t offset) {
  append_string(text, tensor.name);
  append(text, static_cast<uint32_t>(tensor.shape.rank()));
  for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) append(text, tensor.shape[axis]);
  append(text, *ggml_number(tensor.dtype));
  append(text, static_cast<uint64_t>(offset));
}

}  // namespace

GgufValue::GgufValue(std::string_view value) : type_(GgufType::kString) { append_string(value); }

GgufValue::GgufValue(GgufType element_type, uint64_t count) : type_(GgufType::kArray) {
  append(element_type);
  append(count);
}

GgufValue::GgufValue(const GgufEntry& entry) : type_(entry.type) {
  if (entry.type == GgufType::kArray) {
    append(entry.element_type);
    append(entry.count);
  }
  encoded_.append(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
}

GgufValue GgufValue::list(std::span<const std::string> values) {
  GgufValue array(GgufType::kString, values.size());
  for (const std::string& value : values) array.append_string(value);
  return array;
}

GgufValue GgufValue::list(std::span<const std::string_view> values) {
  GgufValue array(GgufType::kString, values.size());
  for (const std::string_view value : values) array.append_string(value);
  return array;
}

GgufValue GgufValue::nested(std::span<const GgufValue> arrays) {
  GgufValue array(GgufType::kArray, arrays.size());
  for (const GgufValue& element : arrays) {
    RIDGE_CHECK(element.type_ == GgufType::kArray, "an element of type {}", name(element.type_));
    array.encoded_ += element.encoded_;
  }
  return array;
}

void GgufValue::append_string(std::string_view value) { files::append_string(encoded_, value); }

void GgufWriter::set(std::string_view key, GgufValue value) {
  if (key.empty() || key.size() > kGgufMaxKeyBytes)
    throw usage_error("[gguf] expected a key of 1 to {} bytes, got {}", kGgufMaxKeyBytes,
                      printable(key));
  const auto [place, fresh] = index_.emplace(key, entries_.size());
  if (fresh)
    entries_.push_back({std::string(key), std::move(value)});
  else
    entries_[place->second].value = std::move(value);
}

void GgufWriter::set_all(const GgufMetadata& metadata) {
  for (const std::string_view key : metadata.keys()) set(key, GgufValue(*metadata.find(key)));
}

int64_t GgufWriter::alignment_bytes() const {
  const auto found = index_.find(kGgufAlignmentKey);
  if (found == index_.end()) return kGgufDefaultAlignmentBytes;
  const GgufValue& value = entries_[found->second].value;
  uint32_t alignment = 0;
  if (value.type() == GgufType::kU32)
    std::memcpy(&alignment, value.encoded().data(), sizeof(alignment));
  if (!std::has_single_bit(alignment))
    throw usage_error("[gguf] {}: expected a u32 power of two, got {}", kGgufAlignmentKey,
                      alignment);
  return alignment;
}

std::string GgufWriter::header_text(std::span<const TensorSource> tensors) const {
  std::string text;
  append(text, kGgufMagic);
  append(text, kVersion);
  append(text, static_cast<uint64_t>(tensors.size()));
  append(text, static_cast<uint64_t>(entries_.size()));
  for (const auto& [key, value] : entries_) {
    append_string(text, key);
    append(text, value.type());
    text += value.encoded();
  }
  const int64_t alignment = alignment_bytes();
  int64_t offset = 0;
  for (const TensorSource& tensor : tensors) {
    append_tensor_info(text, tensor, offset);
    offset += round_up(tensor.bytes(), alignment);
  }
  return text;
}

void GgufWriter::write(const std::filesystem::path& path,
                       std::span<const TensorSource> tensors) const {
  std::set<std::string_view> names;
  for (const TensorSource& tensor : tensors) {
    check_source(tensor);
    if (!names.insert(tensor.name).second)
      throw usage_error("[gguf] two tensors are named {}", printable(tensor.name));
  }
  const int64_t alignment = alignment_bytes();
  AtomicFile file(path);
  file.write(header_text(tensors));
  file.pad_to_multiple(alignment);
  for (const TensorSource& tensor : tensors) {
    file.write(read_checked(tensor));
    file.pad_to_multiple(alignment);
  }
  file.commit();
}

}  // namespace ridge::files
