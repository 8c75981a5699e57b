// SPDX-License-Identifier: Apache-2.0
// The arguments of one call as a torch.profiler trace records them: shapes, types and the values of
// scalars. Strides and contents are not used.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace ridge::record {

// Extents of a recorded tensor; unlike a Shape of any rank.
using Extents = std::vector<int64_t>;

struct Operand {
  enum class Kind { kNone, kTensor, kTensorList, kScalar };
  Kind kind = Kind::kNone;
  DType dtype = DType::kF32;     // lists have no recorded type: f32 is assumed
  std::vector<Extents> tensors;  // one for a tensor
  std::string value;             // a scalar's or a list's: "-1", "[8, 128]", "tanh"

  bool is_tensor() const { return kind == Kind::kTensor; }
  // A tensor of integers.
  bool is_index() const { return is_tensor() && !is_float(dtype) && dtype != DType::kBool; }
  const Extents& extents() const { return tensors.front(); }  // for a tensor
  int64_t elements() const;                                   // in all tensors
  int64_t bytes() const;
  std::string type_text() const;  // "f32[8,128]"
};

struct RecordedCall {
  std::vector<Operand> operands;

  // The tensor at this place; null if there is none.
  const Operand* tensor(size_t at) const {
    return at < operands.size() && operands[at].is_tensor() ? &operands[at] : nullptr;
  }
  std::string_view value(size_t at) const {
    return at < operands.size() ? std::string_view(operands[at].value) : std::string_view();
  }
  std::string text() const;  // "f32[8,128], f32[128,64]": the tensors
};

// The call of an event's "args": its "Input Dims", "Input type" and "Concrete Inputs". Those that
// are not recorded, or not as expected, are left out. Throws a bad-file Error for extents that no
// tensor has.
RecordedCall recorded_call(const nlohmann::json& args);

// The tensors of a call's text(); lists of tensors are left out, and so is what is no such text.
RecordedCall call_of_text(std::string_view text);

// The product of extents and of other counts. Throws a bad-file Error above 2^60.
int64_t count_product(std::span<const int64_t> factors);
inline int64_t count_product(std::initializer_list<int64_t> factors) {
  return count_product(std::span<const int64_t>(factors.begin(), factors.size()));
}
// The integers of "[1, -2]" or "3"; empty for other text.
std::vector<int64_t> integers(std::string_view text, std::string_view separator = ", ");
std::string type_text(DType dtype, const Extents& extents);

}  // namespace ridge::record
