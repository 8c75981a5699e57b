// SPDX-License-Identifier: Apache-2.0
// Shared by attention and flash_attention: extents, shape rule, closed forms and the
// double-precision reference.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace ridge::ops {

// q [N,H,E], k and v [N,K,E] with N = B T; query head h reads KV head h / (H/K). Query i attends to
// key j of its own sequence if j <= i (causal) and j > i - window (window > 0).
struct AttentionShape {
  int64_t batch, sequence, heads, kv_heads, head_size;
  bool causal;
  int64_t window;
  double scale;
  // `begin` is that of the query's document.
  bool sees(int64_t query, int64_t key, int64_t begin) const {
    return key >= begin && (!causal || (key <= query && (window == 0 || key > query - window)));
  }
};

// An optional operand: positions i32[N] of the tokens in their documents, in rows that several
// documents share (packing). Token t of a row, at position p, attends to no key before t - p. From
// one token to the next, a position rises by 1 or falls. Returns -1 if the call lacks it.
int document_positions(const Call& call, int index);
// Checks the operand, if there is one: its type, and that attention is causal.
void expect_document_positions(std::string_view op, const Call& call, int index);
// The first token of a token's document, within its row. `positions` may be null.
int64_t document_begin(const Tensor64* positions, int64_t row, int64_t length, int64_t token);

inline constexpr int kForwardPositions = 3, kBackwardPositions = 6;  // where the operand is

AttentionShape attention_shape(std::string_view op, const Call& call, size_t first_input = 0);

// Model work: the full square (also if causal), or T x min(T, window) for a window layer.
ModelWork attention_model_work(const AttentionShape& shape);

// Closed form for a number of scores computed per head and sequence.
Work attention_work(const AttentionShape& shape, int64_t scores);

// The scores that the backward kernels compute, over all heads and sequences, each once. `call` is
// one of flash_attention_backward.
int64_t flash_backward_scores(const Call& call);

struct AttentionResults {
  std::vector<double> o;              // [N,H,E]
  std::vector<double> lse;            // [N,H]
  std::vector<double> probabilities;  // [B,H,T,T]
};
AttentionResults attention_reference(const AttentionShape& shape,
                                     Inputs64 qkv,
                                     const Tensor64* positions);

// Test cases of both ops.
std::vector<Case> attention_cases();

std::vector<AttrSpec> attention_attrs();

}  // namespace ridge::ops
