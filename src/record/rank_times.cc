// SPDX-License-Identifier: Apache-2.0
// Pairs the collectives of ranks.
#include "record/rank_times.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/samples.h"
#include "ops/registry.h"
#include "plan/collectives.h"

namespace ridge::record {
namespace {

// The same collective on the ranks of its group.
struct Meeting {
  std::vector<size_t> ranks;  // indices
  std::vector<const RankCollective*> calls;

  static int64_t length_ns(const RankCollective* call) { return call->end_ns - call->begin_ns; }
  // When each rank arrived. Without one clock, counted from the end that they have together.
  std::vector<int64_t> arrivals(bool has_one_clock) const {
    std::vector<int64_t> all;
    for (const RankCollective* call : calls)
      all.push_back(has_one_clock ? call->begin_ns : -length_ns(call));
    return all;
  }
};

const CollectiveKind& kind_of(const RankSteps& rank, const RankCollective& call) {
  return rank.kinds[call.kind];
}

// Whether these ranks are the whole group and have the same collectives.
bool are_alike(std::span<const RankSteps> ranks,
               const std::map<size_t, std::vector<const RankCollective*>>& group) {
  const auto& [first_rank, first] = *group.begin();
  const CollectiveKind& kind = kind_of(ranks[first_rank], *first.front());
  if (std::ssize(group) != (kind.ranks == 0 ? std::ssize(ranks) : kind.ranks)) return false;
  for (const auto& [rank, calls] : group) {
    if (calls.size() != first.size()) return false;
    for (size_t i = 0; i < calls.size(); ++i) {
      const CollectiveKind &own = kind_of(ranks[rank], *calls[i]),
                           &want = kind_of(ranks[first_rank], *first[i]);
      // A rank receives as many bytes as the other one sends.
      if (plan::met_op(own.op) != plan::met_op(want.op) || own.bytes != want.bytes) return false;
    }
  }
  return true;
}

std::vector<Meeting> meetings(std::span<const RankSteps> ranks) {
  using Place = std::tuple<int64_t, std::string_view, int64_t>;  // step, group, its first rank
  std::map<Place, std::map<size_t, std::vector<const RankCollective*>>> groups;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const RankCollective& call : ranks[rank].collectives) {
      const CollectiveKind& kind = kind_of(ranks[rank], call);
      groups[{call.step, kind.group, kind.first_rank}][rank].push_back(&call);
    }
  std::vector<Meeting> all;
  for (const auto& [place, group] : groups) {
    if (!are_alike(ranks, group)) continue;
    for (size_t i = 0; i < group.begin()->second.size(); ++i) {
      Meeting& meeting = all.emplace_back();
      for (const auto& [rank, calls] : group) {
        meeting.ranks.push_back(rank);
        meeting.calls.push_back(calls[i]);
      }
    }
  }
  return all;
}

// The sums of a row on their way.
struct Row {
  CollectiveTimes times;
  std::vector<double> transfers;
  double waiting_ns = 0, skew_ns = 0;

  void finish() {
    const auto calls = static_cast<double>(times.calls);
    times.transfer_ns = median(transfers);
    times.waiting_ns = waiting_ns / calls;
    times.skew_ns = skew_ns / calls;
  }
};

class Sums {
 public:
  Sums(std::span<const RankSteps> ranks, bool has_one_clock)
      : ranks_(ranks), has_one_clock_(has_one_clock) {
    for (const RankSteps& each : ranks) {
      RankTimes& to = record_.ranks.emplace_back();
      to.rank = each.rank, to.host = each.host, to.steps = each.steps, to.step_ns = each.step_ns;
      to.communication_ns = each.communication_ns, to.overlapped_ns = each.overlapped_ns;
      to.owned_bytes = each.owned_bytes, to.peak_bytes = each.peak_bytes;
    }
  }

  void add(const Meeting& meeting) {
    const std::vector<int64_t> arrivals = meeting.arrivals(has_one_clock_);
    const auto [first, last] = std::ranges::minmax_element(arrivals);
    double waits = 0, transfers = 0;
    for (size_t i = 0; i < meeting.calls.size(); ++i) {
      const int64_t length_ns = Meeting::length_ns(meeting.calls[i]);
      const int64_t waited_ns = std::clamp<int64_t>(*last - arrivals[i], 0, length_ns);
      RankTimes& to = record_.ranks[meeting.ranks[i]];
      to.waiting_ns += waited_ns;
      to.late_ns += arrivals[i] - *first;
      waits += static_cast<double>(waited_ns);
      transfers += static_cast<double>(length_ns - waited_ns);
    }
    const auto last_rank = static_cast<size_t>(last - arrivals.begin());
    ++record_.ranks[meeting.ranks[last_rank]].last;
    const auto count = static_cast<double>(meeting.calls.size());
    Row& row = row_of(kind_of(ranks_[meeting.ranks[0]], *meeting.calls[0]));
    row.times.ranks = std::ssize(meeting.ranks);
    ++row.times.calls;
    row.transfers.push_back(transfers / count);
    row.waiting_ns += waits / count;
    row.skew_ns += static_cast<double>(*last - *first);
  }

  ExchangeRecord finish() {
    for (Row& row : rows_) {
      row.finish();
      record_.collectives.push_back(std::move(row.times));
    }
    std::ranges::stable_sort(
        record_.collectives, std::ranges::greater(), [](const CollectiveTimes& each) {
          return static_cast<double>(each.calls) * (each.transfer_ns + each.waiting_ns);
        });
    return std::move(record_);
  }

 private:
  Row& row_of(const CollectiveKind& kind) {
    for (Row& each : rows_)
      if (each.times.op == kind.op && each.times.group == kind.group &&
          each.times.bytes == kind.bytes && each.times.sent_bytes == kind.sent_bytes)
        return each;
    Row& row = rows_.emplace_back();
    row.times.op = kind.op, row.times.group = kind.group, row.times.bytes = kind.bytes;
    row.times.sent_bytes = kind.sent_bytes, row.times.predicted_ns = kind.predicted_ns;
    return row;
  }

  std::span<const RankSteps> ranks_;
  bool has_one_clock_;
  ExchangeRecord record_;
  std::vector<Row> rows_;
};

// The kinds of the collectives of a graph, by node; -1: another op.
std::vector<int> add_kinds(const PredictedGraph& graph,
                           const std::map<std::string, int64_t>& first_ranks,
                           std::vector<CollectiveKind>& kinds) {
  const Graph& of = graph.run.graph();
  std::vector<int> by_node(of.nodes.size(), -1);
  for (size_t i = 0; i < of.nodes.size(); ++i) {
    const Node& node = of.nodes[i];
    if (!is_collective(node) || node.attrs.integer("ranks") < 2) continue;
    const auto bytes = [&](const std::vector<ValueId>& values) {
      int64_t sum = 0;
      for (const ValueId each : values)
        sum += storage_bytes(of.type(each).dtype, of.type(each).shape.elements());
      return sum;
    };
    CollectiveKind kind{.op = node.op->name, .group = node.attrs.text("group")};
    const auto first = first_ranks.find(kind.group);
    kind.first_rank = first == first_ranks.end() ? 0 : first->second;
    kind.ranks = node.attrs.integer("ranks");
    kind.bytes = std::max(bytes(node.inputs), bytes(node.outputs));
    kind.sent_bytes = graph.run.costed->costs[i].sent_bytes;
    if (!graph.predictions.empty()) kind.predicted_ns = graph.predictions[i].ns;
    const auto known = std::ranges::find(kinds, kind);
    by_node[i] = static_cast<int>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(std::move(kind));
  }
  return by_node;
}

bool is_collective_op(const std::string& name) {
  const Op* op = ops::table().find(name);
  return op != nullptr && op->category == OpCategory::kCollective;
}

const NodeRecord& node_of(const StepRecord& step, const TimelineRun& run, const Span& span) {
  const std::vector<int>& record_of = step.graphs[static_cast<size_t>(run.graph)].record_of;
  return step.nodes[static_cast<size_t>(record_of[static_cast<size_t>(span.node)])];
}

// Adds the collectives of a run, and how much of their time other kernels hide.
void add_run(const ProfiledRun& run,
             int64_t step,
             const std::vector<int>& kinds,
             const std::function<double(double)>& clock,
             RankSteps& to) {
  std::vector<Interval> own, others;
  for (const Span& span : run.spans) {
    const int kind = kinds[static_cast<size_t>(span.node)];
    const Interval at{std::llround(span.begin_ns), std::llround(span.end_ns)};
    (kind < 0 ? others : own).push_back(at);
    if (kind < 0) continue;
    const int64_t begin_ns = std::llround(clock(run.called_ns + span.begin_ns)),
                  length_ns = at.end_ns - at.begin_ns;
    to.collectives.push_back({step, static_cast<size_t>(kind), begin_ns, begin_ns + length_ns});
    to.communication_ns += length_ns;
  }
  for (auto* each : {&own, &others}) std::ranges::sort(*each, {}, &Interval::begin_ns);
  to.overlapped_ns += common_ns(own, others);
}

}  // namespace

int64_t common_ns(std::span<const Interval> some, std::span<const Interval> others) {
  std::vector<Interval> joined;
  std::vector<int64_t> before;  // the time in those before, by the index of a joined one
  for (const auto& [begin, end] : others) {
    if (!joined.empty() && begin <= joined.back().end_ns) {
      joined.back().end_ns = std::max(joined.back().end_ns, end);
      continue;
    }
    before.push_back(
        joined.empty() ? 0 : before.back() + joined.back().end_ns - joined.back().begin_ns);
    joined.push_back({begin, end});
  }
  const auto covered_before = [&](int64_t at) {
    const auto next = std::ranges::upper_bound(joined, at, {}, &Interval::begin_ns);
    if (next == joined.begin()) return int64_t{0};
    const auto& [begin, end] = *(next - 1);
    return before[static_cast<size_t>(next - joined.begin()) - 1] + std::min(at, end) - begin;
  };
  int64_t sum = 0;
  for (const auto& [begin, end] : some) sum += covered_before(end) - covered_before(begin);
  return sum;
}

ExchangeRecord exchange_record(std::span<const RankSteps> ranks, bool has_one_clock) {
  Sums sums(ranks, has_one_clock);
  for (const Meeting& each : meetings(ranks)) sums.add(each);
  return sums.finish();
}

RankSteps rank_steps(std::span<const PredictedGraph> graphs,
                     std::span<const InstrumentedStep> steps,
                     int64_t rank,
                     const std::map<std::string, int64_t>& first_ranks,
                     const std::function<double(double ns)>& clock) {
  RankSteps made;
  made.rank = rank, made.steps = std::ssize(steps);
  std::vector<std::vector<int>> kinds;  // by graph and node
  std::vector<size_t> order;            // the graph of each run of a step
  for (size_t i = 0; i < graphs.size(); ++i) {
    kinds.push_back(add_kinds(graphs[i], first_ranks, made.kinds));
    order.insert(order.end(), static_cast<size_t>(graphs[i].run.repeat), i);
  }
  for (const InstrumentedStep& step : steps) {
    made.step_ns += std::llround(step.wall_ns);
    for (size_t i = 0; i < std::min(step.runs.size(), order.size()); ++i)
      add_run(step.runs[i], step.index, kinds[order[i]], clock, made);
  }
  return made;
}

RankLane rank_lane(const StepRecord& step, int64_t rank, int64_t begin_ns) {
  RankLane lane{.rank = rank};
  std::map<std::string_view, size_t> index;
  for (const TimelineRun& each : step.timeline)
    for (const Span& span : each.run.spans) {
      const std::string& op = node_of(step, each, span).op;
      const auto [found, is_new] = index.emplace(op, lane.ops.size());
      if (is_new) lane.ops.push_back(op);
      lane.slices.push_back({found->second, begin_ns + std::llround(each.begin_ns + span.begin_ns),
                             begin_ns + std::llround(each.begin_ns + span.end_ns)});
    }
  return lane;
}

std::optional<int64_t> first_exchange_ns(const StepRecord& step) {
  for (const TimelineRun& each : step.timeline)
    for (const Span& span : each.run.spans)
      if (is_collective_op(node_of(step, each, span).op))
        return std::llround(each.begin_ns + span.end_ns);
  return {};
}

}  // namespace ridge::record
