// SPDX-License-Identifier: Apache-2.0
// A demo shows one lesson about performance: a claim, the prediction from the machine's ceilings,
// the measurement, and what it teaches. Each is one short file of this folder, meant to be read.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bench/graph_trial.h"
#include "record/bench_record.h"

namespace ridge::courses {

using bench::fill_operand;
using bench::plan_trial;
using bench::prepare;
using bench::PreparedGraph;
using bench::run_trial;
using bench::time_repeatedly;
using bench::TrialGraph;
using bench::TrialSetting;

// A fixture measures a demo's points while the budget lasts, and predicts them alone after that.
class Fixture {
 public:
  using Backends = std::function<backends::Backend&(const passes::Selection&)>;
  Fixture(Backends backends,
          const cost::Ceilings& ceilings,
          double budget_ns,
          std::function<bool()> is_stopped);

  // Adds a point: the graph after the passes of `setting`, planned, and timed if the budget allows.
  record::BenchPoint& add(const std::string& form,
                          const record::Extents& extents,
                          const TrialGraph& trial,
                          TrialSetting setting = {});
  // Adds a point of the demo's own loop, which is called repeatedly; `predicted_ns` is what the
  // demo expects of a call.
  struct Loop {
    Work work;
    int64_t bytes = 0;
    double predicted_ns = 0;
    std::function<void()> once;
  };
  record::BenchPoint& add_loop(const std::string& form,
                               const record::Extents& extents,
                               const Loop& loop);
  // Adds a point whose time is known otherwise.
  record::BenchPoint& add_time(const std::string& form,
                               const record::Extents& extents,
                               const Summary& time);

  backends::Backend& backend(const passes::Selection& selection = {"baseline", ""}) {
    return backends_(selection);
  }
  const cost::Ceilings& ceilings() const { return ceilings_; }
  double left_ns() const;
  bool is_stopped() const { return is_stopped_(); }
  // A point by its place; by form and the value of its first letter, or null.
  const record::BenchPoint* find(std::string_view form, int64_t extent = -1) const;

  record::BenchRecord record;

 private:
  // Whether a point of this predicted time may run, and how long its samples may take.
  double budget_for(double predicted_ns) const;

  Backends backends_;
  const cost::Ceilings& ceilings_;
  double end_ns_;
  std::function<bool()> is_stopped_;
};

struct Demo {
  std::string_view name;  // "flash-attention"
  std::string_view claim;
  std::array<std::string_view, 4> teaches;
  // The letter of the chart's axis and its meaning, "n: elements"; empty: bars of forms.
  std::string_view axis;
  void (*run)(Fixture&);  // adds points, and sets record.prediction and record.finding
};

std::span<const Demo> demos();
const Demo* find_demo(std::string_view name);
std::string demo_names();
// Their names and claims as a JSON list.
std::string demos_json();

// Runs one within its budget.
record::BenchRecord show(const Demo& demo, Fixture fixture);

// The lecture's machine, as a source of published times (BenchPoint::published_ns).
inline constexpr const char* kLectureMachine = "A100 40 GB, lecture";

// Graphs that several demos use.
TrialGraph product_graph(int64_t n,
                         int64_t k,
                         int64_t m,
                         DType dtype = DType::kF32);  // x[n,k] W[m,k]^T
// Compares the time of `slow` with that of `fast`, measured where both are: "3.10 times".
std::string times_text(const record::BenchPoint* slow, const record::BenchPoint* fast);
double times_predicted(const record::BenchPoint* slow, const record::BenchPoint* fast);

}  // namespace ridge::courses
