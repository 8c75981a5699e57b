// SPDX-License-Identifier: Apache-2.0
// The one list of passes, in the order in which they run, and this room's by name.
#pragma once

#include "passes/pass.h"

// A line: the pass, and the level that adds it (none: it runs where it is asked for by name).
//   ALL   every target runs it: src/passes/NAME.cc
//   CPU   that backend does: src/backends/cpu/passes/NAME.cc
//   CUDA  likewise, and plans by data sheet, which are GPUs': src/backends/cuda/passes/NAME.cc
#define RIDGE_PASSES(ALL, CPU, CUDA)     \
  /* forward */                          \
  ALL(store_bf16, none)                  \
  ALL(store_f32, none)                   \
  ALL(merge_qkv, fused)                  \
  ALL(merge_gate_up, fused)              \
  ALL(flash_attention, fused)            \
  ALL(fuse_softmax_cross_entropy, fused) \
  ALL(fuse_rms_norm, kernels)            \
  ALL(fuse_rope, kernels)                \
  ALL(fuse_glu, kernels)                 \
  ALL(autocast_bf16, none)               \
  ALL(group_products, fused)             \
  CPU(quantize_activations, none)        \
  CPU(pack_weights, kernels)             \
  ALL(expand, baseline)                  \
  /* step */                             \
  ALL(recompute, none)                   \
  ALL(fuse_adamw, kernels)               \
  CUDA(fuse_rope_append, kernels)        \
  CUDA(fuse_append_attention, kernels)   \
  CUDA(fuse_row_products, kernels)       \
  CPU(native_gemm, kernels)              \
  CUDA(native_gemm, kernels)             \
  CUDA(transpose_operands, kernels)      \
  ALL(generate_pointwise, compiled)      \
  /* target */                           \
  ALL(legalize, baseline)

// For the columns that a reader of the list leaves out, and for declarations.
#define RIDGE_NO_PASS(name, level)
#define RIDGE_DECLARE_PASS(name, level) extern const ::ridge::passes::Pass name##_pass;
#define RIDGE_PASS_ADDRESS(name, level) &name##_pass,

namespace ridge::passes {

RIDGE_PASSES(RIDGE_DECLARE_PASS, RIDGE_NO_PASS, RIDGE_NO_PASS)

}  // namespace ridge::passes
