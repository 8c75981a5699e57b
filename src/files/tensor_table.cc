// SPDX-License-Identifier: Apache-2.0
// Look-ups and their error messages.
#include "files/tensor_table.h"

#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::files {

void TensorTable::add(FileTensor tensor) {
  const auto [place, fresh] = index_.emplace(tensor.name, tensors_.size());
  if (!fresh) throw file_error("[{}] the tensor {} appears twice", source_, printable(tensor.name));
  tensors_.push_back(std::move(tensor));
}

const FileTensor* TensorTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const FileTensor& TensorTable::at(std::string_view name) const {
  const FileTensor* tensor = find(name);
  if (tensor == nullptr)
    throw file_error("[{}] expected a tensor {}, which is not among the file's {}", source_,
                     printable(name), tensors_.size());
  return *tensor;
}

const FileTensor& TensorTable::at(std::string_view name, const Shape& expected) const {
  const FileTensor& tensor = at(name);
  if (!(tensor.shape == expected))
    throw file_error("[{}] tensor {}: expected shape {}, found {}", source_, printable(name),
                     expected.str(), tensor.shape.str());
  return tensor;
}

int64_t TensorTable::elements() const {
  int64_t sum = 0;
  for (const FileTensor& tensor : tensors_) sum += tensor.shape.elements();
  return sum;
}

int64_t TensorTable::bytes() const {
  int64_t sum = 0;
  for (const FileTensor& tensor : tensors_) sum += static_cast<int64_t>(tensor.bytes.size());
  return sum;
}

std::span<const std::byte> read_checked(const TensorSource& tensor) {
  const auto bytes = tensor.read();
  RIDGE_CHECK(static_cast<int64_t>(bytes.size()) == tensor.bytes(),
              "{}: {} of {} take {} bytes, got {}", tensor.name, tensor.shape.str(),
              name(tensor.dtype), tensor.bytes(), bytes.size());
  return bytes;
}

TensorSource source_of(const FileTensor& tensor) {
  return {tensor.name, tensor.dtype, tensor.shape, [bytes = tensor.bytes] { return bytes; }};
}

}  // namespace ridge::files
