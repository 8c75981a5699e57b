// SPDX-License-Identifier: Apache-2.0
// The tensors of a model file by name, in any format, and the description of a tensor to be
// written. The bytes stay in the mapped file; the table owns none.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace ridge::files {

// A tensor in its file: dense, row-major, little endian, possibly unaligned.
// bytes.size() == storage_bytes(dtype, shape.elements()).
struct FileTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> bytes;
};

// A tensor to be written. `read` is called once, just before the tensor is written. The bytes that
// it returns must stay valid until the `read` of the next tensor, so one buffer serves a large
// model.
struct TensorSource {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<std::span<const std::byte>()> read;

  int64_t bytes() const { return storage_bytes(dtype, shape.elements()); }
};

class TensorTable {
 public:
  explicit TensorTable(std::string source = {}) : source_(std::move(source)) {}

  void add(FileTensor tensor);  // a second tensor of the same name is a bad-file Error

  const std::vector<FileTensor>& all() const { return tensors_; }  // in the file's order
  const FileTensor* find(std::string_view name) const;             // null if absent
  // Throws a bad-file Error that names the missing tensor, or the expected and the found shape.
  const FileTensor& at(std::string_view name) const;
  const FileTensor& at(std::string_view name, const Shape& expected) const;

  const std::string& source() const { return source_; }
  int64_t elements() const;  // all tensors have so many
  int64_t bytes() const;     // all tensors have so many, without headers and padding

 private:
  std::string source_;
  std::vector<FileTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
};

// Calls tensor.read() and checks that the result has the declared size.
std::span<const std::byte> read_checked(const TensorSource& tensor);

// A source for a tensor of a file, whose bytes must stay valid until they are written.
TensorSource source_of(const FileTensor& tensor);

}  // namespace ridge::files
