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
  // The work follows from the keys of the step, and its pairs of a query and a key.
  int64_t macs_per_pair = 0, bytes_per_key = 0;
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
// Convolutions of x [N,C,...] or [C,...] with a weight [O,C/groups,...]. They differ in where they
// have the stride, the padding and the dilation: after the bias; after it with the padding first;
// after the weight, where no bias is; after the window and the bias. The last one has the gradient
// of the output first.
std::optional<Counts> convolution(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> convolution_of_kind(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> convolution_padding_first(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> convolution_without_bias(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> convolution_of_window(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> convolution_backward(const RecordedCall& call, const Arithmetic&);
// Norms of x [N,C,...] over channels or groups of them.
std::optional<Counts> channel_norm(const RecordedCall& call, const Arithmetic&);
// Pooling by a window, and to a size. FLOPs: per element that is read.
std::optional<Counts> average_pool(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> max_pool(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> pooling_to(const RecordedCall& call, const Arithmetic&);
// Writes one like the second operand.
std::optional<Counts> like_second(const RecordedCall& call, const Arithmetic&);
// Recurrent networks: each token meets each matrix of the list of weights; one layer of them, whose
// matrices are operands 1 and 2. FLOPs: how often.
std::optional<Counts> recurrent(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> recurrent_backward(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> recurrent_layer(const RecordedCall& call, const Arithmetic&);
// Sums of rows of a table by indices. FLOPs: per element of a row.
std::optional<Counts> bag(const RecordedCall& call, const Arithmetic&);
// Fourier transforms over the axes of operand 1: 5 N log2 N FLOPs, half of them for real numbers.
std::optional<Counts> fourier(const RecordedCall& call, const Arithmetic&);
// Products of groups, which cut the rows, columns or depth of one of the matrices.
std::optional<Counts> grouped_product(const RecordedCall& call, const Arithmetic&);
// Products of served models, x [...,k] and a weight [n,k] or [k,n], which may be packed; the second
// has its output before them.
std::optional<Counts> serving_product(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> serving_product_into(const RecordedCall& call, const Arithmetic&);
// x [T,D], weights [experts,2F,D] and [experts,D,F] or transposed, and the chosen experts [T,k] or
// the numbers of experts and of those chosen. Weights may be packed.
std::optional<Counts> experts(const RecordedCall& call, const Arithmetic&);
// A gate and what it multiplies stand side by side in x; the output has half its size.
std::optional<Counts> gated(const RecordedCall& call, const Arithmetic&);
// Rotates in place the tensors that have a row for each position.
std::optional<Counts> rotated(const RecordedCall& call, const Arithmetic&);
// Writes the keys and values of tokens, the first two operands, into a cache.
std::optional<Counts> appended(const RecordedCall& call, const Arithmetic&);
// Attention over a paged cache: q [T,H,E]. The keys follow from the step's annotation.
std::optional<Counts> paged_attention(const RecordedCall& call, const Arithmetic&);
// Products of two matrices that flags turn: operands 0 and 2 by row, or 0 and 5 by column.
std::optional<Counts> product_by_rows(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> product_by_columns(const RecordedCall& call, const Arithmetic&);
// Transformer Engine's: a weight [n,k] and x [...,k]; x, the norm's two, and the weight.
std::optional<Counts> weight_and_input(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> norm_and_linear(const RecordedCall& call, const Arithmetic&);
// Sequences one after the other: q [T,H,E], k, v, where the sequences of q and of k begin, and the
// longest of each. A backward call has five more before where they begin, and the gradient first.
std::optional<Counts> packed_attention(const RecordedCall& call, const Arithmetic&);
std::optional<Counts> packed_attention_backward(const RecordedCall& call, const Arithmetic&);
// One product of experts: rows [R,k], weights [experts,n,k], and the chosen experts, operand 8.
std::optional<Counts> expert_product(const RecordedCall& call, const Arithmetic&);
// A generated kernel: reads its tensor operands.
std::optional<Counts> generated(const RecordedCall& call, const Arithmetic&);
}  // namespace counts

}  // namespace ridge::record
