// SPDX-License-Identifier: Apache-2.0
// Measures attention over a KV cache in decoding, whole and in separate steps, with the kernels
// that the backend binds.
#include <omp.h>

#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/calibration/bound_node.h"
#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/kernel_table.h"
#include "base/error.h"
#include "ops/kv_cache.h"

namespace ridge::backends::cpu {
namespace {

// Three heads read each key, and head sizes are none of a preset. The caches of all sequences fit
// into L2.
constexpr int64_t kHeads = 6, kKvHeads = 2, kKeys = 96;
constexpr std::array<int64_t, 3> kHeadSizes = {48, 96, 160};
constexpr int64_t kRepeats = 8;  // few sequences repeat, so that gathering threads does not count

// One token of each sequence, which attends to all of its cells: the block of its slot.
struct Cells {
  explicit Cells(int64_t tokens)
      : positions(static_cast<size_t>(tokens), kKeys - 1), slots(static_cast<size_t>(tokens)) {
    std::iota(slots.begin(), slots.end(), 0);
  }
  static std::byte* data(std::vector<int32_t>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }
  std::vector<int32_t> positions, slots;
};

struct CacheTiming {
  std::array<double, 2> flops_scores;
  double cache_bytes;
  int64_t repeats;
  const Probe* timing;
  double usual_ns() const { return timing->usual_ns() / static_cast<double>(repeats); }
};

class CacheProbes {
 public:
  // Tokens of type `tokens`, a cache of type `cache`.
  CacheProbes(ProbeList& probes, const OperandPool& pool, DType tokens, DType cache)
      : probes_(probes),
        pool_(pool),
        tokens_(tokens),
        cache_(cache),
        few_(2 * omp_get_max_threads()),
        many_(pool.bytes() / (2 * cache_bytes(1, kStreamSize)) - 1) {
    for (int64_t size : kHeadSizes) add(few_, size, kRepeats, timings_);
    add(many_, kStreamSize, 1, streams_);
  }

  void finish(cost::Ceilings& ceilings) const {
    for (const auto& [op, timings] : timings_) {
      std::vector<cost::TimedTerms<2>> timed;
      for (const CacheTiming& t : timings) timed.push_back({t.flops_scores, t.usual_ns()});
      const auto [flops_per_ns, scores_per_ns] = two_rates(timed);
      const CacheTiming& stream = streams_.at(op).front();
      ceilings.cache.push_back(
          {op, cache_, flops_per_ns, scores_per_ns, stream.cache_bytes / stream.usual_ns()});
    }
  }

 private:
  using Timings = std::map<std::string, std::vector<CacheTiming>>;
  static constexpr int64_t kStreamSize = 96;  // the head size in a cache that is read from memory

  // So many bytes hold the keys or the values, in whole cache lines.
  int64_t cache_bytes(int64_t tokens, int64_t size) const {
    return round_up(storage_bytes(cache_, tokens * kKeys * kKvHeads * size), kAlignmentBytes);
  }

  void add(Cells& cells, int64_t size, int64_t repeats, Timings& timings) {
    const int64_t tokens = static_cast<int64_t>(cells.slots.size());
    const Type q{tokens_, {tokens, kHeads, size}}, cache{cache_, {tokens, kKeys, kKvHeads, size}},
        scores{tokens_, {tokens, kHeads, kKeys}}, ids{DType::kI32, {tokens}},
        table{DType::kI32, {tokens, 1}};
    const int64_t bytes = cache_bytes(tokens, size);
    const NodeInput keys{cache, pool_.input(0)}, values{cache, pool_.input(bytes)},
        positions{ids, Cells::data(cells.positions)}, slots{ids, Cells::data(cells.slots)},
        blocks{table, Cells::data(cells.slots)};
    std::byte* x = pool_.input(0);
    const NodeInput scales{ops::scales_of(cache), x};
    auto time = [&](const std::string& op, std::vector<NodeInput> inputs, int caches,
                    const Attrs& attrs) {
      for (int i = 0; ops::has_scales(cache) && i < caches; ++i) inputs.push_back(scales);
      const auto node = std::make_shared<BoundNode>(
          kernels_, op, inputs, attrs,
          std::span(pool_.result(0), static_cast<size_t>(pool_.bytes())));
      RIDGE_CHECK(node->is_supported(), "{} has no kernel", op);
      timings[op].push_back({{static_cast<double>(2 * node->work().macs),
                              static_cast<double>(scores.shape.elements())},
                             static_cast<double>(caches * bytes),
                             repeats,
                             &probes_.add(op, [node, repeats] { node->run(repeats); })});
    };
    time("cached_attention", {{q, x}, keys, values, positions, slots, blocks}, 2,
         {{"scale", 0.125}, {"context", kKeys}, {"fused", true}});
    time("cached_scores", {{q, x}, keys, positions, slots, blocks}, 1, {{"columns", kKeys}});
    if (tokens_ == cache_) time("cached_mask", {{scores, x}, positions}, 0, {{"ring", kKeys}});
    time("cached_mix", {{scores, x}, values, positions, slots, blocks}, 1, {});
  }

  ProbeList& probes_;
  const OperandPool& pool_;
  DType tokens_, cache_;
  Cells few_, many_;
  KernelTable kernels_{cpu_kernels(nullptr)};
  Timings timings_, streams_;
};

}  // namespace

Finish cache_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16) {
  std::vector<std::shared_ptr<CacheProbes>> all;
  all.push_back(std::make_shared<CacheProbes>(probes, f32, DType::kF32, DType::kF32));
  all.push_back(std::make_shared<CacheProbes>(probes, bf16, DType::kBF16, DType::kBF16));
  all.push_back(std::make_shared<CacheProbes>(probes, f32, DType::kF32, DType::kI8));
  return [all](cost::Ceilings& ceilings) {
    for (const auto& each : all) each->finish(ceilings);
  };
}

}  // namespace ridge::backends::cpu
