// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of ops that several backends bind; backends/kernels/ defines what they compute.
// Workspaces are for the current number of OpenMP threads, with which the kernel must run, too.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/kernels/index_check.h"
#include "backends/kernels/adamw.h"
#include "backends/kernels/causal_mask.h"
#include "backends/kernels/copy.h"
#include "backends/kernels/embedding.h"
#include "backends/kernels/fill.h"
#include "backends/kernels/glu.h"
#include "backends/kernels/losses.h"
#include "backends/kernels/reduce.h"
#include "backends/kernels/rms_norm.h"
#include "backends/kernels/rope.h"
#include "backends/kernels/sample.h"
#include "backends/kernels/softmax.h"

namespace ridge::backends::cpu {

// Fast if the innermost target dimension is contiguous and the source is contiguous along that
// dimension (runs) or another one (transpositions), or repeats one element along it. Any other
// layout runs a scalar loop. Throws InternalError for a rank out of range or a negative extent or
// stride.
template <typename From, typename To>
void copy(const Copy<From, To>& call);

// T is float, uint16_t (bf16), Float16 or int32_t.
template <typename T>
void fill(const Fill<T>& call);

template <typename In, typename Out>
void reduce_rows(const ReduceRows<In, Out>& call);

int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns);

template <typename In, typename Out>
void sum_columns(const SumColumns<In, Out>& call);

int64_t sum_squares_workspace_bytes(int64_t elements);

// The sum of squares of a contiguous tensor of float, uint16_t (bf16) or Float16, in fp32 within
// 1024 elements, then in double; the same bits for any thread count.
template <typename In>
double sum_squares(const In* x, int64_t elements, double* workspace);

template <typename T>
void softmax(const Softmax<T>& call);
template <typename T>
void softmax_backward(const SoftmaxBackward<T>& call);

template <typename T>
void log_softmax(const Softmax<T>& call);
template <typename T>
void log_softmax_backward(const SoftmaxBackward<T>& call);

template <typename T>
void causal_mask(const CausalMask<T>& call);

// With act(x) = x sigmoid(u), where u is x, or 2 sqrt(2/pi) (x + 0.044715 x^3) for GELU, the
// relative error of act in fp32 is within 6e-7 + 2e-7 |u| (rounding u costs an error proportional
// to |u|). Below u = -87, act is 0 or about 1e-36 in size.
template <typename T>
void glu(const Glu<T>& call);

// The same on the calling thread alone, for a task of another kernel.
void glu_on_thread(const Glu<float>& call);

template <typename T>
void glu_backward(const GluBackward<T>& call);

template <typename T>
void rms_norm(const RmsNorm<T>& call);
template <typename T>
void add_rms_norm(const AddRmsNorm<T>& call);

int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width);

// dx may also alias dy.
template <typename T>
void rms_norm_backward(const RmsNormBackward<T>& call);

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// The losses sum in double in row order, so the result does not depend on the thread count. They
// return kNoBadRow, or the first row with a label outside [-1, V) (of a part [-1, V]); in that case
// nothing is written.
template <typename T>
int64_t softmax_cross_entropy(const SoftmaxCrossEntropy<T>& call);
template <typename T>
int64_t softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackward<T>& call);

void cross_entropy_of_parts(const CrossEntropyOfParts& call);

template <typename T>
int64_t nll_loss(const NllLoss<T>& call);
template <typename T>
int64_t nll_loss_backward(const NllLossBackward<T>& call);

// Returns kNoBadRow, or the first token whose id is outside [-1, V); in that case nothing is
// written.
template <typename Table, typename T>
int64_t embedding(const Embedding<Table, T>& call);

// Sums in token order, so the bits are the same for any thread count. Returns the same as
// embedding.
template <typename T>
int64_t embedding_backward(const EmbeddingBackward<T>& call);

// Throws InternalError for an odd head size.
template <typename T>
void rope(const Rope<T>& call);

// Fills a table. The frequencies of the pairs are computed once.
class RopeAngles {
 public:
  explicit RopeAngles(const RopeTable& call);
  void fill() const;

 private:
  RopeTable call_;
  std::vector<double> steps_;  // radians from one position to the next, padded to whole vectors
};

int64_t sample_workspace_bytes(int64_t vocabulary);

// Bound: for a greedy slot memory, one read of the logits; else sorting the candidates.
void sample(const Sample& call);

// Updates all tensors in one parallel region, each with the bits that it has alone.
void adamw_multi(std::span<const AdamwTensor> tensors, const AdamwStep& step);

void clip_coefficient(const ClipCoefficient& call);
void loss_scale(const LossScale& call);

}  // namespace ridge::backends::cpu
