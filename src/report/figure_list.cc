// SPDX-License-Identifier: Apache-2.0
// Visits the figures of every kind of record.
#include "report/figure_list.h"

#include <fmt/format.h>

#include "record/bench_figures.h"
#include "record/data_set.h"
#include "record/exchange_record.h"
#include "record/inference_record.h"
#include "record/load_summary.h"
#include "record/numerics_record.h"
#include "record/plan_figures.h"
#include "record/rank_plan.h"
#include "record/topology.h"
#include "record/training_record.h"

namespace ridge::report {
namespace {

template <class T>
constexpr bool kIsText = std::is_convertible_v<T, std::string_view> ||
                         (std::is_enum_v<T> && !std::is_integral_v<T>);

// Calls see(name, title, record) for an empty record of each kind.
template <class See>
void each_kind(const See& see) {
  see("setting", "A run's options (`setting` in all files of a run)", record::Setting());
  see("summary", "A run of `performance_summary.json`, as `ridge diff` reads it",
      record::SummaryRun());
  see("run", "A run", record::RunRecord());
  see("step", "Where a step's time goes (`attribution`)", record::StepRecord());
  see("phases", "An instrumented step (`step_phases`)", record::StepPhases());
  see("interval", "A time or rate that was measured several times", Summary());
  see("operation", "A row of the tables of operations (`operations`, `operators.csv`)",
      record::OperationRow());
  see("kernel", "A node that launches kernels (`kernels.json`)", record::NodeRecord());
  see("pass", "The graph before and after a pass (`passes`)", cost::GraphCost());
  see("module", "A module over all layers (`modules`)", record::ModuleRecord());
  see("advice", "A piece of advice (`advice`)", record::AdviceRecord());
  see("memory", "The memory of a run (`memory`, `memory.json`)", record::MemoryRecord());
  see("point", "Live memory at a node (`timeline` of `memory.json`)", record::MemoryPoint());
  see("tensor", "A tensor that is live at the peak (`tensors_at_peak`)", record::LiveTensor());
  see("latency", "A generation (`latency` of `infer_summary.json`)", record::LatencyRecord());
  see("gain", "A token with and without the KV cache (`kv_cache`)", record::CacheGainRecord());
  see("attention", "A form of attention (`attention`)", record::AttentionForm());
  see("bench", "A point of `ridge bench` and `ridge demo` (`bench.json`)", record::BenchPoint());
  see("load", "A server under load (`ridge bench serve`)", record::LoadSummary());
  see("percentiles", "The latencies of requests", record::Percentiles());
  see("plan", "A plan of training a model (`ridge plan`)", record::TrainingPlan());
  see("parameters", "A plan from a number of parameters", record::ParameterPlan());
  see("exchange", "What the ranks of a run exchanged (`ranks.json`)", record::ExchangeRecord());
  see("rank_times", "A rank of it (`ranks`)", record::RankTimes());
  see("collective_times", "A kind of its collectives (`collectives`)", record::CollectiveTimes());
  see("ranks", "A plan of several ranks (`ridge plan --fake-ranks`)", record::RankPlan());
  see("collective", "A collective of a step (`collectives`)", record::PlannedCollective());
  see("metrics", "A step of training (`metrics.jsonl`)", record::StepMetrics());
  see("numerics", "The range of numbers (`numerics.jsonl`)", record::NumericsRow());
  see("data_set", "A data set (`ridge data`)", record::DataSetSummary());
  see("topology", "A machine (`ridge machine --topology`)", record::Topology());
}

}  // namespace

Json figures_json() {
  Json all = Json::object();
  each_kind([&](const char* kind, const char*, const auto& record) {
    figures(
        [&](const record::Figure& f, const auto& value, auto...) {
          using Value = std::remove_cvref_t<decltype(value)>;
          all[kind][std::string(f.key)] = {record::label(f.key), kIsText<Value> ? "text" : f.unit,
                                           f.says, f.since};
        },
        record);
  });
  return all;
}

std::string figures_page() {
  std::string text =
      "# Figures\n\nThe figures of Ridge's files, by the record that has them. A test holds this page "
      "against the list of figures in `src/record`. A key without a sentence says what it is; `share` "
      "is a ratio that tables show in percent, `x` a factor.\n";
  const Json all = figures_json();
  each_kind([&](const char* kind, const char* heading, const auto&) {
    text += fmt::format("\n## {}\n\n| key | unit | meaning |\n| --- | --- | --- |\n", heading);
    for (const auto& [figure, row] : all.at(kind).items()) {
      const int since = row[3].template get<int>();
      text += fmt::format("| `{}` | {} | {}{} |\n", figure, row[1].template get<std::string>(),
                          row[2].template get<std::string>(),
                          since > 1 ? fmt::format(" (since version {})", since) : "");
    }
  });
  return text;
}

}  // namespace ridge::report
