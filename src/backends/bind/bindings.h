// SPDX-License-Identifier: Apache-2.0
// Bindings that backends share. Each one builds an op's Kernel from launchers that the backend
// supplies, and knows the op's operands: layouts, workspace, checks and kernel arguments. A binding
// that only one backend uses is in that backend's folder.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/kernels/adamw.h"
#include "backends/kernels/cached_primitives.h"
#include "backends/kernels/causal_mask.h"
#include "backends/kernels/copy.h"
#include "backends/kernels/embedding.h"
#include "backends/kernels/fill.h"
#include "backends/kernels/glu.h"
#include "backends/kernels/kv_cache.h"
#include "backends/kernels/losses.h"
#include "backends/kernels/reduce.h"
#include "backends/kernels/rms_norm.h"
#include "backends/kernels/rope.h"
#include "backends/kernels/sample.h"
#include "backends/kernels/softmax.h"
#include "backends/launcher.h"

namespace ridge::backends::bind {

// Copies and fills.

// Makes the launch of a copy between operands of the same shape in any layouts.
using Copier = std::function<Launch(const Operand& from, const Operand& to)>;
// A Copier that uses a copy kernel: converts between f32, bf16 and f16, and moves bits if the types
// are equal (i32 too). `accumulate`: to += from, in fp32.
Launch strided_copy(const PairLaunchers<Copy>& launchers,
                    const char* op,
                    const Operand& from,
                    const Operand& to,
                    bool accumulate = false);
Kernel copy(const Copier& copier);
Kernel concat(const Copier& copier);
Kernel fill(TypedLaunchers<Fill> floats, Launcher<Fill<int32_t>> integers);
Kernel zero(TypedLaunchers<Fill> floats);

// Row kernels.

Kernel softmax(TypedLaunchers<Softmax> launchers);
Kernel softmax_backward(TypedLaunchers<SoftmaxBackward> launchers);
Kernel causal_mask(TypedLaunchers<CausalMask> launchers);
Kernel log_softmax(TypedLaunchers<Softmax> launchers);
Kernel log_softmax_backward(TypedLaunchers<SoftmaxBackward> launchers);
Kernel glu(TypedLaunchers<Glu> launchers);
Kernel glu_backward(TypedLaunchers<GluBackward> launchers);
Kernel rms_norm(TypedLaunchers<RmsNorm> launchers);
Kernel add_rms_norm(TypedLaunchers<AddRmsNorm> launchers);
// The arguments of an add_rms_norm, or of another op with its operands. T: float, uint16_t.
template <typename T>
AddRmsNorm<T> add_rms_norm_of(const BindCall& call);
Kernel rms_norm_backward(TypedLaunchers<RmsNormBackward> launchers,
                         int64_t (*workspace_bytes)(int64_t tokens, int64_t width));

// Losses.

Kernel nll_loss(TypedLaunchers<NllLoss> launchers);
Kernel nll_loss_backward(TypedLaunchers<NllLossBackward> launchers);
Kernel softmax_cross_entropy(TypedLaunchers<SoftmaxCrossEntropy> launchers,
                             int64_t (*workspace_bytes)(int64_t tokens));
Kernel softmax_cross_entropy_backward(TypedLaunchers<SoftmaxCrossEntropyBackward> launchers);
// The launchers of softmax_cross_entropy.
Kernel cross_entropy_part(TypedLaunchers<SoftmaxCrossEntropy> launchers,
                          int64_t (*workspace_bytes)(int64_t tokens));
Kernel cross_entropy_of_parts(Launcher<CrossEntropyOfParts> launcher);

// Tokens and positions.

Kernel embedding(PairLaunchers<Embedding> launchers);
Kernel embedding_backward(TypedLaunchers<EmbeddingBackward> launchers);
Kernel rope_table(Launcher<RopeTable> launcher);
Kernel rope(TypedLaunchers<Rope> launchers);
Kernel rope_qkv(TypedLaunchers<Rope> launchers);
Kernel rope_qkv_backward(TypedLaunchers<Rope> launchers);
Kernel sample(Launcher<Sample> launcher,
              int64_t (*workspace_bytes)(int64_t rows, int64_t vocabulary));

// KV cache.

Kernel kv_append(CacheLaunchers<KvAppend> launchers);
// Backends differ in their kernels' arguments, but not in the layouts of the operands.
Kernel cached_attention(Bind bind,
                        int64_t (*workspace_bytes)(int64_t tokens,
                                                   int64_t heads,
                                                   int64_t kv_heads,
                                                   int64_t head_size,
                                                   int64_t keys));
// Workspace of cached_scores and cached_mix; null: none.
using CachedWorkspace = int64_t (*)(int64_t head_size, int64_t columns);
Kernel cached_scores(CacheLaunchers<CachedScores> launchers, CachedWorkspace workspace_bytes);
Kernel cached_mask(TypedLaunchers<CachedMask> launchers);
Kernel cached_softmax(TypedLaunchers<CachedSoftmax> launchers);
Kernel cached_mix(CacheLaunchers<CachedMix> launchers, CachedWorkspace workspace_bytes);

// Sums.

struct SumKernels {
  const char* backend;  // the backend's name, for messages
  // Sums are from the input's type to the same type, from the input's type to fp32, and from fp32
  // to the output's type.
  template <typename T>
  using SameRows = ReduceRows<T, T>;
  template <typename T>
  using RowsToF32 = ReduceRows<T, float>;
  template <typename T>
  using SameColumns = SumColumns<T, T>;
  template <typename T>
  using ColumnsOfF32 = SumColumns<float, T>;
  TypedLaunchers<SameRows> rows;
  TypedLaunchers<RowsToF32> rows_to_f32;
  TypedLaunchers<SameColumns> columns;
  TypedLaunchers<ColumnsOfF32> columns_of_f32;
  int64_t (*columns_workspace_bytes)(int64_t rows, int64_t columns);
  int64_t workspace_alignment;  // the workspace of sum_columns needs it
  // Launches of sum_columns; null: each node counts as one launch.
  int (*columns_launches)(int64_t rows, int64_t columns) = nullptr;
};
Kernel reduce_sum(const SumKernels& kernels);

// Optimizer.

// One AdamW step on several tensors.
struct AdamwUpdate {
  std::vector<AdamwTensor> tensors;
  AdamwStep step;
  bool is_background = false;  // other nodes may need the device meanwhile
};
Kernel adamw(Launcher<AdamwUpdate> launcher);
Kernel adamw_multi(Launcher<AdamwUpdate> launcher);
int64_t adamw_tensor_count(const Call& call);
// The sum of squares over all tensors.
struct SquaresSum {
  std::vector<SquaresTensor> tensors;
  float* y = nullptr;  // a single value
  double* workspace = nullptr;
};
Kernel sum_squares(Launcher<SquaresSum> launcher,
                   int64_t (*workspace_bytes)(std::span<const SquaresTensor>));
// The operands of a sum_squares that is not bound yet: sizes without pointers.
std::vector<SquaresTensor> squares_of(const Call& call);
Kernel clip_coefficient(Launcher<ClipCoefficient> launcher);
Kernel loss_scale(Launcher<LossScale> launcher);
// total += term.
Kernel accumulate(std::function<Launch(const Operand& term, const Operand& total)> add);

}  // namespace ridge::backends::bind
