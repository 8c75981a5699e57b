// SPDX-License-Identifier: Apache-2.0
// Goes through the lists of all stages as far as what they wait for has come.
#include "planning/stage_times.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"
#include "cost/predict.h"
#include "ops/registry.h"
#include "plan/rank_layout.h"

namespace ridge::planning {
namespace {

using Kind = StageEvent::Kind;

Kind kind_of(const Node& node) {
  if (is_a(node, ops::send_op())) return Kind::kSend;
  if (is_a(node, ops::receive_op())) return Kind::kReceive;
  return is_collective(node) && node.attrs.text("group").starts_with(plan::kPipelineGroup)
             ? Kind::kMeet
             : Kind::kCompute;
}

class Run {
 public:
  explicit Run(const std::vector<std::vector<StageEvent>>& stages)
      : stages_(stages), at_(stages.size(), 0), now_(stages.size(), 0) {
    times_.busy_ns.assign(stages.size(), 0);
  }

  StageTimes finish() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage)
        while (step(stage)) moves = true;
      moves = meet() || moves;
    }
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      RIDGE_CHECK(next(stage) == nullptr, "stage {} waits forever", stage);
    times_.step_ns = *std::ranges::max_element(now_);
    return std::move(times_);
  }

 private:
  const StageEvent* next(size_t stage) const {
    return at_[stage] < stages_[stage].size() ? &stages_[stage][at_[stage]] : nullptr;
  }

  bool step(size_t stage) {
    const StageEvent* event = next(stage);
    if (event == nullptr || event->kind == Kind::kMeet) return false;
    if (event->kind == Kind::kReceive) {
      // Two stages may send in both directions: each receives what the other has sent.
      for (auto& [from, sent] : sent_[event->group]) {
        if (from == stage || sent.empty()) continue;
        now_[stage] = std::max(now_[stage], sent.front());
        sent.pop_front();
        ++at_[stage];
        return true;
      }
      return false;
    }
    if (event->kind == Kind::kSend)
      sent_[event->group][stage].push_back(now_[stage] + event->ns);
    else
      now_[stage] += event->ns, times_.busy_ns[stage] += event->ns;
    ++at_[stage];
    return true;
  }

  // Runs a collective to which all stages that have it have come.
  bool meet() {
    std::map<std::string, std::vector<size_t>> come;
    for (size_t stage = 0; stage < stages_.size(); ++stage)
      if (const StageEvent* event = next(stage); event != nullptr && event->kind == Kind::kMeet)
        come[event->group].push_back(stage);
    for (const auto& [group, all] : come) {
      if (all.size() != (group == plan::kPipelineGroup ? stages_.size() : 2)) continue;
      double begin = 0;
      for (const size_t each : all) begin = std::max(begin, now_[each]);
      for (const size_t each : all) now_[each] = begin + next(each)->ns;
      for (const size_t each : all) ++at_[each];
      return true;
    }
    return false;
  }

  const std::vector<std::vector<StageEvent>>& stages_;
  std::vector<size_t> at_;
  std::vector<double> now_;
  // When each transfer arrives, by group and sender.
  std::map<std::string, std::map<size_t, std::deque<double>>> sent_;
  StageTimes times_;
};

}  // namespace

std::vector<StageEvent> stage_events(const train::TrainingStep& step,
                                     const passes::PassTarget& target,
                                     const cost::Ceilings& ceilings) {
  std::vector<StageEvent> events;
  for (const train::StepGraph& graph : step.graphs) {
    const cost::ProgramGraph program = cost::program_graph(graph.name, graph.graph, 1, target);
    const std::vector<cost::NodePrediction> times = cost::predict_nodes(*program.costed, ceilings);
    const std::vector<Node>& nodes = program.graph().nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Kind kind = kind_of(nodes[i]);
      if (kind != Kind::kCompute || events.empty() || events.back().kind != Kind::kCompute)
        events.push_back(
            {kind, 0, kind == Kind::kCompute ? std::string() : nodes[i].attrs.text("group")});
      events.back().ns += times[i].ns;
    }
  }
  return events;
}

double StageTimes::bubble_share() const {
  double busy = 0;
  for (const double each : busy_ns) busy += each;
  return step_ns == 0 ? 0 : 1 - busy / (step_ns * static_cast<double>(busy_ns.size()));
}

StageTimes simulate(const std::vector<std::vector<StageEvent>>& stages) {
  return Run(stages).finish();
}

}  // namespace ridge::planning
