// SPDX-License-Identifier: Apache-2.0
// Arguments of the loss kernels. softmax_cross_entropy computes the loss from logits without
// writing probabilities; log_softmax (softmax.h) and nll_loss compute it in two steps, as an eager
// framework does. T is float, uint16_t (bf16) or Float16.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct SoftmaxCrossEntropy {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  StridedRows<const T> logits;      // [N, V]
  const int32_t* labels = nullptr;  // [N]; -1: the row is not counted
  float* lse = nullptr;             // [N], log of the sum of exp(logits), also of rows not counted
  float* loss = nullptr;        // one: mean over counted rows of lse - logits[label]; 0 if none is
  int32_t* count = nullptr;     // one: counted rows
  double* workspace = nullptr;  // the backend's softmax_cross_entropy_workspace_bytes
  // In a part of the vocabulary, V is a label of another part; only lse and at_label are written.
  bool is_part = false;
  float* at_label = nullptr;  // [N]: logits[label], 0 if it is not here
};

// d_logits = (exp(logits - lse) - [column is label]) d_loss / count, 0 in rows not counted.
template <typename T>
struct SoftmaxCrossEntropyBackward {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  StridedRows<const T> logits;      // [N, V]
  const int32_t* labels = nullptr;  // [N]
  const float* lse = nullptr;       // [N], from the forward
  const float* d_loss = nullptr;    // one
  const int32_t* count = nullptr;   // one, from the forward
  StridedRows<T> d_logits;          // [N, V]; may be logits
  bool is_part = false;             // a label of V is in another part of the vocabulary
};

// The loss of logits whose columns are in R parts.
struct CrossEntropyOfParts {
  int64_t tokens = 0;               // N
  int64_t parts = 0;                // R
  const int32_t* labels = nullptr;  // [N]; -1: the row is not counted
  const float* part_lse = nullptr;  // [R, N]
  const float* at_label = nullptr;  // [R, N]: 0 in all parts but one
  float* loss = nullptr;            // one: as in SoftmaxCrossEntropy
  float* lse = nullptr;             // [N]
  int32_t* count = nullptr;         // one
};

template <typename T>
struct NllLoss {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  StridedRows<const T> log_p;       // [N, V]
  const int32_t* labels = nullptr;  // [N]; -1: the row is not counted
  float* loss = nullptr;            // one: mean over counted rows of -log_p[label]; 0 if none is
  int32_t* count = nullptr;         // one: counted rows
};

template <typename T>
struct NllLossBackward {
  int64_t tokens = 0;               // N
  int64_t vocabulary = 0;           // V
  const int32_t* labels = nullptr;  // [N]
  const float* d_loss = nullptr;    // one
  const int32_t* count = nullptr;   // one, from the forward
  StridedRows<T> d_log_p;           // [N, V]: -d_loss / count at the label, 0 elsewhere
};

}  // namespace ridge::backends
