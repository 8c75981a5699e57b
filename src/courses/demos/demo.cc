// SPDX-License-Identifier: Apache-2.0
// The list of demos, and the fixture that they measure with.
#include "courses/demos/demo.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "courses/demos/demos.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "report/json_text.h"

namespace ridge::courses {
namespace {

constexpr double kPointNs = 3e8;  // for the samples of a point at most
constexpr double kRuns = 10;      // warm-ups and samples that a point needs

}  // namespace

std::span<const Demo> demos() {
#define RIDGE_LIST(name) name##_demo(),
  static const std::vector<Demo> all = {RIDGE_DEMOS(RIDGE_LIST)};
#undef RIDGE_LIST
  return all;
}

const Demo* find_demo(std::string_view name) {
  for (const Demo& each : demos())
    if (each.name == name) return &each;
  return nullptr;
}

std::string demo_names() {
  std::string names;
  for (const Demo& each : demos()) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

std::string demos_json() {
  report::Json json = report::Json::array();
  for (const Demo& each : demos()) json.push_back({{"name", each.name}, {"claim", each.claim}});
  return report::json_text(json);
}

Fixture::Fixture(Backends backends,
                 const cost::Ceilings& ceilings,
                 double budget_ns,
                 std::function<bool()> is_stopped)
    : backends_(std::move(backends)),
      ceilings_(ceilings),
      end_ns_(now_ns() + budget_ns),
      is_stopped_(std::move(is_stopped)) {}

double Fixture::left_ns() const { return std::max(0.0, end_ns_ - now_ns()); }

double Fixture::budget_for(double predicted_ns) const {
  if (is_stopped() || kRuns * predicted_ns > left_ns()) return 0;
  return std::min(kPointNs, left_ns() / 4);
}

record::BenchPoint& Fixture::add(const std::string& form,
                                 const record::Extents& extents,
                                 const TrialGraph& trial,
                                 TrialSetting setting) {
  backends::Backend& device = backends_(setting.selection);
  record::BenchPoint point = plan_trial(trial, setting, device, &ceilings_);
  setting.budget_ns = budget_for(point.predicted_ns);
  setting.is_stopped = is_stopped_;
  if (point.refused.empty() && setting.budget_ns > 0)
    point = run_trial(trial, setting, device, &ceilings_);
  point.name = record.name;
  point.form = form;
  point.extents = extents;
  point.dtype = record.dtype;
  record.points.push_back(std::move(point));
  return record.points.back();
}

record::BenchPoint& Fixture::add_loop(const std::string& form,
                                      const record::Extents& extents,
                                      const Loop& loop) {
  Summary time;
  if (const double budget_ns = budget_for(loop.predicted_ns); budget_ns > 0)
    time = time_repeatedly(
        loop.once, [] {}, budget_ns, is_stopped_);
  record::BenchPoint& point = add_time(form, extents, time);
  point.work = loop.work;
  point.planned_bytes = point.compulsory_bytes = loop.bytes;
  point.predicted_ns = loop.predicted_ns;
  point.launches = 1;
  return point;
}

record::BenchPoint& Fixture::add_time(const std::string& form,
                                      const record::Extents& extents,
                                      const Summary& time) {
  record::BenchPoint point;
  point.name = record.name;
  point.form = form;
  point.extents = extents;
  point.dtype = record.dtype;
  point.time = time;
  record.points.push_back(std::move(point));
  return record.points.back();
}

const record::BenchPoint* Fixture::find(std::string_view form, int64_t extent) const {
  for (const record::BenchPoint& each : record.points)
    if (each.form == form &&
        (extent < 0 || (!each.extents.empty() && each.extents[0].second == extent)))
      return &each;
  return nullptr;
}

// times_text says this of points that were not measured.
constexpr std::string_view kUnknownTimes = "? times";

record::BenchRecord show(const Demo& demo, Fixture fixture) {
  fixture.record.kind = "exhibit";  // the name that run folders have
  fixture.record.name = demo.name;
  fixture.record.claim = demo.claim;
  fixture.record.dtype = "fp32";
  if (const size_t colon = demo.axis.find(": "); colon != demo.axis.npos) {
    fixture.record.swept = demo.axis.substr(0, colon);
    fixture.record.axis = demo.axis.substr(colon + 2);
  }
  fixture.record.teaches.assign(demo.teaches.begin(), demo.teaches.end());
  demo.run(fixture);
  if (fixture.record.finding.find(kUnknownTimes) != std::string::npos)
    fixture.record.finding += " (?: not measured)";
  const auto predicted = std::count_if(
      fixture.record.points.begin(), fixture.record.points.end(), [](const auto& each) {
        return !each.is_measured() && each.refused.empty() && each.predicted_ns > 0;
      });
  if (predicted > 0)
    fixture.record.notes.push_back(
        fmt::format("The budget did not last for {} of {} points; they are predicted.", predicted,
                    fixture.record.points.size()));
  return std::move(fixture.record);
}

TrialGraph product_graph(int64_t n, int64_t k, int64_t m, DType dtype) {
  TrialGraph trial;
  Builder b(trial.graph, ops::table());
  ValueId x = b.input("x", {dtype, {n, k}}), weight = b.input("weight", {dtype, {m, k}});
  trial.graph.outputs = {ops::matmul(b, "nk,mk->nm", x, weight)};
  return trial;
}

std::string times_text(const record::BenchPoint* slow, const record::BenchPoint* fast) {
  if (slow == nullptr || fast == nullptr || !slow->is_measured() || !fast->is_measured())
    return std::string(kUnknownTimes);
  return fmt::format("{:.2f} times", slow->time.median / fast->time.median);
}

double times_predicted(const record::BenchPoint* slow, const record::BenchPoint* fast) {
  if (slow == nullptr || fast == nullptr || !(fast->predicted_ns > 0)) return 0;
  return slow->predicted_ns / fast->predicted_ns;
}

}  // namespace ridge::courses
