// SPDX-License-Identifier: Apache-2.0
// Attention over a KV cache, one token at a time (a prompt's tokens go to
// cached_attention_chunk.cc). A token's keys are processed in parts of up to 256 positions, whose
// results are joined in order. Threads may therefore share a token's keys, and the bits are the
// same whether they do or not.
//
// Mapping: a part reads its keys of all KV heads, then its values, each as one stream of
// neighboring cells. The G query heads of a KV head share each key and value that is loaded.
#include "backends/cpu/kernels/cache/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/cached_attention.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/cache/cached_attention_chunk.h"
#include "backends/cpu/kernels/cache/cells-inl.h"
#include "backends/cpu/kernels/cache/int8_cells-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"
#include "base/shape.h"

// Compiled once, not per target, so it has its own guard.
#ifndef RIDGE_CPU_CACHED_ATTENTION_PART_
#define RIDGE_CPU_CACHED_ATTENTION_PART_
namespace ridge::backends::cpu {

// Query heads that read the keys together: their accumulators stay in registers.
inline constexpr int64_t kHeads = 4;
// The distance of the heads' rows of scores.
inline constexpr int64_t kScoreStride = kPartKeys + 8;
static_assert(kScoreStride >= kPartKeys + kFourCells - 1);

// The result of a part for one head: the sum of p v [E], in whole octets, then the largest score,
// and the sum of p relative to that score.
inline int64_t octets(int64_t head_size) { return round_up(head_size, 8); }
inline int64_t part_floats(int64_t head_size) { return octets(head_size) + 8; }
inline float& top_of(float* made, int64_t head_size) { return made[octets(head_size)]; }
inline float& sum_of(float* made, int64_t head_size) { return made[octets(head_size) + 1]; }

// A thread writes this besides the results of parts: scores [H, kScoreStride] and q [H, octets];
// for integer products the quants of both, and their scale for each head.
struct TokenScratch {
  float* scores;
  float* queries;
  float* weight_values;
  float* query_values;
  int16_t* weight_quants;
  int16_t* query_quants;

  static int64_t floats(int64_t heads, int64_t head_size) {
    const int64_t row = kScoreStride + octets(head_size);
    return heads * (row + 2) + heads * row / 2;
  }
  TokenScratch(float* at, int64_t heads, int64_t head_size)
      : scores(at),
        queries(scores + heads * kScoreStride),
        weight_values(queries + heads * octets(head_size)),
        query_values(weight_values + heads),
        weight_quants(reinterpret_cast<int16_t*>(query_values + heads)),
        query_quants(weight_quants + heads * kScoreStride) {}
};

// A thread's work for one token.
struct AttentionTask {
  enum PartChoice {
    kWhole,
    kParts,
    kJoin
  } choice = kWhole;  // all parts, some of them, or joining them
  int64_t token = 0;
  Range parts;               // kParts computes these
  int64_t next = -1;         // the thread's next token; -1: none
  float* scratch = nullptr;  // TokenScratch
  float* made = nullptr;     // [parts, H, part_floats]; kWhole has two parts
};

}  // namespace ridge::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// v in the lanes of a part, `rest` in the others.
HWY_INLINE V32 in_part(Whole, V32 v, V32) { return v; }
HWY_INLINE V32 in_part(Partial part, V32 v, V32 rest) {
  return hn::IfThenElse(hn::FirstN(F32(), static_cast<size_t>(part.count)), v, rest);
}

// Calls visit(count as a constant, first) for the query heads of a KV head, up to four at a time.
template <typename Visit>
HWY_INLINE void for_heads(int64_t group, const Visit& visit) {
  for (int64_t g = 0; g < group; g += kHeads) {
    switch (HWY_MIN(kHeads, group - g)) {
      case 1:
        visit(std::integral_constant<int, 1>(), g);
        break;
      case 2:
        visit(std::integral_constant<int, 2>(), g);
        break;
      case 3:
        visit(std::integral_constant<int, 3>(), g);
        break;
      default:
        visit(std::integral_constant<int, 4>(), g);
        break;
    }
  }
}

// A head's row of weights adds up to these.
struct WeightTotals {
  V32 sum;
  Magnitude magnitude;  // weights of quants have it
  HWY_INLINE WeightTotals() : sum(hn::Zero(F32())) {}
};

template <typename C>
HWY_INLINE CellSpan<C> span(const Cache<const C>& cache, const CellRun& run) {
  return {cache.head(run.row, 0), cache.head(run.row + run.count, 0)};
}

// One part of the keys for all heads of a token.
template <typename T, typename C>
class AttentionPart {
 public:
  HWY_INLINE AttentionPart(const CachedAttention<T, C>& call,
                           int64_t token,
                           PartKeys seen,
                           const TokenScratch& at,
                           float* made)
      : call_(call), seen_(seen), at_(at), made_(made) {
    for_each_run(call.cells, call.cells.slots[token], seen.first, seen.count,
                 [&](const CellRun& run) { runs_[run_count_++] = run; });
  }

  // next(i): run i of what is read after this part; empty if nothing is.
  template <typename Next>
  HWY_INLINE void run(const Next& next) {
    const auto values = [&](int64_t i) HWY_ATTR {
      return i < run_count_ ? span(call_.values, runs_[i]) : next(i - run_count_);
    };
    for_runs(call_.keys, values,
             [&](const CellRows<C>& cells, int64_t index) HWY_ATTR { score(cells, index); });
    for (int64_t h = 0; h < call_.heads; ++h) weigh(h);
    for_runs(call_.values, next,
             [&](const CellRows<C>& cells, int64_t index) HWY_ATTR { mix(cells, index); });
    if (integers_)
      for (int64_t h = 0; h < call_.heads; ++h) finish_sums(h);
  }

 private:
  // Calls visit(cells, first index) for each run; next(i) is run i of what is read after them.
  template <typename Next, typename Visit>
  HWY_INLINE void for_runs(const Cache<const C>& cache, const Next& next, const Visit& visit) {
    const int64_t block_bytes =
        bytes_of<C>(call_.cells.block_tokens * cache.kv_heads * cache.head_size);
    const int64_t blocks = kAheadBytes / block_bytes;
    const auto at = [&](int64_t i) HWY_ATTR {
      return i < run_count_ ? span(cache, runs_[i]) : next(i - run_count_);
    };
    for (int64_t i = 0; i < run_count_; ++i) {
      CellRows<C> cells(cache, runs_[i]);
      cells.ahead = {at(i + blocks), at(i + blocks + 1), kAheadBytes - blocks * block_bytes};
      visit(cells, runs_[i].index);
    }
  }

  template <typename X>
  HWY_INLINE GroupRows<X> rows(X* first, int64_t row, int64_t head) const {
    return {first + head * row, row, group_};
  }

  HWY_INLINE void score(const CellRows<C>& keys, int64_t index) {
    for_heads(group_, [&](auto count, int64_t g) HWY_ATTR {
      constexpr int kCount = decltype(count)::value;
      const GroupRows<float> scores = rows(at_.scores + index, kScoreStride, g);
      if constexpr (kMultipliesInt8<C>)
        if (integers_)
          return score_int8<kCount>(keys, rows<const int16_t>(at_.query_quants, padded_, g),
                                    scores);
      score_cells<kCount>(keys, rows<const float>(at_.queries, padded_, g), scores);
    });
  }

  // Replaces each vector of a head's row of scores by change(part, vector, vector of the scales of
  // these cells, totals). Scales lie together within a run only.
  template <typename Totals, typename Change>
  HWY_INLINE void for_scores(const Cache<const C>& cache,
                             int64_t h,
                             Totals& totals,
                             const Change& change) {
    float* const x = at_.scores + h * kScoreStride;
    Totals local = totals;  // in registers
    if constexpr (sizeof(C) == 1) {
      for (int64_t run = 0; run < run_count_; ++run) {
        const float* scales = cache.scale(runs_[run].row, h / group_);
        float* const first = x + runs_[run].index;
        for_lanes(runs_[run].count, [&](auto part, int64_t i) HWY_ATTR {
          store(part, change(part, load(part, first + i), load(part, scales + i), local),
                first + i);
        });
      }
    } else {
      for_lanes(seen_.count, [&](auto part, int64_t i) HWY_ATTR {
        store(part, change(part, load(part, x + i), hn::Set(F32(), 1.0f), local), x + i);
      });
    }
    totals = local;
  }

  // Turns scores x of one head into weights e^(scale (x - top)), where top is the largest score; if
  // the values are quants, into weights of quants, and for integer products into quants of those.
  HWY_INLINE void weigh(int64_t h) {
    const F32 d;
    float* made = made_ + h * part_floats(size_);
    std::fill_n(made, padded_, 0.0f);
    const V32 none = hn::Set(d, -std::numeric_limits<float>::infinity());
    const V32 value = hn::Set(d, integers_ ? at_.query_values[h] : 1.0f);
    V32 most = none;
    for_scores(call_.keys, h, most, [=](auto part, V32 x, V32 scale, V32& most_yet) HWY_ATTR {
      if constexpr (sizeof(C) == 1) x = hn::Mul(x, hn::Mul(scale, value));
      most_yet = hn::Max(most_yet, in_part(part, x, none));
      return x;
    });
    const V32 top = hn::MaxOfLanes(d, most), factor = hn::Set(d, call_.scale * kLog2E);
    WeightTotals totals;
    for_scores(call_.values, h, totals,
               [=](auto part, V32 x, V32 scale, WeightTotals& yet) HWY_ATTR {
                 V32 p = exp2_of_negative(hn::Mul(hn::Sub(in_part(part, x, none), top), factor));
                 yet.sum = hn::Add(yet.sum, p);
                 if constexpr (sizeof(C) == 1) p = hn::Mul(p, scale);
                 if constexpr (kMultipliesInt8<C>) yet.magnitude.add(p);
                 return p;
               });
    top_of(made, size_) = hn::GetLane(top);
    sum_of(made, size_) = hn::GetLane(hn::SumOfLanes(d, totals.sum));
    if (integers_)
      at_.weight_values[h] =
          round_to_int16(at_.scores + h * kScoreStride, seen_.count, totals.magnitude,
                         kMostWeightQuant, at_.weight_quants + h * kScoreStride);
  }

  HWY_INLINE void mix(const CellRows<C>& values, int64_t index) {
    for_heads(group_, [&](auto count, int64_t g) HWY_ATTR {
      constexpr int kCount = decltype(count)::value;
      const GroupRows<float> sums = rows(made_, part_floats(size_), g);
      if constexpr (kMultipliesInt8<C>)
        if (integers_)
          return mix_int8<kCount>(values,
                                  rows<const int16_t>(at_.weight_quants + index, kScoreStride, g),
                                  {reinterpret_cast<int32_t*>(sums.first), sums.row, sums.group});
      mix_cells<kCount>(values, rows<const float>(at_.scores + index, kScoreStride, g), sums);
    });
  }

  // Turns sums of products of quants into their values.
  HWY_INLINE void finish_sums(int64_t h) {
    const hn::Rebind<int32_t, Octet> d32;
    float* made = made_ + h * part_floats(size_);
    const VOctet value = hn::Set(Octet(), at_.weight_values[h]);
    for (int64_t i = 0; i < size_; i += static_cast<int64_t>(hn::Lanes(d32))) {
      const auto sum = hn::LoadU(d32, reinterpret_cast<const int32_t*>(made + i));
      hn::StoreU(hn::Mul(hn::ConvertTo(Octet(), sum), value), Octet(), made + i);
    }
  }

  const CachedAttention<T, C>& call_;
  const PartKeys seen_;
  const TokenScratch& at_;
  float* const made_;
  const int64_t size_ = call_.keys.head_size, padded_ = octets(size_);
  const int64_t group_ = call_.heads / call_.keys.kv_heads;
  const bool integers_ = multiplies_int8<C>(size_);
  int64_t run_count_ = 0;
  CellRun runs_[kPartKeys + 1];  // blocks of one position, and the ring's end within one
};

// About run `run` of the keys of a token's part; empty if it has none.
template <typename T, typename C>
HWY_INLINE CellSpan<C> key_run(const CachedAttention<T, C>& call,
                               int64_t token,
                               int64_t part,
                               int64_t run) {
  if (token < 0 || part >= call.parts(token)) return {};
  const PartKeys keys = call.part(token, part);
  const int64_t index = run * call.cells.block_tokens;
  if (index >= keys.count) return {};
  const int64_t cell = (keys.first + index) % call.cells.ring();
  const int64_t count =
      std::min(keys.count - index, call.cells.block_tokens - cell % call.cells.block_tokens);
  return span(call.keys, {call.cells.row(call.cells.slots[token], cell), index, count});
}

// Widens q to fp32, or rounds it for integer products.
template <typename T, typename C>
HWY_INLINE void prepare_queries(const CachedAttention<T, C>& call,
                                int64_t token,
                                const TokenScratch& at) {
  const int64_t size = call.keys.head_size, padded = octets(size);
  for (int64_t h = 0; h < call.heads; ++h) {
    float* q = at.queries + h * padded;
    const T* from = call.q.head(token, h);
    for_lanes(size,
              [&](auto part, int64_t i) HWY_ATTR { store(part, load(part, from + i), q + i); });
    std::fill(q + size, q + padded, 0.0f);
    if (!multiplies_int8<C>(size)) continue;
    Magnitude magnitude;
    for_lanes(size, [&](auto part, int64_t i) HWY_ATTR { magnitude.add(load(part, q + i)); });
    at.query_values[h] =
        round_to_int16(q, size, magnitude, most_query_quant(size), at.query_quants + h * padded);
  }
}

// Joins the result of the next part to the result of the parts before it.
template <typename T, typename C>
HWY_INLINE void join_part(const CachedAttention<T, C>& call, const float* next, float* made) {
  const F32 d;
  const int64_t size = call.keys.head_size, row = part_floats(size);
  for (int64_t h = 0; h < call.heads; ++h, made += row, next += row) {
    float &made_top = top_of(made, size), &made_sum = sum_of(made, size);
    const float next_top = next[octets(size)], next_sum = next[octets(size) + 1];
    const float top = HWY_MAX(made_top, next_top), factor = call.scale * kLog2E;
    const V32 old_share = exp2_of_negative(hn::Set(d, (made_top - top) * factor));
    const V32 share = exp2_of_negative(hn::Set(d, (next_top - top) * factor));
    for_lanes(size, [&](auto part, int64_t i) HWY_ATTR {
      store(part, hn::MulAdd(load(part, next + i), share, hn::Mul(load(part, made + i), old_share)),
            made + i);
    });
    made_top = top;
    made_sum = made_sum * hn::GetLane(old_share) + next_sum * hn::GetLane(share);
  }
}

template <typename T, typename C>
HWY_INLINE void finish_token(const CachedAttention<T, C>& call, int64_t token, const float* made) {
  const int64_t size = call.keys.head_size;
  for (int64_t h = 0; h < call.heads; ++h, made += part_floats(size)) {
    const V32 share = hn::Set(F32(), 1.0f / made[octets(size) + 1]);
    T* o = call.o.head(token, h);
    for_lanes(size, [&](auto part, int64_t i)
                        HWY_ATTR { store(part, hn::Mul(load(part, made + i), share), o + i); });
  }
}

// Computes some parts; part i goes to `made` + i * step, or, if `joins`, into the first one.
template <typename T, typename C>
HWY_INLINE void attend_parts(const CachedAttention<T, C>& call,
                             const AttentionTask& task,
                             Range parts,
                             bool joins) {
  const TokenScratch at(task.scratch, call.heads, call.keys.head_size);
  const int64_t step = call.heads * part_floats(call.keys.head_size);
  prepare_queries(call, task.token, at);
  for (int64_t part = parts.begin; part < parts.end; ++part) {
    const int64_t to = joins ? std::min<int64_t>(part - parts.begin, 1) : part;
    const bool is_last = part + 1 == parts.end;
    const auto next = [&](int64_t run) HWY_ATTR {
      return key_run(call, is_last ? task.next : task.token, is_last ? 0 : part + 1, run);
    };
    AttentionPart<T, C>(call, task.token, call.part(task.token, part), at, task.made + to * step)
        .run(next);
    if (joins && part > parts.begin) join_part(call, task.made + step, task.made);
  }
}

template <typename T, typename C>
HWY_INLINE void run_task(const CachedAttention<T, C>& call, const AttentionTask& task) {
  const int64_t parts = call.parts(task.token), size = call.keys.head_size;
  if (task.choice == AttentionTask::kParts) return attend_parts(call, task, task.parts, false);
  if (parts == 0) {
    for (int64_t h = 0; h < call.heads; ++h) std::fill_n(call.o.head(task.token, h), size, T{0});
    return;
  }
  if (task.choice == AttentionTask::kWhole) {
    attend_parts(call, task, {0, parts}, true);
  } else {
    for (int64_t part = 1; part < parts; ++part)
      join_part(call, task.made + part * call.heads * part_floats(size), task.made);
  }
  finish_token(call, task.token, task.made);
}
RIDGE_TARGETS(RIDGE_CACHES, run_task, CachedAttention, const AttentionTask&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_DISPATCH(RIDGE_CACHES, run_task, run_task, CachedAttention, const AttentionTask&)

namespace {

// The workspace of cached_attention. Each thread has scratch and the sums of two parts. If there
// are so few tokens that threads share a token's keys, the sums of all parts follow.
struct AttentionWorkspace {
  AttentionWorkspace(int64_t count, int64_t heads, int64_t head_size, int64_t most_keys)
      : tokens(count),
        threads(omp_get_max_threads()),
        part(heads * part_floats(head_size)),
        scratch(round_up(TokenScratch::floats(heads, head_size), 16)),
        thread(round_up(scratch + 2 * part, 16)),
        parts(parts_of_keys(most_keys)) {}

  bool shares_keys() const { return parts > 1 && threads > 1 && tokens < 4 * threads; }
  int64_t token() const { return parts * part; }
  int64_t floats() const { return threads * thread + (shares_keys() ? tokens * token() : 0); }

  int64_t tokens;
  int64_t threads;
  int64_t part;     // floats of one part's sums
  int64_t scratch;  // floats of one thread before its sums
  int64_t thread;   // floats of one thread
  int64_t parts;    // at most, per token
};

template <typename T, typename C>
AttentionWorkspace workspace_of(const CachedAttention<T, C>& c) {
  return {c.cells.tokens, c.heads, c.keys.head_size, c.most_keys()};
}

// Bytes of the keys and values that are attended to, not of all that the cache can hold.
template <typename T, typename C>
int64_t bytes_read(const CachedAttention<T, C>& call) {
  int64_t keys = 0;
  for (int64_t n = 0; n < call.cells.tokens; ++n) keys += call.seen(n);
  return bytes_of<C>(2 * keys * call.keys.kv_heads * call.keys.head_size);
}

template <typename T, typename C>
int64_t threads_for(const CachedAttention<T, C>& call) {
  const int64_t bytes = bytes_read(call);
  return Team::here() != nullptr && bytes >= kSharedKeyBytes ? omp_get_max_threads()
                                                             : parts_for(bytes);
}

// Neighboring tokens go to different threads, since later tokens attend to more keys.
template <typename T, typename C>
void attend_by_tokens(const CachedAttention<T, C>& call, const AttentionWorkspace& w) {
  const int64_t threads = std::min(threads_for(call), w.tokens);
  for_each_part(threads, [&](int64_t index) {
    float* scratch = call.workspace + index * w.thread;
    for (int64_t token = index; token < w.tokens; token += threads)
      run_task(call, {AttentionTask::kWhole,
                      token,
                      {},
                      token + threads < w.tokens ? token + threads : -1,
                      scratch,
                      scratch + w.scratch});
  });
}

// Each thread takes neighboring parts, so that it reads one stream.
template <typename T, typename C>
void attend_by_parts(const CachedAttention<T, C>& call, const AttentionWorkspace& w) {
  int64_t all = 0;
  for (int64_t token = 0; token < w.tokens; ++token) all += call.parts(token);
  float* sums = call.workspace + w.threads * w.thread;
  for_each_part(w.threads, [&](int64_t index) {
    const Range range = part_of(all, w.threads, index);
    float* scratch = call.workspace + index * w.thread;
    for (int64_t token = 0, first = 0; token < w.tokens; first += call.parts(token++)) {
      const Range parts{std::max(range.begin - first, int64_t{0}),
                        std::min(range.end - first, call.parts(token))};
      if (parts.begin < parts.end)
        run_task(call,
                 {AttentionTask::kParts, token, parts, -1, scratch, sums + token * w.token()});
    }
  });
  for (int64_t token = 0; token < w.tokens; ++token)
    run_task(call, {AttentionTask::kJoin, token, {}, -1, call.workspace, sums + token * w.token()});
}

}  // namespace

int64_t cached_attention_workspace_bytes(int64_t tokens,
                                         int64_t heads,
                                         int64_t kv_heads,
                                         int64_t head_size,
                                         int64_t most_keys) {
  const int64_t alone = AttentionWorkspace(tokens, heads, head_size, most_keys).floats();
  if (!takes_chunks(tokens, head_size)) return 4 * alone;
  return 4 * std::max(alone, chunk_workspace_floats(heads, kv_heads, head_size));
}

template <typename T, typename C>
void attend_alone(const CachedAttention<T, C>& call) {
  const AttentionWorkspace w = workspace_of(call);
  if (w.shares_keys() && threads_for(call) > 1)
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

template <typename T, typename C>
void cached_attention(const CachedAttention<T, C>& call) {
  if (!call.in_chunks || !takes_chunks(call.cells.tokens, call.keys.head_size))
    return attend_alone(call);
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
RIDGE_INSTANCES(RIDGE_CACHES, void, cached_attention, CachedAttention)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
