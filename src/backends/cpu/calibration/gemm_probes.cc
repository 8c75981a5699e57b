// SPDX-License-Identifier: Apache-2.0
// Measures GEMM rates over sizes and forms, and the two rates of attention.
#include <omp.h>
#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "base/error.h"
#include "base/shape.h"

namespace ridge::backends::cpu {
namespace {

using cost::AttentionRates;
using cost::ProductExtents;
using cost::ProductForm;

// Multiples of 48, so that no extent of a preset (powers of two and 1000) is among them: square,
// flat and deep products, few rows, and batches like those of attention.
constexpr auto kExtents = std::to_array<ProductExtents>(
    {{1, 96, 96, 96},       {1, 192, 192, 192},  {1, 384, 384, 384},   {1, 768, 768, 768},
     {1, 1536, 192, 192},   {1, 1536, 192, 768}, {1, 1536, 768, 192},  {1, 1536, 384, 384},
     {1, 192, 384, 1536},   {1, 768, 384, 1536}, {1, 1536, 1536, 384}, {1, 384, 1536, 1536},
     {1, 2304, 1536, 1536}, {1, 1, 1536, 768},   {1, 12, 768, 768},    {1, 48, 768, 1536},
     {1, 1536, 48, 768},    {1, 1536, 768, 48},  {24, 96, 96, 48},     {24, 96, 48, 96},
     {24, 192, 192, 48},    {24, 192, 48, 192},  {48, 96, 96, 24},     {48, 96, 24, 96},
     {12, 192, 192, 96},    {12, 192, 96, 192},  {6, 384, 384, 96},    {6, 384, 96, 384}});
constexpr std::array kForms = {ProductForm::kNN, ProductForm::kNT, ProductForm::kTN};

// These are also timed with row strides that are powers of two.
constexpr auto kVaried = std::to_array<ProductExtents>({{1, 192, 192, 192},
                                                        {1, 384, 384, 384},
                                                        {1, 1536, 192, 192},
                                                        {1, 1536, 384, 384},
                                                        {1, 768, 384, 1536}});

// These are also timed with operands from memory: B, A and C take most of their bytes.
constexpr auto kFromMemory =
    std::to_array<ProductExtents>({{1, 48, 768, 1536}, {1, 1536, 48, 768}, {1, 1536, 768, 48}});

// The matrices of a batch lie side by side in each row, as the heads of attention do. oneDNN has
// faster kernels for matrices that lie one after the other, but no model's graph has those.
enum class RowStep : uint8_t { kDense, kPowerOfTwo };

GemmShape gemm_shape(const ProductExtents& e,
                     ProductForm form,
                     DType dtype,
                     RowStep rows = RowStep::kDense) {
  GemmShape g;
  bool a_transposed = form == ProductForm::kTN || form == ProductForm::kTT;
  bool b_transposed = form == ProductForm::kNT || form == ProductForm::kTT;
  int64_t a_row = a_transposed ? e.m : e.k, b_row = b_transposed ? e.k : e.n;
  if (e.batch > 1) {
    g.batch = {e.batch};
    g.a_batch = {a_row};
    g.b_batch = {b_row};
    g.c_batch = {e.n};
  }
  g.m = e.m, g.n = e.n, g.k = e.k;
  auto row_step = [&](int64_t columns) {
    int64_t dense = e.batch * columns;
    if (rows == RowStep::kDense) return dense;
    // At least 2 KiB, which is where the prediction starts to apply the power-of-two slowdown.
    return static_cast<int64_t>(std::bit_ceil(
        static_cast<uint64_t>(std::max<int64_t>(dense, 2048 / storage_bytes(dtype, 1)))));
  };
  a_row = row_step(a_row), b_row = row_step(b_row);
  g.a_m = a_transposed ? 1 : a_row, g.a_k = a_transposed ? a_row : 1;
  g.b_k = b_transposed ? 1 : b_row, g.b_n = b_transposed ? b_row : 1;
  g.c_m = row_step(e.n), g.c_n = 1;
  g.input = g.output = dtype;
  return g;
}

// The bytes of A with its row stride; B begins after them.
int64_t bytes_of_a(const GemmShape& g) {
  return round_up(storage_bytes(g.input, std::max(g.m * g.a_m, g.k * g.a_k)), kAlignmentBytes);
}

// The products are bound once. They share one workspace, because they run one after the other.
class Products {
 public:
  Products(const OperandPool& pool, DType dtype, bool is_native)
      : pool_(pool), dtype_(dtype), is_native_(is_native) {
    int64_t most = 0;
    for (const ProductExtents& e : kExtents)
      for (ProductForm form : kForms) {
        GemmShape shape = gemm_shape(e, form, dtype);
        most = std::max(most, gemm_workspace_bytes(default_form(shape, is_native), shape));
      }
    workspace_ = Arena(most, "workspace of products");
  }

  GemmLaunch bind(const ProductExtents& e, ProductForm form, RowStep rows = RowStep::kDense) const {
    GemmShape shape = gemm_shape(e, form, dtype_, rows);
    std::byte* a = pool_.input(0);
    return bind_gemm(default_form(shape, is_native_), shape,
                     {a, a + bytes_of_a(shape), pool_.result(0), workspace()});
  }
  // The product on as many sets of operands as the pool holds, one after the other.
  std::vector<GemmLaunch> bind_all(const ProductExtents& e, ProductForm form) const {
    GemmShape shape = gemm_shape(e, form, dtype_);
    const int64_t a = bytes_of_a(shape),
                  b = round_up(storage_bytes(dtype_, e.k * e.n), kAlignmentBytes),
                  c = round_up(storage_bytes(dtype_, e.m * e.n), kAlignmentBytes);
    std::vector<GemmLaunch> launches;
    for (int64_t i = 0; (i + 1) * std::max(a + b, c) <= pool_.bytes(); ++i) {
      std::byte* from = pool_.input(i * (a + b));
      launches.push_back(bind_gemm(default_form(shape, is_native_), shape,
                                   {from, from + a, pool_.result(i * c), workspace()}));
    }
    return launches;
  }

 private:
  std::span<std::byte> workspace() const {
    return {workspace_.data(), static_cast<size_t>(workspace_.bytes())};
  }

  const OperandPool& pool_;
  DType dtype_;
  bool is_native_;
  Arena workspace_;
};

struct ProductTiming {
  ProductExtents extents;
  ProductForm form;
  const Probe* timing;
  double calls = 1;  // in a run of the probe

  cost::ProductSample sample() const { return {extents, form, timing->usual_ns() / calls}; }
};

const Probe& timing_of(const std::vector<ProductTiming>& hot, const ProductTiming& varied) {
  for (const ProductTiming& each : hot) {
    const ProductExtents &x = each.extents, &y = varied.extents;
    if (each.form == varied.form && x.m == y.m && x.n == y.n && x.k == y.k && x.batch == y.batch)
      return *each.timing;
  }
  RIDGE_CHECK(false, "a size that was timed in one way only");
  return *varied.timing;
}

// The library's GEMMs hold columns of C in vectors of so many lanes.
double fp32_lanes() {
  const std::string isa = isa_name();
  return isa.starts_with("avx512") || isa.starts_with("amx") ? 16 : isa.starts_with("avx2") ? 8 : 4;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double slowdown(const std::vector<ProductTiming>& hot, const std::vector<ProductTiming>& padded) {
  std::vector<double> ratios;
  for (const ProductTiming& each : padded)
    ratios.push_back(each.timing->usual_ns() / timing_of(hot, each).usual_ns());
  return std::max(1.0, median(ratios));
}

// Native GEMMs do not support batches, so those sizes are skipped.
Finish dtype_probes(ProbeList& probes,
                    const OperandPool& pool,
                    DType dtype,
                    bool is_native = false) {
  auto products = std::make_shared<Products>(pool, dtype, is_native);
  std::vector<ProductTiming> hot, padded, cold;
  for (const ProductExtents& e : kExtents)
    for (ProductForm form : kForms)
      if (e.batch == 1 || !is_native)
        hot.push_back({e, form, &probes.add("GEMM", products->bind(e, form))});
  for (const ProductExtents& e : kVaried)
    for (ProductForm form : kForms)
      padded.push_back({e, form,
                        &probes.add("GEMM of rows a power of two apart",
                                    products->bind(e, form, RowStep::kPowerOfTwo))});
  for (const ProductExtents& e : kFromMemory)
    for (ProductForm form : kForms) {
      std::vector<GemmLaunch> launches = products->bind_all(e, form);
      const double calls = static_cast<double>(launches.size());
      auto run = [launches = std::move(launches)] {
        for (const GemmLaunch& launch : launches) launch();
      };
      cold.push_back({e, form, &probes.add("GEMM from memory", run), calls});
    }
  return [=, &pool](cost::Ceilings& ceilings) {
    (void)products;  // owns the workspace that the timings used
    cost::ProductRates rates;
    rates.dtype = dtype;
    rates.is_native = is_native;
    for (const ProductTiming& each : hot) {
      rates.samples.push_back(each.sample());
      rates.peak_flops_per_ns =
          std::max(rates.peak_flops_per_ns, each.extents.flops() / each.timing->undisturbed_ns());
    }
    rates.power_of_two_slowdown = slowdown(hot, padded);
    rates.vector_columns = fp32_lanes();
    // A pool that the caches hold tells nothing of memory.
    if (4 * pool.bytes() > 3 * ceilings.last_cache_bytes())
      for (const ProductTiming& each : cold) rates.memory_samples.push_back(each.sample());
    ceilings.products.push_back(std::move(rates));
  };
}

// Attention on generic extents: a head size and the timings of the forward and backward pass.
struct AttentionTiming {
  AttentionExtents extents;
  const Probe* forward;
  const Probe* backward;

  double heads() const { return static_cast<double>(extents.batch * extents.heads); }
  cost::TimedTerms<2> forward_terms() const {
    const double scores = heads() * static_cast<double>(flash_attention_visited_scores(extents));
    return {{4 * static_cast<double>(extents.head_size) * scores, scores}, forward->usual_ns()};
  }
  cost::TimedTerms<2> backward_terms() const {
    const double scores =
        heads() * static_cast<double>(flash_attention_backward_visited_scores(extents));
    return {{10 * static_cast<double>(extents.head_size) * scores, scores}, backward->usual_ns()};
  }
};

// The time over that by the two rates.
double slowdown(const cost::TimedTerms<2>& timed, double first_rate, double second_rate) {
  const double ns = timed.terms[0] / first_rate + timed.terms[1] / second_rate;
  return std::clamp(timed.ns / ns, 1.0, 100.0);
}

template <typename T>
AttentionTiming time_attention(ProbeList& probes,
                               const OperandPool& pool,
                               int64_t head_size,
                               int64_t sequence,
                               int threads) {
  AttentionExtents e;
  e.batch = std::clamp<int64_t>(threads / 2, 2, 20);
  e.sequence = sequence;
  e.heads = 4;
  e.kv_heads = 2;
  e.head_size = head_size;
  e.scale = 0.125f;
  int64_t tokens = e.batch * e.sequence, at = 0;
  auto heads = [&](std::byte* base, int64_t count) {
    auto* data = reinterpret_cast<T*>(base + at);
    at += round_up(tokens * count * head_size * static_cast<int64_t>(sizeof(T)), kAlignmentBytes);
    return TokenHeads<T>{data, count * head_size, head_size};
  };
  auto in = [](const TokenHeads<T>& view) {
    return TokenHeads<const T>{view.data, view.token_stride, view.head_stride};
  };
  TokenHeads<T> q = heads(pool.input(0), 4), k = heads(pool.input(0), 2),
                v = heads(pool.input(0), 2), d_o = heads(pool.input(0), 4);
  at = 0;
  TokenHeads<T> o = heads(pool.result(0), 4), d_q = heads(pool.result(0), 4),
                d_k = heads(pool.result(0), 2), d_v = heads(pool.result(0), 2);
  int64_t bytes = std::max(flash_attention_forward_workspace_bytes(e, threads),
                           flash_attention_backward_workspace_bytes(e, threads));
  auto workspace = std::make_shared<Arena>(std::max<int64_t>(bytes, 1), "workspace of attention");
  auto lse = std::make_shared<Arena>(tokens * e.heads * 4, "row sums of attention");
  auto sums = [lse] { return reinterpret_cast<float*>(lse->data()); };
  auto scratch = [workspace] { return reinterpret_cast<float*>(workspace->data()); };
  const Probe& forward = probes.add("attention", [=] {
    flash_attention_forward<T>({e, in(q), in(k), in(v), o, sums(), scratch(), threads});
  });
  const Probe& backward = probes.add("attention, backward", [=] {
    flash_attention_backward<T>(
        {e, in(q), in(k), in(v), in(o), sums(), in(d_o), d_q, d_k, d_v, scratch(), threads});
  });
  return {e, &forward, &backward};
}

template <typename T>
Finish attention_probes_of(ProbeList& probes, const OperandPool& pool, DType dtype) {
  std::vector<AttentionTiming> timings, brief;
  const int threads = omp_get_max_threads();
  // As long as prompts are, and short: there, tiles that the mask cuts take a larger share.
  for (int64_t head_size : {24, 48, 96, 160})
    timings.push_back(
        time_attention<T>(probes, pool, head_size, AttentionRates::kLongTokens, threads));
  for (int64_t head_size : {48, 96})
    brief.push_back(
        time_attention<T>(probes, pool, head_size, AttentionRates::kShortTokens, threads));
  return [timings, brief, dtype](cost::Ceilings& ceilings) {
    std::vector<cost::TimedTerms<2>> forward, backward;
    for (const AttentionTiming& t : timings) {
      forward.push_back(t.forward_terms());
      backward.push_back(t.backward_terms());
    }
    auto [forward_flops, forward_scores] = two_rates(forward);
    auto [backward_flops, backward_scores] = two_rates(backward);
    AttentionRates rates{dtype, forward_flops, forward_scores, backward_flops, backward_scores};
    std::vector<double> forward_slowdowns, backward_slowdowns;
    for (const AttentionTiming& t : brief) {
      forward_slowdowns.push_back(slowdown(t.forward_terms(), forward_flops, forward_scores));
      backward_slowdowns.push_back(slowdown(t.backward_terms(), backward_flops, backward_scores));
    }
    rates.forward_short_slowdown = median(std::move(forward_slowdowns));
    rates.backward_short_slowdown = median(std::move(backward_slowdowns));
    ceilings.attention.push_back(rates);
  };
}

}  // namespace

Finish gemm_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16) {
  Finish wide = dtype_probes(probes, f32, DType::kF32),
         narrow = dtype_probes(probes, bf16, DType::kBF16);
  Finish tiles =
      has_bf16_tiles() ? dtype_probes(probes, bf16, DType::kBF16, true) : [](cost::Ceilings&) {};
  return [wide, narrow, tiles](cost::Ceilings& ceilings) {
    wide(ceilings);
    narrow(ceilings);
    tiles(ceilings);
  };
}

std::array<double, 2> two_rates(const std::vector<cost::TimedTerms<2>>& timed) {
  constexpr double kLeast = 1e-8;  // smallest time per unit: a rate that never limits
  const std::array<double, 2> ns = cost::fit_relative(timed);
  return {1 / std::max(ns[0], kLeast), 1 / std::max(ns[1], kLeast)};
}

Finish attention_probes(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16) {
  Finish wide = attention_probes_of<float>(probes, f32, DType::kF32);
  Finish narrow = attention_probes_of<uint16_t>(probes, bf16, DType::kBF16);
  return [wide, narrow](cost::Ceilings& ceilings) {
    wide(ceilings);
    narrow(ceilings);
  };
}

}  // namespace ridge::backends::cpu
