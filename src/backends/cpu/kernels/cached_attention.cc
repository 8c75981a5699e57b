// SPDX-License-Identifier: Apache-2.0
// One token and one KV head at a time: the G query heads of a KV head share each key and value that is loaded.
#include "backends/cpu/kernels/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cached_attention.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"
#include "base/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Query heads that go through the keys together: their accumulators stay in registers.
constexpr int64_t kHeads = 4;

// Cells of one slot that lie one after the other in one block.
struct Run {
  int64_t row;    // of the cache
  int64_t index;  // of the first, among all cells walked
  int64_t count;
};

// Calls visit(Run) for `count` cells from `first` on, around the ring.
template <typename Visit>
HWY_INLINE void for_each_run(const CacheCells& cells, int64_t slot, int64_t first, int64_t count, const Visit& visit) {
  const int64_t ring = cells.ring();
  for (int64_t done = 0; done < count;) {
    const int64_t cell = (first + done) % ring;
    const int64_t left = cells.block_tokens - cell % cells.block_tokens;
    const int64_t run = HWY_MIN(left, count - done);
    visit(Run{cells.row(slot, cell), done, run});
    done += run;
  }
}

// scores[g][index + j] = q[g] . k[j] for the keys of a run; scores are `stride` apart.
template <int kCount, typename T>
HWY_INLINE void score_run(const T* const* q, const Cache<const T>& keys, int64_t kv_head, const Run& run, float* scores,
                          int64_t stride) {
  const F32 d;
  const int64_t size = keys.head_size;
  for (int64_t j = 0; j < run.count; ++j) {
    const T* key = keys.head(run.row + j, kv_head);
    V32 sums[kCount];
    for (int g = 0; g < kCount; ++g) sums[g] = hn::Zero(d);
    for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
      const V32 k = load(part, key + i);
      for (int g = 0; g < kCount; ++g) sums[g] = hn::MulAdd(load(part, q[g] + i), k, sums[g]);
    });
    for (int g = 0; g < kCount; ++g) scores[g * stride + run.index + j] = hn::GetLane(hn::SumOfLanes(d, sums[g]));
  }
}

// o[g] (+)= sum over j of p[g][index + j] v[j]; o is [kCount, E] in fp32.
template <int kCount, typename T>
HWY_INLINE void mix_run(const float* p, int64_t stride, const Cache<const T>& values, int64_t kv_head, const Run& run,
                        float* o) {
  const F32 d;
  const int64_t size = values.head_size, step = values.kv_heads * size;
  for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
    V32 sums[kCount];
    for (int g = 0; g < kCount; ++g) sums[g] = load(part, o + g * size + i);
    const T* value = values.head(run.row, kv_head) + i;
    for (int64_t j = 0; j < run.count; ++j, value += step) {
      const V32 v = load(part, value);
      for (int g = 0; g < kCount; ++g) sums[g] = hn::MulAdd(hn::Set(d, p[g * stride + run.index + j]), v, sums[g]);
    }
    for (int g = 0; g < kCount; ++g) store(part, sums[g], o + g * size + i);
  });
}

// Turns scores into probabilities.
HWY_INLINE void softmax_row(float* x, int64_t count, float scale) {
  const F32 d;
  const V32 none = hn::Set(d, -std::numeric_limits<float>::infinity());
  V32 top = none;
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { top = hn::Max(top, load_or(part, x + i, none)); });
  const V32 offset = hn::MaxOfLanes(d, top);
  const V32 factor = hn::Set(d, scale * kLog2E);
  const float sum = sum_lanes(count, [&](auto part, int64_t i, V32& total) HWY_ATTR {
    const V32 e = exp2_of_negative(hn::Mul(hn::Sub(load_or(part, x + i, none), offset), factor));
    store(part, e, x + i);
    total = hn::Add(total, e);
  });
  const V32 share = hn::Set(d, 1.0f / sum);
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Mul(load(part, x + i), share), x + i); });
}

template <typename T>
HWY_INLINE void narrow_row(const float* from, int64_t count, T* to) {
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), to + i); });
}

template <typename T>
HWY_INLINE void zero_row(int64_t count, T* to) {
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(F32()), to + i); });
}

// kCount query heads from `head` on, all of one KV head.
template <int kCount, typename T>
HWY_INLINE void attend(const CachedAttention<T>& call, int64_t token, int64_t head, float* scratch) {
  const int64_t position = call.cells.positions[token], slot = call.cells.slots[token];
  const int64_t size = call.keys.head_size, kv_head = head / (call.heads / call.keys.kv_heads);
  const int64_t reach = call.window > 0 ? HWY_MIN(call.window, call.cells.ring()) : call.cells.ring();
  const int64_t count = HWY_MIN(position + 1, reach), first = position + 1 - count;
  const int64_t stride = call.most_keys();
  const T* q[kCount];
  for (int g = 0; g < kCount; ++g) q[g] = call.q.head(token, head + g);
  float* o = scratch + kCount * stride;
  for_each_run(call.cells, slot, first, count, [&](const Run& run) HWY_ATTR {
    score_run<kCount>(q, call.keys, kv_head, run, scratch, stride);
  });
  for (int g = 0; g < kCount; ++g) softmax_row(scratch + g * stride, count, call.scale);
  zero_row(kCount * size, o);
  for_each_run(call.cells, slot, first, count, [&](const Run& run) HWY_ATTR {
    mix_run<kCount>(scratch, stride, call.values, kv_head, run, o);
  });
  for (int g = 0; g < kCount; ++g) narrow_row(o + g * size, size, call.o.head(token, head + g));
}

template <typename T>
HWY_INLINE void attend_group(const CachedAttention<T>& call, int64_t token, int64_t kv_head, float* scratch) {
  const int64_t group = call.heads / call.keys.kv_heads;
  const int64_t begin = kv_head * group, end = begin + group;
  if (call.cells.positions[token] < 0) {
    for (int64_t h = begin; h < end; ++h) zero_row(call.keys.head_size, call.o.head(token, h));
    return;
  }
  for (int64_t h = begin; h < end; h += kHeads) {
    switch (HWY_MIN(kHeads, end - h)) {
      case 1: attend<1>(call, token, h, scratch); break;
      case 2: attend<2>(call, token, h, scratch); break;
      case 3: attend<3>(call, token, h, scratch); break;
      default: attend<4>(call, token, h, scratch); break;
    }
  }
}

// One row of the matrix of scores.
template <typename T>
HWY_INLINE void score_columns(const CachedAttention<T>& call, int64_t token, int64_t head, float* scratch, T* y) {
  if (call.cells.positions[token] < 0) return zero_row(call.columns, y);
  const T* q[1] = {call.q.head(token, head)};
  const int64_t kv_head = head / (call.heads / call.keys.kv_heads);
  for_each_run(call.cells, call.cells.slots[token], 0, call.columns, [&](const Run& run) HWY_ATTR {
    score_run<1>(q, call.keys, kv_head, run, scratch, call.columns);
  });
  narrow_row(scratch, call.columns, y);
}

template <typename T>
HWY_INLINE void mix_columns(const CachedAttention<T>& call, int64_t token, int64_t head, float* scratch, const T* p) {
  T* o = call.o.head(token, head);
  const int64_t size = call.values.head_size;
  if (call.cells.positions[token] < 0) return zero_row(size, o);
  const int64_t kv_head = head / (call.heads / call.values.kv_heads);
  for_lanes(call.columns, [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, p + i), scratch + i); });
  float* sums = scratch + call.columns;
  zero_row(size, sums);
  for_each_run(call.cells, call.cells.slots[token], 0, call.columns, [&](const Run& run) HWY_ATTR {
    mix_run<1>(scratch, call.columns, call.values, kv_head, run, sums);
  });
  narrow_row(sums, size, o);
}

void attend_f32(const CachedAttention<float>& c, int64_t n, int64_t k, float* s) { attend_group(c, n, k, s); }
void attend_bf16(const CachedAttention<uint16_t>& c, int64_t n, int64_t k, float* s) { attend_group(c, n, k, s); }
void score_f32(const CachedAttention<float>& c, int64_t n, int64_t h, float* s, float* y) { score_columns(c, n, h, s, y); }
void score_bf16(const CachedAttention<uint16_t>& c, int64_t n, int64_t h, float* s, uint16_t* y) {
  score_columns(c, n, h, s, y);
}
void mix_f32(const CachedAttention<float>& c, int64_t n, int64_t h, float* s, const float* p) { mix_columns(c, n, h, s, p); }
void mix_bf16(const CachedAttention<uint16_t>& c, int64_t n, int64_t h, float* s, const uint16_t* p) {
  mix_columns(c, n, h, s, p);
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_bf16);
HWY_EXPORT(score_f32);
HWY_EXPORT(score_bf16);
HWY_EXPORT(mix_f32);
HWY_EXPORT(mix_bf16);

void attend_one(const CachedAttention<float>& c, int64_t n, int64_t k, float* s) {
  HWY_DYNAMIC_DISPATCH(attend_f32)(c, n, k, s);
}
void attend_one(const CachedAttention<uint16_t>& c, int64_t n, int64_t k, float* s) {
  HWY_DYNAMIC_DISPATCH(attend_bf16)(c, n, k, s);
}
void score_one(const CachedAttention<float>& c, int64_t n, int64_t h, float* s, float* y) {
  HWY_DYNAMIC_DISPATCH(score_f32)(c, n, h, s, y);
}
void score_one(const CachedAttention<uint16_t>& c, int64_t n, int64_t h, float* s, uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(score_bf16)(c, n, h, s, y);
}
void mix_one(const CachedAttention<float>& c, int64_t n, int64_t h, float* s, const float* p) {
  HWY_DYNAMIC_DISPATCH(mix_f32)(c, n, h, s, p);
}
void mix_one(const CachedAttention<uint16_t>& c, int64_t n, int64_t h, float* s, const uint16_t* p) {
  HWY_DYNAMIC_DISPATCH(mix_bf16)(c, n, h, s, p);
}

// Scratch of one thread: the scores of the heads that go together, and their sums, in whole cache lines.
int64_t scratch_floats(int64_t heads, int64_t keys, int64_t head_size) {
  return (heads * (keys + head_size) + 15) / 16 * 16;
}

// Calls body(token, head, thread's scratch) for all tokens and `heads` heads. Neighbours go to different threads: later
// tokens see more keys.
template <typename T, typename Body>
void for_each_head(const CachedAttention<T>& call, int64_t heads, int64_t scratch, const Body& body) {
  const int64_t tasks = call.cells.tokens * heads;
  const int64_t size = call.keys.data != nullptr ? call.keys.head_size : call.values.head_size;
  const int64_t bytes = tasks * call.most_keys() * size * static_cast<int64_t>(sizeof(T));
  const int64_t parts = parts_for(bytes);
  for_each_part(parts, [&](int64_t index) {
    for (int64_t task = index; task < tasks; task += parts)
      body(task / heads, task % heads, call.workspace + index * scratch);
  });
}

}  // namespace

int64_t cached_attention_workspace_bytes(int64_t heads, int64_t head_size, int64_t most_keys) {
  return omp_get_max_threads() * scratch_floats(heads < 4 ? heads : 4, most_keys, head_size) * 4;
}

template <typename T>
void cached_attention(const CachedAttention<T>& call) {
  const int64_t scratch = scratch_floats(call.heads < 4 ? call.heads : 4, call.most_keys(), call.keys.head_size);
  for_each_head(call, call.keys.kv_heads, scratch, [&](int64_t token, int64_t kv_head, float* own) {
    attend_one(call, token, kv_head, own);
  });
}

template <typename T>
void cached_scores(const CachedAttention<T>& call, T* y) {
  const int64_t scratch = scratch_floats(1, call.columns, call.keys.head_size);
  for_each_head(call, call.heads, scratch, [&](int64_t token, int64_t head, float* own) {
    score_one(call, token, head, own, y + (token * call.heads + head) * call.columns);
  });
}

template <typename T>
void cached_mix(const CachedAttention<T>& call, const T* p) {
  const int64_t scratch = scratch_floats(1, call.columns, call.values.head_size);
  for_each_head(call, call.heads, scratch, [&](int64_t token, int64_t head, float* own) {
    mix_one(call, token, head, own, p + (token * call.heads + head) * call.columns);
  });
}

// Which cells a token sees: those of the last `seen` positions, around the ring.
template <typename T>
void cached_mask(const CachedMask<T>& call) {
  T none;
  if constexpr (sizeof(T) == 4) none = -std::numeric_limits<float>::infinity();
  else none = float_to_bf16(-std::numeric_limits<float>::infinity());
  const int64_t reach = call.window > 0 && call.window < call.ring ? call.window : call.ring;
  const int64_t rows = call.tokens * call.heads;
  const int64_t parts = parts_for(2 * rows * call.columns * static_cast<int64_t>(sizeof(T)));
  for_each_range(rows, parts, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t position = call.positions[r / call.heads];
      const int64_t seen = position + 1 < reach ? position + 1 : reach;
      const int64_t last = position < 0 ? 0 : position % call.ring;
      for (int64_t c = 0; c < call.columns; ++c) {
        const int64_t behind = last >= c ? last - c : last - c + call.ring;
        const int64_t at = r * call.columns + c;
        call.y[at] = behind < seen ? call.x[at] : none;
      }
    }
  });
}

template void cached_attention(const CachedAttention<float>&);
template void cached_attention(const CachedAttention<uint16_t>&);
template void cached_scores(const CachedAttention<float>&, float*);
template void cached_scores(const CachedAttention<uint16_t>&, uint16_t*);
template void cached_mix(const CachedAttention<float>&, const float*);
template void cached_mix(const CachedAttention<uint16_t>&, const uint16_t*);
template void cached_mask(const CachedMask<float>&);
template void cached_mask(const CachedMask<uint16_t>&);

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
