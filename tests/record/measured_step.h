// SPDX-License-Identifier: Apache-2.0
// A small program of two graphs with invented clock readings, for tests of the records.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cost/costed_graph.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "plan/targets.h"
#include "record/step_record.h"

namespace ridge::record {

struct MeasuredStep {
  Graph accumulate, update;
  std::vector<PredictedGraph> graphs;

  explicit MeasuredStep(int64_t repeat, const std::string& scope_of_layers = "layer") {
    build_accumulate(scope_of_layers);
    build_update();
    plan::PlainTarget target;
    graphs.push_back(
        {cost::program_graph("accumulate", accumulate, repeat, target), predictions(accumulate)});
    graphs.push_back({cost::program_graph("update", update, 1, target), predictions(update)});
  }

  // A step whose kernels take whole and fractional nanoseconds drawn from `engine`, with gaps
  // between them.
  InstrumentedStep draw(std::mt19937& engine) const {
    std::uniform_real_distribution<double> ns(10.0, 5000.0);
    InstrumentedStep step;
    double wall = 0;
    for (const PredictedGraph& each : graphs)
      for (int64_t i = 0; i < each.run.repeat; ++i) {
        step.runs.push_back(draw_run(each, engine));
        wall += step.runs.back().wall_ns;
      }
    step.wall_ns = wall + ns(engine);
    return step;
  }

 private:
  static ProfiledRun draw_run(const PredictedGraph& each, std::mt19937& engine) {
    std::uniform_real_distribution<double> ns(10.0, 5000.0);
    ProfiledRun run;
    double at = 0;
    for (size_t i = 0; i < each.run.graph().nodes.size(); ++i) {
      if (each.run.costed->costs[i].launches == 0) continue;
      double begin = at + ns(engine) / 100;
      at = begin + ns(engine);
      run.spans.push_back({static_cast<int32_t>(i), begin, at});
    }
    run.wall_ns = at + ns(engine) / 10;
    return run;
  }

  static std::vector<cost::NodePrediction> predictions(const Graph& graph) {
    std::vector<cost::NodePrediction> all(graph.nodes.size());
    for (size_t i = 0; i < all.size(); ++i) {
      bool is_product = graph.nodes[i].op->name == "matmul";
      all[i].ns = 100.0 + static_cast<double>(i);
      all[i].bound = is_product ? cost::Bound::kCompute : cost::Bound::kMemory;
    }
    return all;
  }

  void build_accumulate(const std::string& layers) {
    Builder b(accumulate, ops::table());
    ValueId x = b.input("x", {DType::kF32, {4, 8}});
    ValueId weight = b.parameter("weight", {DType::kF32, {8, 8}});
    ValueId gradient = b.state("weight.gradient", {DType::kF32, {8, 8}});
    for (int layer = 0; layer < 3; ++layer) {
      auto outer = b.scope(fmt::format("{}.{}", layers, layer));
      {
        auto inner = b.scope("attention");
        x = ops::matmul(b, "nd,fd->nf", x, weight);
        x = ops::unary(b, "exp", x);
      }
      {
        auto inner = b.scope("mlp");
        x = ops::matmul(b, "nd,fd->nf", x, weight);
      }
      x = ops::add(b, x, ops::reshape(b, ops::reshape(b, x, {8, 4}), {4, 8}));
    }
    b.set_phase(Phase::kBackward);
    auto scope = b.scope("head");
    ValueId product = ops::matmul(b, "nf,nd->fd", x, x);
    b.call("accumulate", {gradient, product});
    accumulate.outputs = {x};
  }

  void build_update() {
    Builder b(update, ops::table());
    b.set_phase(Phase::kOptimizer);
    auto scope = b.scope("optimizer");
    ValueId gradient = b.state("weight.gradient", {DType::kF32, {8, 8}});
    ValueId moment = b.state("weight.adamw_m", {DType::kF32, {8, 8}});
    ValueId weight = b.parameter("weight", {DType::kF32, {8, 8}});
    ValueId sum = ops::add(b, gradient, weight);
    b.call("accumulate", {moment, sum});
    b.call("zero", {gradient});
  }
};

}  // namespace ridge::record
