// SPDX-License-Identifier: Apache-2.0
// Measures GEMMs with quantized weights, by the type of the weight and the number of tokens, with
// the kernels that the backend binds.
#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "backends/cpu/calibration/bound_node.h"
#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "base/random.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {
namespace {

constexpr std::array kPlain = {DType::kF32, DType::kF16, DType::kBF16};
constexpr std::array kBlocks = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,
                                DType::kQ8_0, DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,
                                DType::kQ5_K, DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128};

// Close together where kernels change (choose.cc), and at the 12 tokens that exact GEMMs multiply
// at a time.
constexpr std::array<int64_t, 11> kTokens = {1, 2, 4, 5, 8, 12, 16, 24, 32, 64, 192};

// Sizes that no preset has. The smallest weight, of 2.6 bits, is above kParallelBytes, so that
// threads share all of them, and all fit into the L2 of their threads.
constexpr int64_t kIn = 768;
int64_t out_of(int threads) { return std::max<int64_t>(1152, 576 * threads); }
int64_t plain_out_of(int threads) { return 192 * std::max(threads, 2); }

// A run of a probe takes about this long; short ones repeat the GEMM, so that gathering the
// threads does not count. A step of a model gathers them once for a hundred and more GEMMs.
constexpr double kRunNs = 600e3;

struct QuantizedForm {
  DType weight;
  DType activations;
  auto operator<=>(const QuantizedForm&) const = default;
};

struct QuantizedTiming {
  int64_t tokens, out;
  int64_t repeats;
  const Probe* cached = nullptr;
  const Probe* memory = nullptr;

  double cached_ns() const { return cached->usual_ns() / static_cast<double>(repeats); }
  double memory_ns() const { return memory->usual_ns() / static_cast<double>(repeats); }
  double best_ns() const { return cached->undisturbed_ns() / static_cast<double>(repeats); }
  double weights() const { return static_cast<double>(out * kIn); }
};

class QuantizedProbes {
 public:
  QuantizedProbes(ProbeList& probes, const OperandPool& pool, const OperandPool& bf16)
      : probes_(probes),
        pool_(pool),
        bf16_(bf16),
        out_(out_of(omp_get_max_threads())),
        weights_(pool.bytes(), "weights of probes") {
    fill_weights();
    for (DType weight : kPlain) add(weight);
    for (int64_t tokens : kTokens)
      if (is_gemv(DType::kBF16, tokens)) add(DType::kBF16, "bf16", tokens);
    for (DType weight : kBlocks) {
      add(weight);
      const DType tiles = repacked_dtype(weight, {out_, kIn});
      if (tiles != weight) add(tiles);
    }
    for (int64_t tokens : kTokens)
      for (const std::string& rounded : roundings_of(tokens)) {
        const auto node = bind({rounded_weight(), *parse_dtype(rounded)}, tokens, kFewRows);
        if (node->is_supported())
          roundings_[{tokens, *parse_dtype(rounded)}] =
              &probes_.add("rounding of activations", [node] { node->run(kRoundings); });
      }
  }

  void finish(cost::Ceilings& ceilings) const {
    for (const auto& [form, timings] : timings_)
      ceilings.quantized_gemms.push_back(rates(form, timings));
    cost::ProductRates int16_rates;
    int16_rates.dtype = DType::kI16;
    for (const auto& [form, timings] : timings_)
      for (const QuantizedTiming& t : timings)
        if (form.activations == DType::kI16)
          int16_rates.peak_flops_per_ns =
              std::max(int16_rates.peak_flops_per_ns,
                       2 * t.weights() * static_cast<double>(t.tokens) / t.best_ns());
    if (int16_rates.peak_flops_per_ns > 0) ceilings.products.push_back(std::move(int16_rates));
  }

 private:
  // Rounding the activations takes most of the time of so few rows, which one thread multiplies.
  static constexpr int64_t kFewRows = kRepackedRows, kRoundings = 8;
  DType rounded_weight() const {
    return takes_repacked(quantized_isa()) ? repacked_dtype(DType::kQ8_0, {out_, kIn})
                                           : DType::kQ8_0;
  }

  // From the times of few rows and of many: few = rounding + kFewRows threads x,
  // many = rounding + out x.
  double rounding_ns(int64_t tokens, DType activations) const {
    auto found = roundings_.find({tokens, activations});
    if (found == roundings_.end()) return 0;
    const double few_ns = found->second->usual_ns() / kRoundings,
                 few = static_cast<double>(kFewRows * omp_get_max_threads()),
                 many = static_cast<double>(out_);
    for (const QuantizedTiming& t : timings_.at({rounded_weight(), activations}))
      if (t.tokens == tokens)
        return std::max(0.0, (few_ns * many - t.cached_ns() * few) / (many - few));
    return few_ns;
  }

  // Random bytes from 0x14 to 0x17: wherever a format has its scales, they are about 0.001 in
  // fp16, and no number of a plain type is 0, subnormal or infinite.
  void fill_weights() {
    std::vector<std::byte> drawn(1'000'003);  // repeated, as in an OperandPool
    Random random(1);
    for (std::byte& each : drawn) each = static_cast<std::byte>(0x14 + random.below(4));
    const int64_t run = static_cast<int64_t>(drawn.size());
#pragma omp parallel for
    for (int64_t begin = 0; begin < weights_.bytes(); begin += run)
      std::copy_n(drawn.data(), std::min(run, weights_.bytes() - begin), weights_.data() + begin);
  }

  // The types to which GEMMs of so many tokens may round their activations.
  static std::vector<std::string> roundings_of(int64_t tokens) {
    std::vector<std::string> types;
    for (int64_t bits : {16, 8}) {
      const std::string type(name(rounded_activations(quantized_isa(), tokens, bits)));
      if (types.empty() || types[0] != type) types.push_back(type);
    }
    return types;
  }

  // Whether the GEMV path multiplies a plain weight. Other GEMMs of fp32 weights have two plain
  // operands and belong to the library, as do those of bf16 weights and bf16 tokens.
  static bool is_gemv(DType plain, int64_t tokens) {
    return choose({.weight = plain, .tokens = tokens})->is_gemv();
  }
  static bool is_library(DType weight, int64_t tokens) {
    return weight == DType::kF32 && !is_gemv(weight, tokens);
  }

  void add(DType weight) {
    for (int64_t tokens : kTokens) {
      if (!is_library(weight, tokens) && !is_repacked(weight)) add(weight, "f32", tokens);
      if (!is_block(weight)) continue;
      for (const std::string& rounded : roundings_of(tokens)) add(weight, rounded, tokens);
    }
  }

  void add(DType weight, const std::string& activations, int64_t tokens) {
    const QuantizedForm form{weight, *parse_dtype(activations)};
    const QuantizedTiming timing = time(form, tokens);
    if (timing.cached != nullptr) timings_[form].push_back(timing);
  }

  // Without probes if no kernel takes these types.
  QuantizedTiming time(const QuantizedForm& form, int64_t tokens) {
    const int64_t out = is_block(form.weight) ? out_ : plain_out_of(omp_get_max_threads());
    const auto cached = bind(form, tokens, out), memory = bind(form, tokens, out);
    if (!cached->is_supported()) return {};
    memory->rotate(1, slices(storage_bytes(form.weight, out * kIn)));
    constexpr double kFlopsPerNs = 50;  // a rough rate: the repeats need not be exact
    const double ns = static_cast<double>(cached->work().flops) / kFlopsPerNs;
    const int64_t repeats = std::clamp<int64_t>(static_cast<int64_t>(kRunNs / ns), 1, 16);
    auto probe = [&](const std::shared_ptr<BoundNode>& node) {
      return &probes_.add("GEMM of a quantized weight", [node, repeats] { node->run(repeats); });
    };
    return {tokens, out, repeats, probe(cached), probe(memory)};
  }

  std::shared_ptr<BoundNode> bind(const QuantizedForm& form, int64_t tokens, int64_t out) {
    const bool is_narrow = form.weight == DType::kBF16 && form.activations == DType::kBF16;
    const DType x = is_narrow ? DType::kBF16 : DType::kF32;
    return std::make_shared<BoundNode>(
        kernels_, is_narrow ? "matmul" : "quantized_matmul",
        std::vector<NodeInput>{{{x, {tokens, kIn}}, (is_narrow ? bf16_ : pool_).input(0)},
                               {{form.weight, {out, kIn}}, weights_.data()}},
        is_narrow ? Attrs{{"einsum", std::string("nd,fd->nf")}}
                  : Attrs{{"activations", std::string(name(form.activations))}},
        std::span(pool_.result(0), static_cast<size_t>(pool_.bytes())));
  }

  // Weights of this size that fill more memory than all caches have. Each probe begins elsewhere:
  // a cache still has what the probe before it has read.
  std::vector<std::byte*> slices(int64_t bytes) {
    std::vector<std::byte*> all;
    const int64_t step = round_up(bytes, kAlignmentBytes);
    for (int64_t at = 0; at + step <= weights_.bytes(); at += step)
      all.push_back(weights_.data() + at);
    constexpr double kGoldenRatio = 0.618034;  // its multiples, modulo 1, stay far from each other
    const double place = std::fmod(kGoldenRatio * static_cast<double>(rotated_++), 1.0);
    const auto first = static_cast<int64_t>(place * static_cast<double>(all.size()));
    std::rotate(all.begin(), all.begin() + first, all.end());
    return all;
  }

  cost::QuantizedRates rates(const QuantizedForm& form,
                             const std::vector<QuantizedTiming>& timings) const {
    cost::QuantizedRates rates;
    rates.weight = form.weight;
    rates.activations = form.activations;
    const bool is_plain = form.weight == DType::kF32 || form.activations == DType::kBF16;
    if (is_plain && !is_block(form.weight)) rates.most_tokens = most_gemv_tokens(form.weight);
    for (const QuantizedTiming& t : timings) {
      // Whatever disturbed one of the probes, the GEMM itself takes at least half of each time.
      const double rounding =
          std::min({rounding_ns(t.tokens, form.activations), t.cached_ns() / 2, t.memory_ns() / 2});
      rates.times.push_back({t.tokens, (t.cached_ns() - rounding) / t.weights(),
                             (t.memory_ns() - rounding) / t.weights(), rounding / kIn});
    }
    return rates;
  }

  ProbeList& probes_;
  const OperandPool& pool_;
  const OperandPool& bf16_;
  int64_t out_;
  Arena weights_;        // as large as the pool: larger than all caches
  int64_t rotated_ = 0;  // probes that read them in turn
  KernelTable kernels_{cpu_kernels(nullptr)};
  std::map<QuantizedForm, std::vector<QuantizedTiming>> timings_;
  std::map<std::pair<int64_t, DType>, const Probe*> roundings_;  // by tokens and activations
};

}  // namespace

Finish quantized_probes(ProbeList& probes, const OperandPool& pool, const OperandPool& bf16) {
  auto all = std::make_shared<QuantizedProbes>(probes, pool, bf16);
  return [all](cost::Ceilings& ceilings) { all->finish(ceilings); };
}

}  // namespace ridge::backends::cpu
