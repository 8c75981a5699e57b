// SPDX-License-Identifier: Apache-2.0
// The quantized matrices of a folder of GPTQ, AWQ or compressed-tensors, as blocks of Ridge's
// types, which hold the same weights: q4_g128 and q4_g32, and q4_0 where every group of 32 has the
// zero point 8. A matrix is converted when its bytes are first asked for.
//
// With act-order, columns were quantized in another order than they are stored ("g_idx" names the
// group of each). Such a matrix has the columns of each group next to each other, and a tensor of
// 32-bit integers, its order, says which column of the model each one is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/dtype.h"
#include "files/tensor_table.h"
#include "models/quantization_config.h"

namespace ridge::models {

// A matrix [out, in] in its file.
struct PackedMatrix {
  PackedFormat format = PackedFormat::kGptq;
  bool zeros_less_one = false;
  int64_t out = 0, in = 0, group = 0;
  std::span<const std::byte> quants = {}, zeros = {}, scales = {};  // without zeros, all are 8
  DType scale_type = DType::kF16;                                   // f16, bf16 or f32
  std::span<const int32_t> order = {};                              // [in], or empty

  int64_t groups() const { return in / group; }
};

// Writes the blocks of type `to`. Throws a bad-file Error for a scale that fp16 cannot hold.
void unpack(const PackedMatrix& matrix, DType to, std::span<std::byte> blocks);

class PackedWeights {
 public:
  // `stored` are the tensors of the folder; they must outlive the object. Throws a bad-file Error
  // that names a tensor that is missing, has another shape or type, or names a group that does not
  // exist.
  PackedWeights(const QuantizationConfig& config, const files::TensorTable& stored);

  // All tensors, with the matrices under the names of their parameters instead of their parts.
  const files::TensorTable& tensors() const { return table_; }
  // The order of a matrix's columns, by the name of its parameter; empty if it has none. Matrices
  // with equal orders name one tensor.
  const std::string& order_of(std::string_view name) const;

  // The parts of the file that a matrix is made from, and its bytes, converted if they are not
  // there; none if `name` is no matrix that was packed.
  std::vector<std::span<const std::byte>> parts_of(std::string_view name) const;
  std::span<const std::byte> bytes(std::string_view name);
  // Drops the whole pages of a part of a matrix from memory; they are converted again when they are
  // asked for. Parts of a matrix that is kept stay. Several threads may call it.
  void release(std::span<const std::byte> part);
  // Keeps the matrix that has this part, because its bytes are used in place.
  void keep(std::span<const std::byte> part);

 private:
  struct Converted {
    std::string name;
    PackedMatrix matrix;
    DType dtype;
    Arena arena;
    std::string order = {};
    std::atomic<bool> is_filled = false, is_kept = false;
  };
  void add(const std::string& module,
           const QuantizationConfig& config,
           const files::TensorTable& stored);
  void set_order(Converted& entry, const files::FileTensor& group_indices);
  Converted* find(std::string_view name);
  const Converted* find(std::string_view name) const;
  Converted* owner_of(std::span<const std::byte> part);

  files::TensorTable table_;
  std::deque<Converted> entries_;
  std::map<std::string, Converted*, std::less<>> by_name_;
  std::map<const std::byte*, Converted*> by_address_;
  std::deque<std::pair<std::string, std::vector<int32_t>>> orders_;
};

}  // namespace ridge::models
