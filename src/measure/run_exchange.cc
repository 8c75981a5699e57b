// SPDX-License-Identifier: Apache-2.0
// Sends the steps and the lane of each rank as JSON.
#include "measure/run_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/host_name.h"
#include "record/rank_times.h"
#include "record/run_counts.h"

namespace ridge::measure {
namespace {

using Json = nlohmann::json;

Json steps_json(const record::RankSteps& s) {
  Json kinds = Json::array(), collectives = Json::array();
  for (const record::CollectiveKind& k : s.kinds)
    kinds.push_back({k.op, k.group, k.first_rank, k.ranks, k.bytes, k.sent_bytes, k.predicted_ns});
  for (const record::RankCollective& c : s.collectives)
    collectives.push_back({c.step, c.kind, c.begin_ns, c.end_ns});
  return {{"rank", s.rank},
          {"host", s.host},
          {"steps", s.steps},
          {"step_ns", s.step_ns},
          {"communication_ns", s.communication_ns},
          {"overlapped_ns", s.overlapped_ns},
          {"owned_bytes", s.owned_bytes},
          {"peak_bytes", s.peak_bytes},
          {"kinds", std::move(kinds)},
          {"collectives", std::move(collectives)}};
}

int64_t number(const Json& json) { return json.get<int64_t>(); }
std::string text(const Json& json) { return json.get<std::string>(); }

record::RankSteps steps_of(const Json& json) {
  record::RankSteps s;
  s.rank = number(json.at("rank")), s.host = text(json.at("host"));
  s.steps = number(json.at("steps")), s.step_ns = number(json.at("step_ns"));
  s.communication_ns = number(json.at("communication_ns"));
  s.overlapped_ns = number(json.at("overlapped_ns"));
  s.owned_bytes = number(json.at("owned_bytes")), s.peak_bytes = number(json.at("peak_bytes"));
  for (const Json& k : json.at("kinds"))
    s.kinds.push_back({text(k.at(0)), text(k.at(1)), number(k.at(2)), number(k.at(3)),
                       number(k.at(4)), number(k.at(5)), k.at(6).get<double>()});
  for (const Json& c : json.at("collectives"))
    s.collectives.push_back(
        {number(c.at(0)), c.at(1).get<size_t>(), number(c.at(2)), number(c.at(3))});
  return s;
}

// The events follow as text of their own: as a JSON string they would double.
Json lane_json(const record::RankLane& lane) {
  Json slices = Json::array();
  for (const record::RankLane::Slice& each : lane.slices)
    slices.push_back({each.op, each.begin_ns, each.end_ns});
  return {{"rank", lane.rank},
          {"ops", lane.ops},
          {"slices", std::move(slices)},
          {"written", lane.written},
          {"dropped", lane.dropped}};
}

record::RankLane lane_of(const Json& json, std::string events) {
  record::RankLane lane;
  lane.rank = number(json.at("rank"));
  lane.ops = json.at("ops").get<std::vector<std::string>>();
  for (const Json& each : json.at("slices"))
    lane.slices.push_back({each.at(0).get<size_t>(), number(each.at(1)), number(each.at(2))});
  lane.events = std::move(events);
  lane.written = number(json.at("written")), lane.dropped = number(json.at("dropped"));
  return lane;
}

}  // namespace

RankMeter::RankMeter(const runtime::Ranks& ranks, bool on_gpu) : ranks_(ranks), on_gpu_(on_gpu) {
  if (!on_gpu_) clock_.compare(ranks_.all());
}

// The times of a step that was inspected, or whose update was left out, are no step's.
void RankMeter::after_step(const train::StepEvent& event) {
  const train::StepResult& result = event.result;
  const bool is_whole = !result.numerics && (!result.skipped || result.overflowed);
  if (event.index >= 0 && event.instrumented && is_whole)
    steps_.push_back({result.profiles, result.elapsed_ns, result.begin_ns, event.index});
}

// All timelines show the step that the first rank's shows.
const record::InstrumentedStep& RankMeter::common_step(int64_t own) const {
  const int64_t number = std::stoll(ranks_.all().gather(std::to_string(own))[0]);
  const auto found = std::ranges::find(steps_, number, &record::InstrumentedStep::index);
  return found == steps_.end() ? steps_.front() : *found;
}

// How long after the first of all timelines this rank's begins. On GPUs the first collective ends
// on all ranks together.
int64_t RankMeter::timeline_begin(const record::StepRecord& step, double clock_ns) const {
  const int64_t end_ns = record::first_exchange_ns(step).value_or(0);
  const double here_ns = on_gpu_ ? -static_cast<double>(end_ns) : clock_ns;
  double first_ns = here_ns;
  for (const std::string& each : ranks_.all().gather(fmt::format("{:.0f}", here_ns)))
    first_ns = std::min(first_ns, std::stod(each));
  return std::llround(std::max(0.0, here_ns - first_ns));
}

record::ExchangeRecord RankMeter::gather(const record::RankSteps& own,
                                         const record::RankLane& lane) const {
  const Json document = {{"steps", steps_json(own)},
                         {"lane", lane_json(lane)},
                         {"clock_error_ns", on_gpu_ ? 0 : clock_.error_ns()}};
  const std::vector<std::string> all = ranks_.all().gather(
                                     document.dump(-1, ' ', true, Json::error_handler_t::replace)),
                                 events = ranks_.all().gather(lane.events);
  if (!ranks_.is_first()) return {};
  std::vector<record::RankSteps> steps;
  std::vector<record::RankLane> lanes;
  double error_ns = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Json each = Json::parse(all[i]);
    steps.push_back(steps_of(each.at("steps")));
    lanes.push_back(lane_of(each.at("lane"), events[i]));
    error_ns = std::max(error_ns, each.at("clock_error_ns").get<double>());
  }
  record::ExchangeRecord exchange = record::exchange_record(steps, !on_gpu_);
  exchange.clock = on_gpu_ ? "a collective is taken to end on all ranks together" : clock_.method();
  exchange.clock_error_ns = error_ns;
  exchange.lanes = std::move(lanes);
  return exchange;
}

record::ExchangeRecord RankMeter::join(const record::RunRecord& run,
                                       std::span<const cost::ProgramGraph> graphs,
                                       const cost::Ceilings* ceilings,
                                       const TraceLane& trace) {
  if (!on_gpu_) clock_.compare(ranks_.all());
  record::RunRecord shown = run, counted;
  const std::vector<record::PredictedGraph> predicted =
      record::count_graphs(graphs, ceilings, counted);
  const record::InstrumentedStep& step = common_step(run.step.timeline_step);
  shown.step = record::make_step_record(predicted, std::span(&step, 1));
  const int64_t rank = ranks_.place().rank;
  record::RankSteps own = rank_steps(predicted, steps_, rank, ranks_.groups_by_first_rank(),
                                     [&](double ns) { return on_gpu_ ? ns : clock_.to_first(ns); });
  own.host = host_name();
  own.owned_bytes = run.memory.owned_bytes, own.peak_bytes = run.memory.after.peak_bytes;
  // On a CPU a timeline begins with its first run.
  const double clock_ns =
      on_gpu_ || shown.step.timeline.empty()
          ? 0
          : clock_.to_first(step.runs[0].called_ns - shown.step.timeline[0].begin_ns);
  const int64_t begin_ns = timeline_begin(shown.step, clock_ns);
  record::RankLane lane = record::rank_lane(shown.step, rank, begin_ns);
  trace(shown, begin_ns, lane);
  return gather(own, lane);
}

}  // namespace ridge::measure
