// SPDX-License-Identifier: Apache-2.0
// Counts the work and the bytes of a recorded call, one function for each family of operations. The
// conventions are those of docs/accounting.md, with the shapes that the trace has.
// torch_operations.h says which family an operation belongs to.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/op.h"
#include "record/import/recorded_call.h"

namespace ridge::record {

struct Counts {
  Work work;               // executed: attention as the full square
  int64_t model_macs = 0;  // without scores that a backward pass computes again
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  DType output_type = DType::kF32;
  Extents output;  // the first output's
};

// Arithmetic of an operation, as its family uses it: per element, and per row where rows exist.
struct Arithmetic {
  int flops = 0;
  int transcendentals = 0;
  int row_flops = 0;
};

// No counts if the call has not the operands that the family needs.
using CountFunction = std::optional<Counts> (*)(const RecordedCall&, const Arithmetic&);

namespace counts {
// Products. a[m,k] b[k,n], with equal leading extents; the second with an addend before them.
std::optional<Counts> product(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> product_and_addend(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> linear(const RecordedCall& call, const Arithmetic&);  // x[...,k] w[n,k]
// Attention on q [B,H,T,E], k and v [B,K,S,E]; `tokens_first`: [B,T,H,E]. Backward calls have the
// gradient of the output first. Arithmetic: per score, and per row (forward) or element of the
// output's gradient (backward).
std::optional<Counts> attention(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> attention_tokens_first(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> attention_backward(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> attention_backward_tokens_first(const RecordedCall& call, const Arithmetic&);
// Norms of the first operand, or of the second in a backward call, over the extents that operand 1
// or 2 lists.
std::optional<Counts> norm(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> norm_backward(const RecordedCall& call, const Arithmetic&);
// Softmax over one axis: reads the tensor operands, writes one like the first.
std::optional<Counts> rows(const RecordedCall& call, const Arithmetic&);
// A loss that picks one element of each row; its gradient fills the rows.
std::optional<Counts> picked(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> picked_backward(const RecordedCall& call, const Arithmetic&);
// Rows of a table by indices; its gradient.
std::optional<Counts> lookup(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> lookup_backward(const RecordedCall& call, const Arithmetic&);
// Element by element, with broadcast operands.
std::optional<Counts> pointwise(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> compare(const RecordedCall& call, const Arithmetic&);  // yields booleans
std::optional<Counts> power(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> gelu(const RecordedCall& call, const Arithmetic&);  // exact, or by tanh
std::optional<Counts> gelu_backward(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> dropout(const RecordedCall& call, const Arithmetic&);  // writes a mask too
// Over the axes of operand 1, or all.
std::optional<Counts> reduction(const RecordedCall& call, const Arithmetic&);
// Moves.
std::optional<Counts> copy(const RecordedCall& call, const Arithmetic&);  // from operand 1 to 0
std::optional<Counts> concat(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> fill(const RecordedCall& call, const Arithmetic&);    // fills operand 0
std::optional<Counts> gather(const RecordedCall& call, const Arithmetic&);  // by integer operands
// Lists of tensors, element by element; and an optimizer's update of parameters, gradients, states.
std::optional<Counts> lists(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> update(const RecordedCall& call, const Arithmetic&);
// A generated kernel: reads its tensor operands.
std::optional<Counts> generated(const RecordedCall& call, const Arithmetic&);
}  // namespace counts

}  // namespace ridge::record
