// SPDX-License-Identifier: Apache-2.0
// A KV cache in device memory: where the tokens of a run lie in it, and writing their keys and
// values there, on CUDA. A cache is [blocks, block_tokens, K, E]; position p of slot s lies in cell
// p mod ring of the blocks that row s of the table names. T is float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/token_heads.h"

namespace ridge::backends::cuda {

// A position of -1 is padding; so is a token whose position, slot or block is out of range.
struct CacheCells {
  int64_t tokens = 0;                    // N
  const int32_t* positions = nullptr;    // [N]
  const int32_t* slots = nullptr;        // [N]
  const int32_t* block_table = nullptr;  // [slot_count, blocks_per_slot]
  int64_t slot_count = 0;
  int64_t blocks_per_slot = 0;
  int64_t blocks = 0;
  int64_t block_tokens = 0;
  int64_t most_position = 0;
  // A word each, or null (watched.h): the first token of a position or a slot, and the first entry
  // of the table, that is out of range.
  int32_t* bad_position = nullptr;
  int32_t* bad_slot = nullptr;
  int32_t* bad_block = nullptr;
};

template <typename T>
struct Cache {
  T* data = nullptr;  // [blocks, block_tokens, K, E]
  int64_t kv_heads = 0;
  int64_t head_size = 0;
};

template <typename T>
struct KvAppend {
  CacheCells cells;
  TokenHeads<const T> k, v;  // [N, K, E]
  Cache<T> keys, values;
};

// Of tokens that share a cell the last one stays. One launch.
template <typename T>
cudaError_t launch_kv_append(const KvAppend<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
