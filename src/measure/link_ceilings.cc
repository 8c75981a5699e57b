// SPDX-License-Identifier: Apache-2.0
// Times graphs of collectives.
#include "measure/link_ceilings.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/samples.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "runtime/program.h"

namespace ridge::measure {
namespace {

constexpr const char* kOps[] = {"all_reduce", "all_gather", "reduce_scatter"};
constexpr const char* kGroup = "data";
constexpr const char* kTensor = "tensor";
constexpr int64_t kSizeRatio = 4;
constexpr int kWarmups = 3;  // a GPU records a graph in its second run
constexpr double kSampleNs = 60e6;
constexpr int kLeastRuns = 5, kMostRuns = 200;
// Summed over the ranks in every run; small enough to stay finite.
constexpr float kScale = 1e-30F;

int64_t elements(int64_t bytes, int64_t ranks) {
  return bytes / static_cast<int64_t>(sizeof(float)) / ranks * ranks;
}

// `calls` collectives, one after the other: the host's time for a launch counts once.
Graph graph_of(const std::string& op, int64_t whole, int64_t ranks, int calls) {
  Graph graph;
  Builder b(graph, ops::table());
  const Type type{DType::kF32, Shape{op == "all_gather" ? whole / ranks : whole}};
  const Attrs attrs = {{"group", kGroup}, {"ranks", ranks}};
  const ValueId tensor = b.state(kTensor, type);
  ValueId last = tensor;
  for (int i = 0; i < calls; ++i) last = b.call(op, {op == "all_reduce" ? last : tensor}, attrs);
  graph.outputs = {last};
  return graph;
}

void fill(runtime::Store& store) {
  std::vector<float> values(static_cast<size_t>(store.type(kTensor).shape.elements()));
  Random(7).fill_normal(values, kScale);
  store.write(kTensor, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
}

double run_ns(runtime::Program& program) {
  const double begin_ns = now_ns();
  program.run(0);
  program.wait();
  return now_ns() - begin_ns;
}

// The greatest over the ranks.
double greatest(const runtime::Ranks& ranks, double own) {
  double most = own;
  for (const std::string& each : ranks.all().gather(fmt::format("{:.3f}", own)))
    most = std::max(most, std::stod(each));
  return most;
}

cost::LinkSample measure(backends::Backend& backend,
                         const runtime::Ranks& ranks,
                         const std::string& op,
                         int64_t bytes) {
  const int64_t count = ranks.layout().data, whole = elements(bytes, count);
  // On a GPU a launch takes longer than a small message.
  const int calls = backend.instrument() != nullptr && bytes <= (1 << 20) ? 8 : 1;
  runtime::Store store(backend);
  runtime::Program program(backend, store);
  program.add(op, graph_of(op, whole, count, calls));
  program.bind();
  fill(store);
  double first_ns = 0;
  for (int i = 0; i < kWarmups; ++i) first_ns = run_ns(program);
  const int runs =
      std::clamp(static_cast<int>(kSampleNs / greatest(ranks, first_ns)), kLeastRuns, kMostRuns);
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(run_ns(program));
  const cost::ProgramGraph& graph = program.graph(0);
  int64_t sent_bytes = 0;
  for (const auto& each : graph.costed->costs) sent_bytes += each.sent_bytes;
  return {whole * static_cast<int64_t>(sizeof(float)), sent_bytes / calls,
          greatest(ranks, median(times) / calls)};
}

}  // namespace

cost::LinkCurves measure_links(backends::Backend& backend,
                               const runtime::Ranks& ranks,
                               int64_t most_bytes,
                               const CalibrationProgress& progress) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = kLeastLinkBytes; bytes < kMostLinkBytes; bytes *= kSizeRatio)
    sizes.push_back(bytes);
  sizes.push_back(kMostLinkBytes);
  std::erase_if(sizes, [&](int64_t each) { return each > std::max(most_bytes, kLeastLinkBytes); });
  cost::LinkCurves link{ranks.groups().at(kGroup)->library(), ranks.layout().data, {}, utc_now()};
  double done = 0;
  for (const char* op : kOps) {
    cost::LinkCurve& curve = link.curves.emplace_back(cost::LinkCurve{op, {}});
    for (const int64_t bytes : sizes) {
      if (progress)
        progress(done / static_cast<double>(std::size(kOps) * sizes.size()),
                 fmt::format("{} of {} KiB", op, bytes >> 10));
      curve.samples.push_back(measure(backend, ranks, op, bytes));
      ++done;
    }
  }
  return link;
}

}  // namespace ridge::measure
