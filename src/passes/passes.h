// SPDX-License-Identifier: Apache-2.0
// Lists all passes in the order in which they run, and declares those of src/passes.
#pragma once

#include "passes/pass.h"

// A row: the pass, its stage, the graphs it serves, the level that adds it (none: it runs only when
// it is switched on by name), its summary, and its trade (see Pass).
//   ALL   runs on every target: src/passes/NAME.cc
//   CPU   runs on CPUs: src/backends/cpu/passes/NAME.cc
//   CUDA  runs on GPUs, and in plans for a GPU's data sheet: src/backends/cuda/passes/NAME.cc
#define RIDGE_PASSES(ALL, CPU, CUDA)                                                                \
  ALL(lora, kForward, kTraining, none,                                                              \
      "freeze the model and train low-rank adapters of projections (--lora-rank, --lora-targets)",  \
      "trains fewer parameters: no gradients and moments of the others, but more launches")         \
  ALL(shard_tensor_parallel, kForward, kInference, none,                                            \
      "cut heads and MLPs into shards of ranks that share the model (=4: of 4 ranks)",              \
      "bytes sent to other ranks, for a part of the weights, the KV cache and the work")            \
  ALL(train_tensor_parallel, kForward, kTraining, none,                                             \
      "cut heads, MLPs and vocabulary into shards of ranks that train a model together (=4: of 4)", \
      "bytes sent to other ranks, for a part of the weights, the moments and the work")             \
  ALL(sequence_parallel, kForward, kTraining, none,                                                 \
      "ranks that share a model keep parts of the tokens between its cut products",                 \
      "gathers in the place of sums, for norms and activations that are not repeated")              \
  CUDA(store_fragments, kForward, kInference, none,                                                 \
       "keep quantized matrices in blocks, in the order in which tensor cores read them",           \
       "the last bits differ from those of weights unpacked to bf16")                               \
  ALL(store_bf16, kForward, kInference, none, "unpack matrices to bf16 when loading",               \
      "more memory than quantized blocks, less precision than fp32")                                \
  ALL(store_f32, kForward, kInference, none, "unpack matrices to fp32 when loading",                \
      "more memory and bytes than the file's types")                                                \
  ALL(merge_qkv, kForward, kBoth, fused, "merge the q, k and v projections into one GEMM", "")      \
  ALL(merge_gate_up, kForward, kBoth, fused, "merge the gate and up projections into one GEMM",     \
      "")                                                                                           \
  ALL(flash_attention, kForward, kBoth, fused,                                                      \
      "compute attention in tiles, without writing the S x S matrix", "")                           \
  ALL(fuse_softmax_cross_entropy, kForward, kBoth, fused,                                           \
      "compute the loss in one kernel, without writing probabilities", "")                          \
  ALL(fuse_rms_norm, kForward, kBoth, kernels,                                                      \
      "compute RMSNorm and the residual add before it in one kernel", "")                           \
  ALL(fuse_rope, kForward, kBoth, kernels,                                                          \
      "split and rotate q, k and v of a merged projection in one kernel", "")                       \
  ALL(fuse_glu, kForward, kBoth, kernels,                                                           \
      "fuse the activation and the multiplication of the gated MLP", "")                            \
  ALL(autocast_bf16, kForward, kBoth, none,                                                         \
      "run activations and GEMMs in bf16 with fp32 master weights",                                 \
      "lower precision; the loss stays within 0.02 of fp32")                                        \
  ALL(autocast_f16, kForward, kTraining, none,                                                      \
      "run activations and GEMMs in fp16 with fp32 master weights and loss scaling",                \
      "lower precision and range; steps whose gradients overflow are skipped")                      \
  ALL(group_products, kForward, kInference, fused,                                                  \
      "run all GEMMs that share an input, with quantized weights, in one launch", "")               \
  CPU(quantize_activations, kForward, kInference, none,                                             \
      "round activations to 16 bits before GEMMs with quantized weights (=8: to 8 bits; with AMX "  \
      "8 bits or bf16), and in the attention of a prompt",                                          \
      "a precision of 1/64,516 of each block's largest value (in 8 bits 1/254; in bf16 1/512 of "   \
      "each value); in attention 1/65,534 of a row's length")                                       \
  CPU(pack_weights, kForward, kInference, kernels,                                                  \
      "repack quantized weights in the order in which GEMMs read them",                             \
      "a lookup of one row reads a row block of 16")                                                \
  CPU(fuse_gate_up, kForward, kInference, kernels,                                                  \
      "compute gate, up and their GLU in one kernel, with quantized weights", "")                   \
  ALL(expand, kForward, kBoth, baseline, "expand the remaining composites into primitives",         \
      "more launches and bytes than a fused form")                                                  \
  ALL(split_activations, kForward, kBoth, none,                                                     \
      "one kernel for each operation of silu and of the tanh GELU, as in an eager framework",       \
      "more launches and bytes, to compare with fused forms")                                       \
  ALL(recompute, kStep, kTraining, none,                                                            \
      "activation checkpointing: keep each layer's input and recompute the rest for the gradient "  \
      "(=4: of the first 4 layers)",                                                                \
      "about a third more FLOPs for less memory")                                                   \
  ALL(recompute_attention, kStep, kTraining, none,                                                  \
      "compute the scores of attention again for the gradient",                                     \
      "more FLOPs for less memory; nothing with flash attention, which does so by itself")          \
  ALL(recompute_nested, kStep, kTraining, none,                                                     \
      "keep the input of every sqrt(L)-th of L layers; recompute the others, then the layers",      \
      "about two thirds more FLOPs for the least memory")                                           \
  ALL(data_parallel, kStep, kTraining, none,                                                        \
      "average gradients and the loss over ranks that train on different data (=4: over 4 ranks)",  \
      "bytes sent to other ranks, for sequences that they train on meanwhile")                      \
  ALL(zero, kStep, kTraining, none,                                                                 \
      "share out moments and master weights (=1), gradients (=2) and parameters (=3) over ranks",   \
      "bytes sent to other ranks, for memory")                                                      \
  ALL(fuse_adamw, kStep, kTraining, kernels,                                                        \
      "update many tensors in one launch and write their 16-bit copies", "")                        \
  CUDA(fuse_rope_append, kStep, kInference, kernels,                                                \
       "normalize and rotate heads and append them to the KV cache in one kernel", "")              \
  CUDA(fuse_append_attention, kStep, kInference, kernels,                                           \
       "rotate heads, append to the KV cache and attend in one kernel", "")                         \
  CUDA(fuse_all_reduce, kStep, kInference, kernels,                                                 \
       "add up a few rows over the ranks, add the residual and normalize in one kernel", "")        \
  CUDA(fuse_skinny_gemm, kStep, kInference, kernels,                                                \
       "fuse norms, gates and residual adds into GEMMs of a few rows", "")                          \
  CPU(batch_invariant, kStep, kInference, none,                                                     \
      "compute each token with the same kernels and sums, whatever shares its run",                 \
      "no kernels for few tokens, nor attention of a prompt in tiles: less speed for the same "     \
      "bits in any batch")                                                                          \
  CPU(native_gemm, kStep, kBoth, kernels, "run bf16 GEMMs on native AMX tile kernels",              \
      "the last bits differ from the library's; the error is the same")                             \
  CUDA(native_gemm, kStep, kBoth, kernels,                                                          \
       "run fp32 GEMMs as sums of bf16 pieces on native Hopper kernels",                            \
       "the last bits differ from the library's; the error is the same")                            \
  CUDA(transpose_operands, kStep, kTraining, kernels,                                               \
       "transpose an operand of a GEMM if that saves more time than it costs",                      \
       "more bytes and one more launch for less time")                                              \
  ALL(fuse_softmax, kStep, kInference, compiled,                                                    \
      "scale, mask and softmax the scores of attention in one kernel", "")                          \
  ALL(generate_pointwise, kStep, kBoth, compiled,                                                   \
      "generate one kernel per cluster of pointwise nodes", "")                                     \
  ALL(legalize, kTarget, kBoth, baseline, "insert a copy where a kernel does not support a view",   \
      "copies cost bytes, but some kernels cannot run without them")

// Expansions of a row: nothing, the declarations, the Pass, its address.
#define RIDGE_NO_PASS(...)
#define RIDGE_DECLARE_PASS(name, ...)                                                            \
  ::ridge::Graph run_##name(const ::ridge::Graph& graph, ::ridge::passes::PassContext& context); \
  extern const ::ridge::passes::Pass name##_pass;
#define RIDGE_DEFINE_PASS(name, stage, serves, level, summary, trade)                            \
  constinit const ::ridge::passes::Pass name##_pass{                                             \
      #name,     ::ridge::passes::Stage::stage, ::ridge::passes::Serves::serves, summary, trade, \
      run_##name};
#define RIDGE_PASS_ADDRESS(name, ...) &name##_pass,

namespace ridge::passes {

RIDGE_PASSES(RIDGE_DECLARE_PASS, RIDGE_NO_PASS, RIDGE_NO_PASS)

}  // namespace ridge::passes
