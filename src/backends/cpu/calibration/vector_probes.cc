// SPDX-License-Identifier: Apache-2.0
// Measures arithmetic rates of vector code, the cost of strided layouts for kernels that take any
// layout, and the cost of a call.
#include <omp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "backends/cpu/calibration/bound_node.h"
#include "backends/cpu/calibration/probe_parts.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "base/pointwise.h"
#include "base/shape.h"
#include "cost/row_time.h"

namespace ridge::backends::cpu {
namespace {

constexpr int64_t kElements = 24'000;  // per thread: 96 KB per operand, which fits L2
constexpr int64_t kLongRow = 2'000;    // rows so long that the cost of starting one is negligible
constexpr int64_t kShortRow = 20;
constexpr int64_t kNeighbours = 6;
constexpr int kRepeats = 16;  // in one parallel region, so that opening it is negligible

// One kernel per thread, each on its own part of the pool.
class Kernels {
 public:
  Kernels(const OperandPool& pool,
          const TileProgram& program,
          const Shape& domain,
          const std::vector<Strides>& strides,
          const Strides& result,
          DType dtype = DType::kF32)
      : threads_(omp_get_max_threads()) {
    constexpr int64_t kSpan = kElements * 4 * 3;  // room for strides of 2
    for (int thread = 0; thread < threads_; ++thread) {
      std::vector<TileOperand> inputs;
      for (const Strides& each : strides)
        inputs.push_back(
            {pool.input((thread * 3 + static_cast<int64_t>(inputs.size())) * kSpan), dtype, each});
      kernels_.emplace_back(program, domain, std::move(inputs),
                            std::vector<TileOperand>{{pool.result(thread * kSpan), dtype, result}});
    }
  }
  void run() const {
#pragma omp parallel
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      kernels_[static_cast<size_t>(omp_get_thread_num())].run();
  }
  // Elements that all threads together process in one run.
  double elements() const { return static_cast<double>(kElements) * kRepeats * threads_; }

 private:
  int threads_;
  std::vector<TileKernel> kernels_;
};

struct VectorTiming {
  double elements;
  const Probe* timing;
  double ns_per_element() const { return timing->usual_ns() / elements; }
};

VectorTiming time_kernels(ProbeList& probes,
                          const OperandPool& pool,
                          const TileProgram& program,
                          const Shape& domain,
                          const std::vector<Strides>& strides,
                          std::optional<Strides> result = {}) {
  auto kernels = std::make_shared<Kernels>(pool, program, domain, strides,
                                           result.value_or(dense_strides(domain)));
  return {kernels->elements(), &probes.add("pointwise kernel", [kernels] { kernels->run(); })};
}

VectorTiming time_function(ProbeList& probes,
                           const OperandPool& pool,
                           const TileProgram& program,
                           DType dtype = DType::kF32) {
  auto kernels = std::make_shared<Kernels>(pool, program, Shape{kElements},
                                           std::vector<Strides>{{1}, {1}}, Strides{1}, dtype);
  return {kernels->elements(), &probes.add("pointwise function", [kernels] { kernels->run(); })};
}

// The function `count` times, each on the previous result.
TileProgram repeated(Pointwise function, int count) {
  TileProgram program{{}, {2}, 3};
  for (int i = 0; i < count; ++i)
    program.instructions.push_back({function, 2, i == 0 ? 0 : 2, 1, 0.5f});
  return program;
}

// `count` alternating multiplications and additions, each on the previous result and an input.
TileProgram chain(int count) {
  TileProgram program{{}, {2}, 3};
  for (int i = 0; i < count; ++i)
    program.instructions.push_back(
        {i % 2 == 0 ? Pointwise::kMul : Pointwise::kAdd, 2, i == 0 ? 0 : 2, 1, 0.0f});
  return program;
}

TileProgram binary() { return {{{Pointwise::kMul, 2, 0, 1, 0.0f}}, {2}, 3}; }

double rate_of(double ns) { return 1 / std::max(ns, 1e-6); }

// A function's rate is what a further one adds, so that neither call nor operands' way counts.
class FunctionTimings {
 public:
  FunctionTimings(ProbeList& probes, const OperandPool& pool, const OperandPool& bf16)
      : narrow_unary_(time_function(probes, bf16, repeated(Pointwise::kScale, 1), DType::kBF16)),
        narrow_binary_(time_function(probes, bf16, repeated(Pointwise::kMul, 1), DType::kBF16)) {
    for (const PointwiseInfo& row : pointwise_table())
      timings_.push_back({row.name, time_function(probes, pool, repeated(row.function, 1)),
                          time_function(probes, pool, repeated(row.function, kMany)),
                          time_function(probes, bf16, repeated(row.function, 1), DType::kBF16)});
  }

  void finish(cost::Ceilings& c) const {
    for (const Timing& each : timings_) {
      c.functions.push_back(
          {std::string(each.name),
           rate_of((each.many.ns_per_element() - each.one.ns_per_element()) / (kMany - 1))});
      c.functions.push_back(
          {std::string(each.name) + " bf16", rate_of(each.narrow.ns_per_element())});
    }
    // A unary function also widens and rounds; a binary one widens once more.
    const double unary_ns =
        narrow_unary_.ns_per_element() - 1 / c.function_elements_per_ns("scale");
    const double binary_ns =
        narrow_binary_.ns_per_element() - 1 / c.function_elements_per_ns("mul");
    const double widening_ns = std::max(0.0, binary_ns - unary_ns);
    c.widened_elements_per_ns = rate_of(widening_ns);
    c.narrowed_elements_per_ns = rate_of(unary_ns - widening_ns);
  }

 private:
  static constexpr int kMany = 4;
  struct Timing {
    std::string_view name;
    VectorTiming one, many, narrow;
  };
  VectorTiming narrow_unary_, narrow_binary_;
  std::vector<Timing> timings_;
};

// Rows of a width that no preset has, few enough for L2. Every thread normalizes its rows or takes
// their softmax. As many elements are in rows so short that starting them counts.
constexpr int64_t kTokens = 32, kWidth = cost::kRowWidths[1], kShortWidth = cost::kRowWidths[0];

// Each thread runs a node of its own, on its own part of the pool.
VectorTiming time_rows(ProbeList& probes,
                       const OperandPool& pool,
                       const KernelTable& kernels,
                       const std::string& op,
                       const Type& x) {
  constexpr int64_t kSpan = 2 * kTokens * kWidth * 4;  // room for results and row statistics
  Attrs attrs;
  if (op == "rms_norm") attrs.set("eps", 1e-6);
  if (op == "reduce_sum") attrs.set("axes", std::vector<int64_t>{1});
  auto nodes = std::make_shared<std::vector<std::unique_ptr<BoundNode>>>();
  for (int64_t thread = 0; thread < omp_get_max_threads(); ++thread) {
    std::vector<NodeInput> inputs{{x, pool.input(thread * kSpan)}};
    // Two bf16 inputs that follow each other are a number of about the size of the second.
    if (op == "rms_norm") inputs.push_back({{DType::kF32, {x.shape[1]}}, inputs[0].data});
    nodes->push_back(std::make_unique<BoundNode>(
        kernels, op, inputs, attrs, std::span(pool.result(thread * kSpan), size_t{kSpan})));
  }
  const Probe& timing = probes.add("row kernel", [nodes] {
#pragma omp parallel
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      (*nodes)[static_cast<size_t>(omp_get_thread_num())]->run();
  });
  return {static_cast<double>(kTokens * kWidth * kRepeats) * omp_get_max_threads(), &timing};
}

// The rate of each kernel of rows by type and width. Kernels take different ways for short and long
// rows.
class RowTimings {
 public:
  RowTimings(ProbeList& probes, const OperandPool& f32, const OperandPool& bf16) {
    const KernelTable kernels(cpu_kernels(nullptr));
    for (int64_t width : cost::kRowWidths)
      for (DType dtype : {DType::kF32, DType::kBF16})
        for (const char* op : {"rms_norm", "softmax", "log_softmax", "reduce_sum"})
          timings_[cost::row_function(op, dtype, width)] =
              time_rows(probes, dtype == DType::kF32 ? f32 : bf16, kernels, op,
                        {dtype, {kTokens * kWidth / width, width}});
  }
  void finish(cost::Ceilings& c) const {
    for (const auto& [name, timing] : timings_)
      c.functions.push_back({name, rate_of(timing.ns_per_element())});
  }
  double ns_per_element(const std::string& op, int64_t width) const {
    return timings_.at(cost::row_function(op, DType::kF32, width)).ns_per_element();
  }

 private:
  std::map<std::string, VectorTiming> timings_;
};

// Measures the cost of operands that are not dense, with one multiplication whose second operand
// repeats its rows or elements.
struct LayoutTimings {
  VectorTiming dense, rows, short_rows, read_steps, write_steps;

  LayoutTimings(ProbeList& probes, const OperandPool& pool)
      : dense(time_kernels(probes, pool, binary(), Shape{kElements}, {{1}, {1}})),
        rows(time_kernels(probes,
                          pool,
                          binary(),
                          long_domain(),
                          {dense_strides(long_domain()), {0, 1}})),
        short_rows(time_kernels(probes,
                                pool,
                                binary(),
                                short_domain(),
                                {dense_strides(short_domain()), {kShortRow, 0, 1}})),
        read_steps(
            time_kernels(probes, pool, binary(), long_domain(), {{2 * kLongRow, 2}, {0, 1}})),
        write_steps(time_kernels(probes,
                                 pool,
                                 binary(),
                                 long_domain(),
                                 {dense_strides(long_domain()), {0, 1}},
                                 Strides{2 * kLongRow, 2})) {}

  static Shape long_domain() { return {kElements / kLongRow, kLongRow}; }
  // Every row of the second operand serves several consecutive rows, as one table of angles serves
  // all heads.
  static Shape short_domain() {
    return {kElements / kShortRow / kNeighbours, kNeighbours, kShortRow};
  }

  void finish(cost::Ceilings& c) const {
    // In `rows` one operand is staged; with a stride of 2 another one is staged, too.
    const double base = rows.ns_per_element();
    c.staged_elements_per_ns = rate_of(base - dense.ns_per_element());
    c.strided_reads_per_ns = rate_of(read_steps.ns_per_element() - base);
    c.strided_writes_per_ns = rate_of(write_steps.ns_per_element() - base);
    constexpr double kRunsPerElement = 1.0 / kShortRow - 1.0 / kLongRow;
    c.runs_per_ns = rate_of((short_rows.ns_per_element() - base) / kRunsPerElement);
  }
};

// Many kernels without work in turn, after the caches were filled with other data. A graph's
// launches are like that, since weights pass through the caches between them: each waits for the
// memory that describes its kernel. One kernel called again and again takes a tenth of the time.
class SmallKernels {
 public:
  SmallKernels(ProbeList& probes, const OperandPool& pool) {
    constexpr std::array kOps = {"add", "mul", "sub", "neg", "square", "rsqrt", "silu", "exp"};
    const KernelTable kernels(cpu_kernels(nullptr));
    const Type one{DType::kF32, {1}};
    auto nodes = std::make_shared<std::vector<std::unique_ptr<BoundNode>>>();
    for (int64_t i = 0; i < kCount; ++i) {
      const char* op = kOps[static_cast<size_t>(i) % kOps.size()];
      const int arity = info(*parse_pointwise(op)).arity;
      const std::vector<NodeInput> inputs(static_cast<size_t>(arity),
                                          {one, pool.input(i * kAlignmentBytes)});
      nodes->push_back(std::make_unique<BoundNode>(
          kernels, op, inputs, Attrs(),
          std::span(pool.result(i * kAlignmentBytes), static_cast<size_t>(kAlignmentBytes))));
    }
    timing_ = &probes.add(
        "calls",
        [nodes] {
          for (const auto& node : *nodes) node->run();
        },
        [&pool] { read_all(pool); });
  }
  double ns() const { return timing_->usual_ns() / kCount; }

 private:
  static void read_all(const OperandPool& pool) {
    const auto* x = reinterpret_cast<const float*>(pool.input(0));
    float largest = 0;
    ReduceRows<float, float> reduce{1, pool.bytes() / 4, Reduction::kMax, {x, 0}, &largest};
    reduce_rows(reduce);
  }

  static constexpr int64_t kCount = 256;
  const Probe* timing_;
};

}  // namespace

Finish vector_probes(ProbeList& probes, const OperandPool& pool, const OperandPool& bf16) {
  constexpr int kShortChain = 1, kLongChain = 9;
  VectorTiming one = time_kernels(probes, pool, chain(kShortChain), Shape{kElements}, {{1}, {1}});
  VectorTiming nine = time_kernels(probes, pool, chain(kLongChain), Shape{kElements}, {{1}, {1}});
  const RowTimings rows(probes, pool, bf16);
  const FunctionTimings functions(probes, pool, bf16);
  LayoutTimings layouts(probes, pool);
  const SmallKernels small(probes, pool);
  const Probe& region =
      probes.add("parallel region", [] { for_each_part(omp_get_max_threads(), [](int64_t) {}); });
  bool parallel = omp_get_max_threads() > 1;

  return [=, &region](cost::Ceilings& c) {
    c.arithmetic_flops_per_ns =
        rate_of((nine.ns_per_element() - one.ns_per_element()) / (kLongChain - kShortChain));
    // rms_norm takes 4 FLOPs per element; softmax takes 5, of which 2 are transcendentals.
    c.fused_flops_per_ns = rate_of(rows.ns_per_element("rms_norm", kWidth) / 4);
    c.transcendentals_per_ns =
        rate_of((rows.ns_per_element("softmax", kWidth) - 3 / c.fused_flops_per_ns) / 2);
    // A short row's share of what a row costs, less a long one's.
    constexpr double kRowsPerElement = 1.0 / kShortWidth - 1.0 / kWidth;
    auto start_ns = [&](const char* op) {
      return (rows.ns_per_element(op, kShortWidth) - rows.ns_per_element(op, kWidth)) /
             kRowsPerElement;
    };
    c.rows_per_ns = rate_of(start_ns("rms_norm"));
    c.exponential_rows_per_ns = rate_of(start_ns("softmax"));
    functions.finish(c);
    rows.finish(c);
    layouts.finish(c);
    c.launch_ns = small.ns();
    c.parallel_ns = parallel ? region.usual_ns() : 0;
    c.parallel_threshold_bytes = parallel ? kParallelBytes : 0;
  };
}

}  // namespace ridge::backends::cpu
