// SPDX-License-Identifier: Apache-2.0
// Chooses tokens. All blocks search for the largest logit; if a slot samples, its last block
// continues alone. The tokens that remain after a cut are a prefix of the vocabulary ordered by
// logit (largest first, then by lower id), so a logit and a count of its equals describe them,
// without sorting.
#include "backends/cuda/kernels/sample.h"

#include <algorithm>

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kLanes;
constexpr int64_t kLeastLogits = 2048;  // logits that one block searches, or more
constexpr int kDigits = 256;            // values of a digit of a key: 8 bits

// The keys of -infinity and +infinity.
constexpr uint32_t kLowestKey = 0x007fffffu;
constexpr uint32_t kInfinityKey = 0xff800000u;

// An integer key in the order of the logits: NaN above everything, so that the largest key shows
// it, and -0 as 0.
__device__ __forceinline__ uint32_t key_of(float logit) {
  if (logit != logit) return 0xffffffffu;
  const uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : logit);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float logit_of(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// 24 random bits in [0, 1) that depend only on the seed and the counter: uniform_at in
// base/random.h.
__device__ __forceinline__ float uniform_at(uint32_t seed, uint32_t counter) {
  uint64_t x = (static_cast<uint64_t>(seed) << 32 | counter) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<float>((x ^ (x >> 31)) >> 40) * 0x1p-24f;
}

// A slot's logits after the penalty and the biases. `marks` has a bit for each token that one of
// them may change; the others cost one test.
struct Logits {
  const float* data;
  const uint32_t* marks;
  float penalty;          // 0: none
  const int32_t* recent;  // [recent_tokens]
  int64_t recent_tokens;
  const int32_t* biased;  // [biases], ascending
  const float* amounts;   // [biases]
  int64_t biases;

  __device__ __forceinline__ bool has_changes() const { return penalty > 0.0f || biases > 0; }
  __device__ __forceinline__ uint32_t key(int64_t id) const {
    const float logit = data[id];
    if (!has_changes() || (marks[id / 32] >> (id % 32) & 1u) == 0) return key_of(logit);
    return key_of(changed(id, logit));
  }
  __device__ __noinline__ float changed(int64_t id, float logit) const {
    bool is_recent = false;
    if (penalty > 0.0f)
      for (int64_t r = 0; r < recent_tokens; ++r) is_recent |= recent[r] == id;
    if (is_recent) logit = logit > 0.0f ? logit / penalty : logit * penalty;
    int64_t low = 0, high = biases;  // the first id that is not below
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (biased[middle] < id)
        low = middle + 1;
      else
        high = middle;
    }
    return low < biases && biased[low] == id ? logit + amounts[low] : logit;
  }
};

__device__ __forceinline__ Logits logits_of(const Sample& p,
                                            int64_t row,
                                            int64_t slot,
                                            const uint32_t* marks) {
  const SampleSettings& settings = p.settings[slot];
  return {p.logits[row],
          marks,
          settings.repeat_penalty,
          p.recent + slot * p.recent_tokens,
          p.recent_tokens,
          p.biased + slot * p.most_biases,
          p.biases + slot * p.most_biases,
          min(static_cast<int64_t>(settings.biases), p.most_biases)};
}

struct Scratch {
  uint64_t bins[kDigits];
  uint64_t words[kWarps];
  double sums[kThreads];
  uint32_t counts[kThreads];
  uint64_t chosen;
  uint64_t above;
  uint32_t digit;
};

// A prefix of the order: the ids whose key is above `key`, and the first `equals` of those whose
// key is equal.
struct Prefix {
  uint32_t key;
  int64_t equals;
};

__device__ __forceinline__ uint64_t largest_of_block(uint64_t value, Scratch& s) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  if (threadIdx.x % kLanes == 0) s.words[threadIdx.x / kLanes] = value;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) value = s.words[w] > value ? s.words[w] : value;
  __syncthreads();
  return value;
}

// Orders candidates by larger key, then by lower id.
__device__ __forceinline__ uint64_t candidate(uint32_t key, int64_t id) {
  return static_cast<uint64_t>(key) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}

__device__ void mark_changed(const Sample& p, const Logits& logits, uint32_t* marks) {
  const int64_t words = (p.vocabulary + 31) / 32;
  for (int64_t i = threadIdx.x; i < words; i += kThreads) marks[i] = 0;
  __syncthreads();
  const auto mark = [&](int32_t id) {
    if (id >= 0 && id < p.vocabulary) atomicOr(marks + id / 32, 1u << (id % 32));
  };
  if (logits.penalty > 0.0f)
    for (int64_t r = threadIdx.x; r < logits.recent_tokens; r += kThreads) mark(logits.recent[r]);
  for (int64_t i = threadIdx.x; i < logits.biases; i += kThreads) mark(logits.biased[i]);
  __syncthreads();
}

// The shortest prefix of the order whose weights reach `wanted`: returns its last key, and in
// `above` the weight of the keys above it. Weights are integers, so the order of additions does not
// matter.
template <typename Weight>
__device__ Prefix first_reaching(const Sample& p,
                                 const Logits& logits,
                                 uint64_t wanted,
                                 const Weight& weight,
                                 Scratch& s,
                                 uint64_t& above) {
  uint32_t prefix = 0, mask = 0;
  above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += kThreads) s.bins[i] = 0;
    __syncthreads();
    for (int64_t id = threadIdx.x; id < p.vocabulary; id += kThreads) {
      const uint32_t key = logits.key(id);
      if ((key & mask) == prefix)
        atomicAdd(reinterpret_cast<unsigned long long*>(&s.bins[key >> shift & (kDigits - 1)]),
                  static_cast<unsigned long long>(weight(key)));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = kDigits - 1;
      while (digit > 0 && above + s.bins[digit] < wanted) above += s.bins[digit--];
      s.digit = static_cast<uint32_t>(digit);
      s.above = above;
    }
    __syncthreads();
    above = s.above;
    prefix |= s.digit << shift;
    mask |= static_cast<uint32_t>(kDigits - 1) << shift;
    __syncthreads();
  }
  return {prefix, 0};
}

__device__ Prefix cut_top_k(const Sample& p, const Logits& logits, int64_t k, Scratch& s) {
  uint64_t above = 0;
  Prefix kept = first_reaching(
      p, logits, static_cast<uint64_t>(k), [](uint32_t) { return uint64_t{1}; }, s, above);
  kept.equals = k - static_cast<int64_t>(above);
  return kept;
}

// The weight relative to the largest logit.
__device__ __forceinline__ double weight_of(uint32_t key, double top, double temperature = 1) {
  return exp((static_cast<double>(logit_of(key)) - top) / temperature);
}

// The weight in units of 2^-40.
__device__ __forceinline__ uint64_t mass(uint32_t key, double top) {
  return static_cast<uint64_t>(weight_of(key, top) * 0x1p40 + 0.5);
}

// Ids are split into consecutive ranges, one per thread. equals_before counts the ids with the
// prefix's key before a thread's range.
struct TokenRange {
  int64_t begin, end;
};
__device__ __forceinline__ TokenRange range_of(int64_t vocabulary) {
  const int64_t each = (vocabulary + kThreads - 1) / kThreads;
  const int64_t begin = min(each * threadIdx.x, vocabulary);
  return {begin, min(begin + each, vocabulary)};
}

__device__ int64_t equals_before(const Logits& logits, TokenRange range, Prefix kept, Scratch& s) {
  uint32_t count = 0;
  for (int64_t id = range.begin; id < range.end; ++id) count += logits.key(id) == kept.key;
  s.counts[threadIdx.x] = count;
  __syncthreads();
  int64_t before = 0;
  for (int t = 0; t < static_cast<int>(threadIdx.x); ++t) before += s.counts[t];
  __syncthreads();
  return before;
}

// Calls visit(id, key) for the kept ids of a range in order, until it returns false.
template <typename Visit>
__device__ __forceinline__ void visit_kept(const Logits& logits,
                                           TokenRange range,
                                           Prefix kept,
                                           int64_t equals,
                                           const Visit& visit) {
  for (int64_t id = range.begin; id < range.end; ++id) {
    const uint32_t key = logits.key(id);
    if (key < kept.key || (key == kept.key && equals++ >= kept.equals)) continue;
    if (!visit(id, key)) return;
  }
}

__device__ uint64_t mass_kept(const Logits& logits,
                              TokenRange range,
                              Prefix kept,
                              int64_t equals,
                              double top,
                              Scratch& s) {
  uint64_t sum = 0;
  visit_kept(logits, range, kept, equals, [&](int64_t, uint32_t key) {
    sum += mass(key, top);
    return true;
  });
  if (threadIdx.x == 0) s.chosen = 0;
  __syncthreads();
  atomicAdd(reinterpret_cast<unsigned long long*>(&s.chosen), static_cast<unsigned long long>(sum));
  __syncthreads();
  sum = s.chosen;
  __syncthreads();
  return sum;
}

__device__ Prefix cut_top_p(const Sample& p,
                            const Logits& logits,
                            TokenRange range,
                            Prefix kept,
                            double top,
                            double top_p,
                            Scratch& s) {
  const uint64_t sum =
      mass_kept(logits, range, kept, equals_before(logits, range, kept, s), top, s);
  const auto wanted = static_cast<uint64_t>(ceil(top_p * static_cast<double>(sum)));
  uint64_t above = 0;
  Prefix cut = first_reaching(
      p, logits, wanted, [&](uint32_t key) { return mass(key, top); }, s, above);
  if (cut.key < kept.key) return kept;  // due to rounding: keep everything
  const uint64_t each = max(mass(cut.key, top), uint64_t{1});
  cut.equals = static_cast<int64_t>((wanted - above + each - 1) / each);
  if (cut.key == kept.key) cut.equals = min(cut.equals, kept.equals);
  return cut;
}

// Draws one of the kept ids with weights exp(logit / temperature), in the order of ids.
__device__ int64_t draw(const Sample& p,
                        const Logits& logits,
                        TokenRange range,
                        Prefix kept,
                        uint32_t top_key,
                        const SampleSettings& settings,
                        double number,
                        Scratch& s) {
  const double top = logit_of(top_key);
  const int64_t equals = equals_before(logits, range, kept, s);
  auto stays = [&](uint32_t key) {
    return !(settings.min_p > 0.0f) || key == top_key ||
           weight_of(key, top) >= static_cast<double>(settings.min_p);
  };
  auto tempered = [&](uint32_t key) {
    return weight_of(key, top, static_cast<double>(settings.temperature));
  };
  double own = 0;
  int64_t last = -1;
  visit_kept(logits, range, kept, equals, [&](int64_t id, uint32_t key) {
    if (stays(key)) own += tempered(key), last = id;
    return true;
  });
  s.sums[threadIdx.x] = own;
  const uint64_t latest = largest_of_block(static_cast<uint64_t>(last + 1), s);
  double before = 0, sum = 0;
  for (int t = 0; t < kThreads; ++t) {
    if (t == static_cast<int>(threadIdx.x)) before = sum;
    sum += s.sums[t];
  }
  if (threadIdx.x == 0) s.chosen = 0;
  __syncthreads();
  // The first id at which the sum exceeds the number; if rounding leaves none, the last id that is
  // kept.
  uint64_t found = 0;
  if (before + own > number * sum || last + 1 == static_cast<int64_t>(latest)) {
    double cumulative = before;
    visit_kept(logits, range, kept, equals, [&](int64_t id, uint32_t key) {
      if (!stays(key)) return true;
      cumulative += tempered(key);
      if (cumulative > number * sum || id + 1 == static_cast<int64_t>(latest))
        found = 0xffffffffu - static_cast<uint64_t>(id);
      return found == 0;
    });
  }
  return 0xffffffffu - static_cast<int64_t>(largest_of_block(found, s));
}

__device__ int64_t choose(const Sample& p,
                          const Logits& logits,
                          uint64_t best,
                          int64_t slot,
                          int32_t position,
                          Scratch& s) {
  const SampleSettings& settings = p.settings[slot];
  const auto top_key = static_cast<uint32_t>(best >> 32);
  const auto top_id = static_cast<int64_t>(0xffffffffu - static_cast<uint32_t>(best));
  if (top_key >= kInfinityKey || top_key <= kLowestKey) return kNoToken;
  if (!(settings.temperature > 0.0f) || settings.min_p > 1.0f) return top_id;
  const TokenRange range = range_of(p.vocabulary);
  Prefix kept{0, p.vocabulary};
  if (settings.top_k >= 1.0f && settings.top_k < static_cast<float>(p.vocabulary))
    kept = cut_top_k(p, logits, static_cast<int64_t>(settings.top_k), s);
  if (settings.top_p > 0.0f && settings.top_p < 1.0f)
    kept = cut_top_p(p, logits, range, kept, logit_of(top_key), static_cast<double>(settings.top_p),
                     s);
  const float number =
      uniform_at(static_cast<uint32_t>(p.seeds[slot]), static_cast<uint32_t>(position));
  return draw(p, logits, range, kept, top_key, settings, static_cast<double>(number), s);
}

// Mapping: one block per part of a row (x) and per row (y). Bound: L2, the logits once if
// a slot is greedy; otherwise its last block reads them up to a dozen times.
__global__ void __launch_bounds__(kThreads)
    sample_kernel(const __grid_constant__ Ticketed<Sample> p) {
  extern __shared__ uint32_t marks[];
  __shared__ Scratch scratch;
  __shared__ bool is_last;
  let_next_start();
  wait_for_grids();
  const int64_t row = blockIdx.y, slot = p.row_slots == nullptr ? row : p.row_slots[row];
  if (slot < 0) return;
  const int32_t position = p.next_positions[slot];
  if (position < 0) return;
  const Logits logits = logits_of(p, row, slot, marks);
  if (logits.has_changes()) mark_changed(p, logits, marks);
  uint64_t best = 0;
  const int64_t rounds =
      (p.vocabulary + kThreads * int64_t{gridDim.x} - 1) / (kThreads * int64_t{gridDim.x});
  const int64_t begin = blockIdx.x * rounds * kThreads,
                end = min(begin + rounds * kThreads, p.vocabulary);
#pragma unroll 4
  for (int64_t id = begin + threadIdx.x; id < end; id += kThreads) {
    const uint64_t each = candidate(logits.key(id), id);
    best = each > best ? each : best;
  }
  best = largest_of_block(best, scratch);
  uint64_t* parts = reinterpret_cast<uint64_t*>(p.workspace) + row * gridDim.x;
  if (threadIdx.x == 0) {
    __stcg(reinterpret_cast<unsigned long long*>(parts + blockIdx.x),
           static_cast<unsigned long long>(best));
    __threadfence();
    is_last = atomicAdd(p.tickets + row, 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  best = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
    const uint64_t each = __ldcg(reinterpret_cast<unsigned long long*>(parts + i));
    best = each > best ? each : best;
  }
  best = largest_of_block(best, scratch);
  const auto token = static_cast<int32_t>(choose(p, logits, best, slot, position, scratch));
  if (threadIdx.x != 0) return;
  p.tickets[row] = 0;
  p.tokens[slot] = token;
  p.recent[slot * p.recent_tokens + position % p.recent_tokens] = token;
}

// Blocks of a row: as many as run at a time on 132 multiprocessors, four on each, over all rows.
// More would wait for the first ones to end.
int64_t blocks_of(int64_t rows, int64_t vocabulary) {
  constexpr int64_t kBlocks = 528;
  return std::clamp<int64_t>(kBlocks / std::max<int64_t>(rows, 1), 1,
                             (vocabulary + kLeastLogits - 1) / kLeastLogits);
}

}  // namespace

int64_t sample_workspace_bytes(int64_t rows, int64_t vocabulary) {
  return rows * blocks_of(rows, vocabulary) * static_cast<int64_t>(sizeof(uint64_t));
}

cudaError_t launch_sample(const Ticketed<Sample>& call, cudaStream_t stream) {
  if (call.rows == 0) return cudaSuccess;
  if (call.vocabulary < 1 || call.vocabulary > kSampleMostVocabulary) return cudaErrorInvalidValue;
  const auto shared_bytes = static_cast<int>((call.vocabulary + 31) / 32 * 4);
  const cudaError_t status = cudaFuncSetAttribute(
      sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(blocks_of(call.rows, call.vocabulary)),
                  static_cast<unsigned>(call.rows));
  return launch_early(sample_kernel, grid, kThreads, shared_bytes, stream, call);
}

}  // namespace ridge::backends::cuda
