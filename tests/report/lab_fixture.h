// SPDX-License-Identifier: Apache-2.0
// A lab record with invented numbers and malicious names, for tests of the writers.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "record/lab_record.h"

namespace ridge::report {

// Quotes, line breaks, markup, an escape sequence, a byte that is not UTF-8.
inline const std::string kHostile = "e\"v,i\nl|<b>`*\x1b[31m\\ \xff";

inline record::NodeRecord node(int id,
                               std::string op,
                               std::string scope,
                               std::string phase,
                               int64_t ns) {
  record::NodeRecord record;
  record.graph = "step";
  record.node = id;
  record.op = std::move(op);
  record.scope = std::move(scope);
  record.phase = std::move(phase);
  record.shape = "f32[4,8]";
  record.calls = 1;
  record.work = {1000 * (id + 1), 2000 * (id + 1), 0};
  record.read_bytes = 256;
  record.written_bytes = 128;
  record.predicted_ns = 0.9 * static_cast<double>(ns);
  record.bound = id % 2 == 0 ? cost::Bound::kCompute : cost::Bound::kMemory;
  record.time_ns = ns;
  record.samples_ns.assign(8, static_cast<double>(ns));
  return record;
}

inline record::MemoryPoint memory_point(const record::NodeRecord& node) {
  record::MemoryPoint point;
  point.graph = node.graph;
  point.node = node.node;
  point.op = node.op;
  point.scope = node.scope;
  point.phase = node.phase;
  for (int i = 0; i < plan::kMemoryClasses; ++i) point.live.bytes[i] = 1000 * (i + 1) + node.node;
  return point;
}

// `repeats` runs of a graph whose kernels follow each other, some without a gap.
inline void lay_out(record::StepRecord& step, int repeats) {
  step.graphs.push_back({"step", {}});
  for (size_t i = 0; i < step.nodes.size(); ++i)
    step.graphs[0].record_of.push_back(static_cast<int>(i));
  for (int r = 0; r < repeats; ++r) {
    record::TimelineRun run;
    double at = 0.3;
    for (const record::NodeRecord& each : step.nodes) {
      double end = at + static_cast<double>(each.time_ns) + 0.6;
      run.run.spans.push_back({each.node, at, end});
      at = each.node % 3 == 0 ? end : end + 7.7;
    }
    run.run.wall_ns = at + 5.1;
    run.begin_ns = step.timeline_wall_ns;
    step.timeline_wall_ns += run.run.wall_ns;
    step.timeline.push_back(run);
  }
  step.timeline_step = 3;
}

inline record::RunRecord run_record(const std::string& level, double step_ns) {
  record::RunRecord run;
  run.setting = {kHostile, level, "+recompute,-" + kHostile, "fp32", "cpu", "avx2", 2, 8, 128, 1,
                 "train",  ""};
  run.architecture = {1000, 64, 2, 4, 2, 256, 128, 1e4, 1e-5};
  run.learning_rate = 3e-4;
  run.parameters = 1000;
  run.losses = {7.0185, 6.9978, 6.95};
  run.all_wall_ns = {step_ns, 1.5 * step_ns, 0.5 * step_ns};
  run.plain_wall_ns.assign(8, step_ns);
  run.paired_wall_ns = run.plain_wall_ns;
  record::StepRecord& step = run.step;
  step.nodes = {node(0, "embedding", "embedding", "forward", 400),
                node(1, "matmul", "layer.0/attention", "forward", 900),
                node(2, "matmul", "layer.1/attention", "forward", 1000),
                node(3, kHostile, "layer.1/" + kHostile, "backward", 2000),
                node(4, "adamw", "optimizer", "optimizer", 700)};
  for (const record::NodeRecord& each : step.nodes) step.kernel_ns += each.time_ns;
  step.idle_ns = 30;
  step.host_ns = 70;
  step.wall_ns = step.kernel_ns + step.idle_ns + step.host_ns;
  step.wall_samples_ns.assign(8, static_cast<double>(step.wall_ns));
  lay_out(step, 2);
  for (const record::NodeRecord& each : step.nodes)
    run.memory.timeline.push_back(memory_point(each));
  run.memory.owned_bytes = 50000;
  run.memory.arena_bytes = 20000;
  run.memory.foreign_bytes = 700;
  run.memory.after = {40000, 51000};
  run.model.forward = {3'000'000, 6'100'000, 5};
  run.model.backward = {6'000'000, 12'000'000, 7};
  run.executed = {8'000'000, 17'000'000, 9};
  run.planned_bytes = 1920;
  run.compulsory_bytes = 640;
  run.launches = 5;
  run.predicted_ns = 0.9 * step_ns;
  run.passes = {{"merge_qkv", "forward", "one product", "", {}, {}, 1e6}};
  return run;
}

inline cost::Ceilings ceilings() {
  cost::Ceilings c;
  c.machine.device = "CPU " + kHostile;
  c.machine.threads = 2;
  c.source = "measured";
  c.bandwidth = {{1 << 30, 25, 20}};
  c.levels = {{"L2", 1 << 20, 200, 150, 0}, {"memory", int64_t{1} << 34, 25, 20, 0}};
  c.products.resize(1);
  c.products[0].peak_flops_per_ns = 100;
  return c;
}

// Two levels of one size, the second one in detail.
inline record::LabRecord lab_record() {
  record::LabRecord lab;
  lab.program = "ridge 0.0.0";
  lab.command = "ridge lab --preset `" + kHostile;
  lab.finished_at = "2025-01-01T00:00:00Z";
  lab.ceilings = ceilings();
  lab.runs = {run_record("baseline", 2e6), run_record("compiled", 1e6)};
  lab.runs[1].losses[2] += 1e-6;
  lab.detailed = {1};
  lab.seeks_advice = true;
  lab.advice = {
      {"turn on " + kHostile, "why", "--pass=+x", 0.25, -0.1, 1e6, 8e5, 50000, 55000, true}};
  lab.warnings = {"about " + kHostile};
  return lab;
}

}  // namespace ridge::report
