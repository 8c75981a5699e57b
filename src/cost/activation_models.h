// SPDX-License-Identifier: Apache-2.0
// Published closed forms of the memory of activations, as named conventions to compare exact plans
// with. They describe other programs: GPT layers with dropout and an MLP of two GEMMs.
#pragma once

#include <cstdint>

namespace ridge::cost {

// B sequences, T tokens in each, D model width, H heads, L layers, V vocabulary.
struct ActivationExtents {
  double batch = 0, sequence = 0, model = 0, heads = 0, layers = 0, vocabulary = 0;
};

// The backward pass computes this again instead of reading it.
enum class Recompute : uint8_t { kNone, kAttention, kBlock, kFull };

// Korthikanti et al. 2022 (arXiv:2205.05198), equations 1 and 2 and table 2 without parallelism, in
// bytes: a layer keeps T B D (34 + 5 H T / D) with 16-bit activations and dropout; without the
// scores of attention (their selective recomputation) 34 T B D; only its input (their full
// recomputation) 2 T B D. They have no figure for kFull, which keeps fewer inputs: it gets
// kBlock's.
double korthikanti_bytes(const ActivationExtents& extents, Recompute recompute);

// The nanoGPT memory study (erees.dev, 2023), in bytes: fp16 autocast with fp32 weights, every
// activation kept, attention with its matrix of scores.
struct NanoGptMemory {
  double parameters = 0;   // N = L (12 D^2 + 2 D) + D (V + T) + D
  double activations = 0;  // L (36 BTD + 6 BHT^2) + 6 BTD + 6 BTV
  double steady = 0;       // 16 N, without buffers, and 16 BT of data
  double peak = 0;         // all of these and 4 BTV
};
NanoGptMemory nano_gpt_memory(const ActivationExtents& extents);

}  // namespace ridge::cost
