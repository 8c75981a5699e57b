// SPDX-License-Identifier: Apache-2.0
// The demo gemm-ladder: C = A B in six steps, from three loops to a library, and on a GPU in seven,
// from a thread for each result to a library's tensor cores. This file is compiled for AVX2 with
// FMA where it says so, and at -O2.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "courses/demos/demos.h"
#include "courses/ladder_gemm.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

struct Matrices {
  int n;
  std::vector<float> a, b, c;
  explicit Matrices(int size)
      : n(size),
        a(static_cast<size_t>(size) * static_cast<size_t>(size)),
        b(a.size()),
        c(a.size()) {
    Random random(1);
    random.fill_normal(a, 1);
    random.fill_normal(b, 1);
  }
  void clear() { std::memset(c.data(), 0, c.size() * sizeof(float)); }
};

// Step 1 is as the formula reads. The inner loop walks down a column of B: a new cache line for
// each element, and each addition waits for the one before.
void three_loops(Matrices& m) {
  const int n = m.n;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k) sum += m.a[i * n + k] * m.b[k * n + j];
      m.c[i * n + j] = sum;
    }
}

// Step 2: the inner loop walks along rows of B and C.
void reordered(Matrices& m) {
  const int n = m.n;
  m.clear();
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k) {
      const float a = m.a[i * n + k];
      for (int j = 0; j < n; ++j) m.c[i * n + j] += a * m.b[k * n + j];
    }
}

// Step 3: a block of B stays in L1 while all rows of A pass it.
constexpr int kBlock = 64;
void blocked(Matrices& m) {
  const int n = m.n;
  m.clear();
  for (int k0 = 0; k0 < n; k0 += kBlock)
    for (int j0 = 0; j0 < n; j0 += kBlock)
      for (int i = 0; i < n; ++i)
        for (int k = k0; k < k0 + kBlock; ++k) {
          const float a = m.a[i * n + k];
          for (int j = j0; j < j0 + kBlock; ++j) m.c[i * n + j] += a * m.b[k * n + j];
        }
}

// Step 4: 4 x 16 results stay in eight vector registers while k runs, so that two loads feed eight
// multiply-adds.
typedef float Vector __attribute__((vector_size(32), aligned(4)));
constexpr int kRows = 4, kLanes = 8;
__attribute__((target("avx2,fma"))) void vectorised_rows(Matrices& m, int begin, int end) {
  const int n = m.n;
  for (int j = 0; j < n; j += 2 * kLanes)
    for (int i = begin; i < end; i += kRows) {
      Vector sum[kRows][2] = {};
      for (int k = 0; k < n; ++k) {
        const Vector left = *reinterpret_cast<const Vector*>(&m.b[k * n + j]),
                     right = *reinterpret_cast<const Vector*>(&m.b[k * n + j + kLanes]);
        for (int r = 0; r < kRows; ++r) {
          const float a = m.a[(i + r) * n + k];
          sum[r][0] += a * left;
          sum[r][1] += a * right;
        }
      }
      for (int r = 0; r < kRows; ++r)
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<Vector*>(&m.c[(i + r) * n + j + half * kLanes]) = sum[r][half];
    }
}
void vectorised(Matrices& m) { vectorised_rows(m, 0, m.n); }

// Step 5: each thread has rows of its own.
void threaded(Matrices& m) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < m.n; i += kBlock) vectorised_rows(m, i, i + kBlock);
}

double largest_error(const Matrices& m, const std::vector<float>& want) {
  double error = 0;
  for (size_t i = 0; i < want.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(m.c[i] - want[i])));
  return error;
}

// On a GPU the steps are kernels of this room (courses/cuda/kernels/ladder.cu).
TrialGraph step_graph(std::string_view kernel, int64_t n, DType dtype) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  const ValueId x = b.input("x", {dtype, {n, n}}), w = b.input("w", {dtype, {n, n}});
  trial.graph.outputs = {b.call("ladder_gemm", {x, w}, {{"kernel", std::string(kernel)}})};
  return trial;
}

void run_on_gpu(Fixture& fixture) {
  constexpr int64_t kSize = 2048;
  const record::Extents extents{{"n", kSize}};
  for (size_t i = 0; i < kLadderKernels.size(); ++i) {
    const std::string_view kernel = kLadderKernels[i];
    const DType dtype = kernel == "tensor_cores" ? DType::kBF16 : DType::kF32;
    fixture.add(fmt::format("{} {}", i + 1, kernel), extents, step_graph(kernel, kSize, dtype));
  }
  fixture.add("6 library, fp32", extents, product_graph(kSize, kSize, kSize));
  fixture.add("7 library, bf16", extents, product_graph(kSize, kSize, kSize, DType::kBF16));
  const record::BenchPoint *first = fixture.find("1 naive"),
                           *registers = fixture.find("4 register_tiles"),
                           *last = fixture.find("7 library, bf16");
  fixture.record.prediction =
      "the model counts arithmetic and memory, not where operands wait: the first steps miss it by far.";
  fixture.record.finding = fmt::format(
      "a thread for each result takes {} the time of tiles in registers, and {} that of the library in bf16.",
      times_text(first, registers), times_text(first, last));
}

void run(Fixture& fixture) {
  if (fixture.ceilings().machine.isa.starts_with("sm_")) return run_on_gpu(fixture);
  constexpr int kSize = 512;
  Matrices m(kSize);
  const int64_t macs = int64_t{kSize} * kSize * kSize;
  const cost::Ceilings& c = fixture.ceilings();
  const double threads = std::max(1, c.machine.threads);
  // An addition waits four cycles for the one before it.
  constexpr double kAddCycles = 4, kUsualClock = 3;
  const double clock = c.machine.clock_ghz > 0 ? c.machine.clock_ghz : kUsualClock;
  const double peak = std::max(c.peak_flops_per_ns(DType::kF32), 1e-3),
               flops = 2.0 * static_cast<double>(macs);
  // Step 2 to 3: a multiply-add at a time, one a cycle.
  const double streamed = static_cast<double>(macs) / clock;
  struct Step {
    const char* name;
    void (*run)(Matrices&);
    double predicted_ns;
  };
  const bool has_vectors = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  std::vector<float> want;
  double error = 0;
  for (const Step& step :
       {Step{"1 three loops", three_loops, static_cast<double>(macs) * kAddCycles / clock},
        {"2 reordered", reordered, streamed},
        {"3 blocked for L1", blocked, streamed},
        {"4 vectorised", vectorised, flops / peak * threads},
        {"5 threaded", threaded, flops / peak}}) {
    if (!has_vectors && step.name[0] >= '4') continue;
    fixture.add_loop(
        step.name, {{"n", kSize}},
        {products(macs), 3 * 4 * int64_t{kSize} * kSize, step.predicted_ns, [&] { step.run(m); }});
    if (want.empty()) {
      three_loops(m);
      want = m.c;
    }
    step.run(m);
    error = std::max(error, largest_error(m, want));
  }
  fixture.add("6 library", {{"n", kSize}}, product_graph(kSize, kSize, kSize));
  const record::BenchPoint *first = fixture.find("1 three loops"),
                           *last = fixture.find("6 library");
  fixture.record.prediction = fmt::format("from three loops to the library {:.0f} times as fast.",
                                          times_predicted(first, last));
  fixture.record.finding = fmt::format(
      "three loops take {} the time of the library; the results of all steps differ by at most {:.1e}.",
      times_text(first, last), error);
}

}  // namespace

Demo gemm_ladder_demo() {
  return {
      "gemm-ladder",
      "The same multiply-adds take a small part of the time once their operands come from registers and L1.",
      {"A result at a time waits for memory and for the addition before; the arithmetic units stand idle.",
       "Order, blocks and tiles change no arithmetic, only where operands come from.",
       "Registers that hold a tile of results turn two loads into eight multiply-adds, on a GPU 16 into 64.",
       "Threads multiply what one core reaches, tensor cores what one thread does; a library adds packing and prefetching."},
      "",
      run};
}

}  // namespace ridge::courses
