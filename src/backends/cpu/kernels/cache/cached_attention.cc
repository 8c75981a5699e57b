// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache, one token and one KV head at a time (a prompt's tokens go to
// cached_attention_chunk.cc). The G query heads of a KV head share each key and value that is
// loaded. A token's keys are processed in parts of 256, whose results are joined in order. Threads
// may therefore share a token's keys, and the bits are the same whether they do or not.
#include "backends/cpu/kernels/cache/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/cached_attention.cc"
#include "backends/cpu/kernels/simd_targets.h"
// Highway re-includes this file for each target from here.
#include <hwy/foreach_target.h>
// The order of these matters to Highway.
#include <hwy/highway.h>

#include "backends/cpu/kernels/cache/cached_attention_chunk.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"
#include "base/bf16.h"

// Compiled once, not per target, so it has its own guard.
#ifndef RIDGE_CPU_CACHED_ATTENTION_PART_
#define RIDGE_CPU_CACHED_ATTENTION_PART_
namespace ridge::backends::cpu {

// Query heads that read the keys together: their accumulators stay in registers.
inline constexpr int64_t kHeads = 4;
// The result of a part for one head: the sum of p v [E], the largest score, and the sum of p
// relative to that score.
inline int64_t part_floats(int64_t head_size) { return head_size + 2; }

inline constexpr int64_t kFetchingTokens = 16;

struct AttentionTask {
  static constexpr int64_t kAll = -1, kJoin = -2;
  int64_t token = 0;
  int64_t kv_head = 0;
  int64_t part = kAll;
  float* scores = nullptr;  // [4, kPartKeys]
  float* made = nullptr;    // [parts, G, part_floats]
};

// One row of the matrix of scores. `scratch` holds the row and the sums of one head.
struct ScoresRow {
  int64_t token;
  int64_t head;
  float* scratch;
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void fetch_row(const T* row, int64_t size) {
  for (int64_t line = 0; line < bytes_of<T>(size); line += 64)
    prefetch_to_l2(reinterpret_cast<const char*>(row) + line);
}

// scores[g][index + j] = q[g] . k[j] for the keys of a run; rows of scores are `stride` apart. If
// `values` is given, later keys and the values that follow are prefetched: the hardware prefetcher
// does not detect the pattern, since heads lie too far apart.
template <int kCount, typename T>
HWY_INLINE void score_run(const T* const* q,
                          const Cache<const T>& keys,
                          const Cache<const T>* values,
                          int64_t kv_head,
                          const CellRun& run,
                          float* scores,
                          int64_t stride) {
  constexpr int64_t kAhead = 16;
  const F32 d;
  const int64_t size = keys.head_size;
  for (int64_t j = 0; j < run.count; ++j) {
    const T* key = keys.head(run.row + j, kv_head);
    if (values != nullptr) {
      fetch_row(keys.head(run.row + j + kAhead, kv_head), size);
      fetch_row(values->head(run.row + j, kv_head), size);
    }
    V32 sums[kCount];
    for (int g = 0; g < kCount; ++g) sums[g] = hn::Zero(d);
    for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
      const V32 k = load(part, key + i);
      for (int g = 0; g < kCount; ++g) sums[g] = hn::MulAdd(load(part, q[g] + i), k, sums[g]);
    });
    for (int g = 0; g < kCount; ++g)
      scores[g * stride + run.index + j] = hn::GetLane(hn::SumOfLanes(d, sums[g]));
  }
}

// o[g] += sum over j of p[g][index + j] v[j]; rows of o are `o_stride` apart.
template <int kCount, typename T>
HWY_INLINE void mix_run(const float* p,
                        int64_t stride,
                        const Cache<const T>& values,
                        int64_t kv_head,
                        const CellRun& run,
                        float* o,
                        int64_t o_stride) {
  const F32 d;
  const int64_t size = values.head_size, step = values.kv_heads * size;
  for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
    V32 sums[kCount];
    for (int g = 0; g < kCount; ++g) sums[g] = load(part, o + g * o_stride + i);
    const T* value = values.head(run.row, kv_head) + i;
    for (int64_t j = 0; j < run.count; ++j, value += step) {
      const V32 v = load(part, value);
      for (int g = 0; g < kCount; ++g)
        sums[g] = hn::MulAdd(hn::Set(d, p[g * stride + run.index + j]), v, sums[g]);
    }
    for (int g = 0; g < kCount; ++g) store(part, sums[g], o + g * o_stride + i);
  });
}

// Replaces scores x by e^(scale (x - top)), where top is the largest score. Returns their sum.
HWY_INLINE float weigh_row(float* x, int64_t count, float scale, float* top) {
  const F32 d;
  const V32 none = hn::Set(d, -std::numeric_limits<float>::infinity());
  V32 most = none;
  for_lanes(count, [&](auto part, int64_t i)
                       HWY_ATTR { most = hn::Max(most, load_or(part, x + i, none)); });
  const V32 offset = hn::MaxOfLanes(d, most);
  const V32 factor = hn::Set(d, scale * kLog2E);
  *top = hn::GetLane(offset);
  return sum_lanes(count, [&](auto part, int64_t i, V32& total) HWY_ATTR {
    const V32 e = exp2_of_negative(hn::Mul(hn::Sub(load_or(part, x + i, none), offset), factor));
    store(part, e, x + i);
    total = hn::Add(total, e);
  });
}

template <typename From, typename To>
HWY_INLINE void convert_row(const From* from, int64_t count, To* to) {
  for_lanes(count,
            [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), to + i); });
}

template <typename T>
HWY_INLINE void zero_row(int64_t count, T* to) {
  for_lanes(count, [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(F32()), to + i); });
}

// kCount query heads from `head` on, all of one KV head, over one part of the keys; `made` is
// [kCount, part_floats].
template <int kCount, typename T>
HWY_INLINE void attend(const CachedAttention<T>& call,
                       int64_t token,
                       int64_t head,
                       PartKeys seen,
                       float* scores,
                       float* made) {
  const int64_t size = call.keys.head_size, row = part_floats(size), slot = call.cells.slots[token];
  const int64_t kv_head = head / (call.heads / call.keys.kv_heads);
  const T* q[kCount];
  for (int g = 0; g < kCount; ++g) q[g] = call.q.head(token, head + g);
  // If many tokens attend to the same keys, the keys are in cache already.
  const Cache<const T>* fetched = call.cells.tokens <= kFetchingTokens ? &call.values : nullptr;
  for_each_run(call.cells, slot, seen.first, seen.count, [&](const CellRun& run) HWY_ATTR {
    score_run<kCount>(q, call.keys, fetched, kv_head, run, scores, kPartKeys);
  });
  for (int g = 0; g < kCount; ++g) {
    float* to = made + g * row;
    zero_row(size, to);
    to[size + 1] = weigh_row(scores + g * kPartKeys, seen.count, call.scale, to + size);
  }
  for_each_run(call.cells, slot, seen.first, seen.count, [&](const CellRun& run) HWY_ATTR {
    mix_run<kCount>(scores, kPartKeys, call.values, kv_head, run, made, row);
  });
}

// All query heads of a KV head; `made` is [G, part_floats].
template <typename T>
HWY_INLINE void attend_part(const CachedAttention<T>& call,
                            int64_t token,
                            int64_t kv_head,
                            PartKeys seen,
                            float* scores,
                            float* made) {
  const int64_t group = call.heads / call.keys.kv_heads, row = part_floats(call.keys.head_size);
  const int64_t begin = kv_head * group, end = begin + group;
  for (int64_t h = begin; h < end; h += kHeads, made += kHeads * row) {
    switch (HWY_MIN(kHeads, end - h)) {
      case 1:
        attend<1>(call, token, h, seen, scores, made);
        break;
      case 2:
        attend<2>(call, token, h, seen, scores, made);
        break;
      case 3:
        attend<3>(call, token, h, seen, scores, made);
        break;
      default:
        attend<4>(call, token, h, seen, scores, made);
        break;
    }
  }
}

// Joins the result of the next part to the result of the parts before it.
template <typename T>
HWY_INLINE void join_part(const CachedAttention<T>& call, const float* next, float* made) {
  const F32 d;
  const int64_t size = call.keys.head_size, row = part_floats(size);
  for (int64_t g = 0; g < call.heads / call.keys.kv_heads; ++g, made += row, next += row) {
    const float top = HWY_MAX(made[size], next[size]), factor = call.scale * kLog2E;
    const V32 old_share = exp2_of_negative(hn::Set(d, (made[size] - top) * factor));
    const V32 share = exp2_of_negative(hn::Set(d, (next[size] - top) * factor));
    for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
      store(part, hn::MulAdd(load(part, next + i), share, hn::Mul(load(part, made + i), old_share)),
            made + i);
    });
    made[size] = top;
    made[size + 1] = made[size + 1] * hn::GetLane(old_share) + next[size + 1] * hn::GetLane(share);
  }
}

template <typename T>
HWY_INLINE void finish_group(const CachedAttention<T>& call,
                             int64_t token,
                             int64_t kv_head,
                             const float* made) {
  const int64_t group = call.heads / call.keys.kv_heads, size = call.keys.head_size;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h, made += part_floats(size)) {
    const V32 share = hn::Set(F32(), 1.0f / made[size + 1]);
    T* o = call.o.head(token, h);
    for_lanes(size, [&](auto part, int64_t i)
                        HWY_ATTR { store(part, hn::Mul(load(part, made + i), share), o + i); });
  }
}

// Computes one token on one thread; `made` has room for two parts.
template <typename T>
HWY_INLINE void attend_group(const CachedAttention<T>& call,
                             int64_t token,
                             int64_t kv_head,
                             float* scores,
                             float* made) {
  const int64_t group = call.heads / call.keys.kv_heads;
  float* next = made + group * part_floats(call.keys.head_size);
  const int64_t parts = call.parts(token);
  if (parts == 0) {
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      zero_row(call.keys.head_size, call.o.head(token, h));
    return;
  }
  for (int64_t part = 0; part < parts; ++part) {
    attend_part(call, token, kv_head, call.part(token, part), scores, part == 0 ? made : next);
    if (part > 0) join_part(call, next, made);
  }
  finish_group(call, token, kv_head, made);
}

// Calls visit(run) for the cells of a token's slot.
template <typename Step, typename Visit>
HWY_INLINE void for_each_cell_run(const Step& call, int64_t token, const Visit& visit) {
  for_each_run(call.cells, call.cells.slots[token], 0, call.columns, visit);
}

template <typename T>
HWY_INLINE void score_columns(const CachedScores<T>& call, const ScoresRow& row) {
  T* y = call.scores + (row.token * call.heads + row.head) * call.columns;
  if (call.cells.positions[row.token] < 0) return zero_row(call.columns, y);
  const T* q[1] = {call.q.head(row.token, row.head)};
  const int64_t kv_head = row.head / (call.heads / call.keys.kv_heads);
  for_each_cell_run(call, row.token, [&](const CellRun& run) HWY_ATTR {
    const Cache<const T>* none = nullptr;
    score_run<1>(q, call.keys, none, kv_head, run, row.scratch, call.columns);
  });
  convert_row(row.scratch, call.columns, y);
}
RIDGE_TYPED_TARGETS(score_columns, CachedScores, const ScoresRow&)

template <typename T>
HWY_INLINE void mix_columns(const CachedMix<T>& call, const ScoresRow& row) {
  T* o = call.o.head(row.token, row.head);
  const int64_t size = call.values.head_size;
  if (call.cells.positions[row.token] < 0) return zero_row(size, o);
  const int64_t kv_head = row.head / (call.heads / call.values.kv_heads);
  const T* p = call.p + (row.token * call.heads + row.head) * call.columns;
  convert_row(p, call.columns, row.scratch);
  float* sums = row.scratch + call.columns;
  zero_row(size, sums);
  for_each_cell_run(call, row.token, [&](const CellRun& run) HWY_ATTR {
    mix_run<1>(row.scratch, call.columns, call.values, kv_head, run, sums, size);
  });
  convert_row(sums, size, o);
}
RIDGE_TYPED_TARGETS(mix_columns, CachedMix, const ScoresRow&)

// A thread's work for one token and KV head: all parts, one part, or joining parts computed before.
template <typename T>
HWY_INLINE void run_task(const CachedAttention<T>& call, const AttentionTask& task) {
  const int64_t floats = call.heads / call.keys.kv_heads * part_floats(call.keys.head_size);
  if (task.part == AttentionTask::kAll) {
    attend_group(call, task.token, task.kv_head, task.scores, task.made);
  } else if (task.part == AttentionTask::kJoin) {
    const int64_t parts = call.parts(task.token);
    for (int64_t part = 1; part < parts; ++part)
      join_part(call, task.made + part * floats, task.made);
    finish_group(call, task.token, task.kv_head, task.made);
  } else {
    attend_part(call, task.token, task.kv_head, call.part(task.token, task.part), task.scores,
                task.made + task.part * floats);
  }
}
RIDGE_TYPED_TARGETS(run_task, CachedAttention, const AttentionTask&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_TYPED_DISPATCH(run_task, run_task, CachedAttention, const AttentionTask&)
RIDGE_TYPED_DISPATCH(run_row, score_columns, CachedScores, const ScoresRow&)
RIDGE_TYPED_DISPATCH(run_row, mix_columns, CachedMix, const ScoresRow&)

namespace {

// Scratch of one thread, in whole cache lines: a row of scores and the sums of one head.
int64_t scratch_floats(int64_t columns, int64_t head_size) {
  return (columns + head_size + 15) / 16 * 16;
}

// One step of attention over all tokens and heads, on the keys or the values of `cache`.
template <typename T, template <typename> typename Step>
void run_rows(const Step<T>& call, const Cache<const T>& cache) {
  const int64_t tasks = call.cells.tokens * call.heads;
  const int64_t scratch = scratch_floats(call.columns, cache.head_size);
  const int64_t parts = parts_for(bytes_of<T>(tasks * call.columns * cache.head_size));
  for_each_part(parts, [&](int64_t index) {
    for (int64_t task = index; task < tasks; task += parts)
      run_row(call, {task / call.heads, task % call.heads, call.workspace + index * scratch});
  });
}

// The workspace of cached_attention. Each thread has scores and the sums of two parts. If there are
// so few tokens that threads share a token's keys, the sums of all parts follow.
struct AttentionWorkspace {
  AttentionWorkspace(int64_t tokens,
                     int64_t heads,
                     int64_t kv_heads,
                     int64_t head_size,
                     int64_t most_keys)
      : tasks(tokens * kv_heads),
        threads(omp_get_max_threads()),
        part((heads / kv_heads * part_floats(head_size) + 15) / 16 * 16),
        thread(kHeads * kPartKeys + 2 * part),
        parts((most_keys + kPartKeys - 1) / kPartKeys) {}

  bool shares_keys() const { return parts > 1 && threads > 1 && tasks < 4 * threads; }
  int64_t task() const { return parts * part; }
  int64_t floats() const { return threads * thread + (shares_keys() ? tasks * task() : 0); }

  int64_t tasks;  // tokens and KV heads
  int64_t threads;
  int64_t part;    // floats of one part's sums
  int64_t thread;  // floats of one thread
  int64_t parts;   // at most, per task
};

template <typename T>
AttentionWorkspace workspace_of(const CachedAttention<T>& c) {
  return {c.cells.tokens, c.heads, c.keys.kv_heads, c.keys.head_size, c.most_keys()};
}

// Bytes of the keys and values that are attended to, not of all that the cache can hold.
template <typename T>
int64_t bytes_read(const CachedAttention<T>& call) {
  int64_t keys = 0;
  for (int64_t n = 0; n < call.cells.tokens; ++n) keys += call.seen(n);
  return bytes_of<T>(2 * keys * call.keys.kv_heads * call.keys.head_size);
}

template <typename T>
int64_t threads_for(const CachedAttention<T>& call, const AttentionWorkspace& w) {
  if (w.tasks == 1) return 1;
  const int64_t bytes = bytes_read(call);
  return Team::here() != nullptr && bytes >= kSharedKeyBytes ? omp_get_max_threads()
                                                             : parts_for(bytes);
}

// Neighboring tasks go to different threads, since later tokens attend to more keys.
template <typename T>
void attend_by_tokens(const CachedAttention<T>& call, const AttentionWorkspace& w) {
  const int64_t threads = threads_for(call, w), heads = call.keys.kv_heads;
  for_each_part(threads, [&](int64_t index) {
    float* scores = call.workspace + index * w.thread;
    for (int64_t task = index; task < w.tasks; task += threads)
      run_task(call, {task / heads, task % heads, AttentionTask::kAll, scores,
                      scores + kHeads * kPartKeys});
  });
}

template <typename T>
void attend_by_parts(const CachedAttention<T>& call, const AttentionWorkspace& w) {
  const int64_t heads = call.keys.kv_heads;
  float* sums = call.workspace + w.threads * w.thread;
  for_each_part(w.threads, [&](int64_t index) {
    int64_t visited = 0;
    for (int64_t task = 0; task < w.tasks; ++task)
      for (int64_t part = 0; part < call.parts(task / heads); ++part)
        if (visited++ % w.threads == index)
          run_task(call, {task / heads, task % heads, part, call.workspace + index * w.thread,
                          sums + task * w.task()});
  });
  for (int64_t task = 0; task < w.tasks; ++task) {
    bool is_padding = call.parts(task / heads) == 0;
    run_task(call,
             {task / heads, task % heads, is_padding ? AttentionTask::kAll : AttentionTask::kJoin,
              call.workspace, sums + task * w.task()});
  }
}

}  // namespace

int64_t cached_attention_workspace_bytes(int64_t tokens,
                                         int64_t heads,
                                         int64_t kv_heads,
                                         int64_t head_size,
                                         int64_t most_keys) {
  const int64_t alone = AttentionWorkspace(tokens, heads, kv_heads, head_size, most_keys).floats();
  if (!takes_chunks(tokens, head_size)) return 4 * alone;
  return 4 * std::max(alone, chunk_workspace_floats(heads, kv_heads, head_size));
}

int64_t cached_scores_workspace_bytes(int64_t head_size, int64_t columns) {
  return 4 * omp_get_max_threads() * scratch_floats(columns, head_size);
}

template <typename T>
void attend_alone(const CachedAttention<T>& call) {
  const AttentionWorkspace w = workspace_of(call);
  if (w.shares_keys() && parts_for(bytes_read(call)) > 1)
    attend_by_parts(call, w);
  else
    attend_by_tokens(call, w);
}

// The number of tokens from n on that are consecutive in one sequence: a part of a prompt.
int64_t chunk_at(const CacheCells& cells, int64_t n) {
  if (cells.positions[n] < 0) return 1;
  int64_t count = 1;
  while (n + count < cells.tokens && cells.slots[n + count] == cells.slots[n] &&
         cells.positions[n + count] == cells.positions[n] + count)
    ++count;
  return count;
}

template <typename T>
void cached_attention(const CachedAttention<T>& call) {
  if (!takes_chunks(call.cells.tokens, call.keys.head_size)) return attend_alone(call);
  int64_t alone = 0;  // the first token not yet computed
  for (int64_t n = 0; n < call.cells.tokens;) {
    const int64_t count = chunk_at(call.cells, n);
    if (count >= kChunkTokens) {
      if (alone < n) attend_alone(call.part_of_tokens(alone, n - alone));
      attend_chunk(call.part_of_tokens(n, count));
      alone = n + count;
    }
    n += count;
  }
  if (alone < call.cells.tokens)
    attend_alone(call.part_of_tokens(alone, call.cells.tokens - alone));
}
RIDGE_TYPED_INSTANCES(void, cached_attention, CachedAttention)

template <typename T>
void cached_scores(const CachedScores<T>& call) {
  run_rows(call, call.keys);
}
RIDGE_TYPED_INSTANCES(void, cached_scores, CachedScores)

template <typename T>
void cached_mix(const CachedMix<T>& call) {
  run_rows(call, call.values);
}
RIDGE_TYPED_INSTANCES(void, cached_mix, CachedMix)

// Masks all cells but those of the last `seen` positions, around the ring.
template <typename T>
void cached_mask(const CachedMask<T>& call) {
  T none;
  if constexpr (sizeof(T) == 4)
    none = -std::numeric_limits<float>::infinity();
  else
    none = float_to_bf16(-std::numeric_limits<float>::infinity());
  const int64_t reach = call.window > 0 && call.window < call.ring ? call.window : call.ring;
  const int64_t rows = call.tokens * call.heads;
  for_each_range(rows, parts_for(bytes_of<T>(2 * rows * call.columns)), [&](Range range) {
    for (int64_t r = range.begin; r < range.end; ++r) {
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
RIDGE_TYPED_INSTANCES(void, cached_mask, CachedMask)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
