// SPDX-License-Identifier: Apache-2.0
// Groups operations into nodes and sums them.
#include "record/import/imported_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "cost/predict.h"
#include "record/import/imported_setting.h"
#include "record/operation_table.h"
#include "record/step_record.h"

namespace ridge::record {
namespace {

constexpr const char* kGraph = "step";
// More nodes make a page that no browser shows; operations of the same kind and place are then one.
constexpr size_t kMostNodes = 20'000;
// Streams of a device and threads of a host. Exclusive times take this many steps for each span.
constexpr size_t kMostParallel = 1024;

void divide(Work& work, int64_t steps) {
  work.macs /= steps;
  work.flops /= steps;
  work.transcendentals /= steps;
}

// The limit of the roofline is a node's prediction. A collective has none: it waits for links and
// for other ranks.
void predict(NodeRecord& node, DType dtype, const cost::Ceilings& ceilings) {
  if (operation_category(node.op) == OpCategory::kCollective) return;
  auto time = [](int64_t amount, double per_ns) {
    return per_ns > 0 ? static_cast<double>(amount) / per_ns : 0.0;
  };
  const int64_t products = 2 * node.work.macs;
  node.compute_ns = time(products, cost::gemm_roof(ceilings, dtype).flops_per_ns) +
                    time(node.work.flops - products, cost::vector_roof(ceilings).flops_per_ns);
  node.memory_ns = time(node.read_bytes, ceilings.memory_bytes_per_ns()) +
                   time(node.written_bytes, ceilings.memory_bytes_per_ns());
  node.predicted_ns = std::max(node.compute_ns, node.memory_ns);
  if (node.predicted_ns > 0)
    node.bound = node.compute_ns >= node.memory_ns ? cost::Bound::kCompute : cost::Bound::kMemory;
}

// Starts and ends of spans in order of time; at the same time ends come first.
void expect_few_at_once(const std::vector<ImportedSpan>& spans, const std::string& source) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const ImportedSpan& span : spans) {
    if (span.end_ns <= span.begin_ns) continue;
    changes.emplace_back(span.begin_ns, 1);
    changes.emplace_back(span.end_ns, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t running = 0;
  for (const auto& [at, change] : changes)
    if ((running += change) > static_cast<int64_t>(kMostParallel))
      throw file_error("[{}] expected at most {} operations at once", source, kMostParallel);
}

// The step at the limits of its operations. One without a limit takes as long as it did.
void predict_step(RunRecord& run) {
  double limits_ns = 0, others_ns = 0;
  for (const NodeRecord& node : run.step.nodes) {
    limits_ns += node.predicted_ns;
    if (node.predicted_ns == 0) others_ns += static_cast<double>(node.exclusive_ns);
  }
  if (limits_ns > 0) run.predicted_ns = limits_ns + others_ns;
}

// The work of the model is unknown where products of more than a twentieth of the time have no
// counts.
void check_model(RunRecord& run) {
  int64_t all_ns = 0, unknown_ns = 0;
  for (const NodeRecord& node : run.step.nodes) {
    const OpCategory category = operation_category(node.op);
    const bool is_product = category == OpCategory::kMatmul || category == OpCategory::kAttention;
    all_ns += node.exclusive_ns;
    if (is_product && node.work.macs == 0) unknown_ns += node.exclusive_ns;
  }
  if (unknown_ns > all_ns / 20) run.model = {};
}

class RunMaker {
 public:
  RunMaker(const ForeignTrace& trace, const ImportedSteps& steps, const cost::Ceilings* ceilings)
      : trace_(trace), steps_(steps), ceilings_(ceilings), node_of_(steps.operations.size(), -1) {}

  RunRecord make() {
    order_operations();
    number_steps();
    if (!place_nodes(true)) place_nodes(false);
    for (size_t i = 0; i < node_of_.size(); ++i)
      if (node_of_[i] >= 0) count(steps_.operations[i], nodes()[static_cast<size_t>(node_of_[i])]);
    for (const ImportedSpan& span : steps_.spans)
      if (!span.continues) ++nodes()[static_cast<size_t>(node_of_[span.operation])].calls;
    run_.setting = imported_setting(trace_, steps_,
                                    most_macs_ > 0 ? std::optional(product_type_) : std::nullopt);
    finish_nodes();
    add_times();
    predict_step(run_);
    check_model(run_);
    run_.parameters = steps_.parameters;
    run_.memory.after.peak_bytes =
        steps_.is_on_device ? trace_.peak_device_bytes : trace_.peak_host_bytes;
    return std::move(run_);
  }

 private:
  std::vector<NodeRecord>& nodes() { return run_.step.nodes; }

  // The operations that ran, by their begin.
  void order_operations() {
    std::vector<bool> ran(steps_.operations.size(), false);
    for (const ImportedSpan& span : steps_.spans) ran[span.operation] = true;
    for (uint32_t i = 0; i < ran.size(); ++i)
      if (ran[i]) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return steps_.operations[a].begin_ns < steps_.operations[b].begin_ns;
    });
  }

  // Steps in which nothing ran are left out.
  void number_steps() {
    number_of_.assign(steps_.steps.size(), -1);
    std::vector<bool> has_work(steps_.steps.size(), false);
    for (const uint32_t i : order_) has_work[static_cast<size_t>(steps_.operations[i].step)] = true;
    for (size_t i = 0; i < has_work.size(); ++i)
      if (has_work[i]) number_of_[i] = count_++;
  }

  // Gives each operation a node. False if there would be too many, which happens only if operations
  // of one kind and place are told apart.
  bool place_nodes(bool tells_apart) {
    using Place = std::tuple<Phase, uint32_t, std::string_view>;
    std::map<std::pair<Place, int>, int> numbers;
    std::map<std::pair<int, Place>, int> seen;  // by step
    nodes().clear();
    for (const uint32_t i : order_) {
      const ImportedOperation& each = steps_.operations[i];
      const Place place{each.phase, each.scope, each.op};
      const int before = tells_apart ? seen[{each.step, place}]++ : 0;
      const auto [found, is_new] =
          numbers.emplace(std::make_pair(place, before), static_cast<int>(numbers.size()));
      if (is_new) nodes().push_back(node(each, found->second));
      if (tells_apart && nodes().size() > kMostNodes) return false;
      node_of_[i] = found->second;
    }
    return true;
  }

  NodeRecord node(const ImportedOperation& each, int number) const {
    NodeRecord record;
    record.graph = kGraph;
    record.node = number;
    record.op = each.op;
    record.scope = steps_.scopes[each.scope];
    record.phase = std::string(ridge::name(each.phase));
    record.inputs = trace_.names[each.name];
    if (each.call < 0) return record;
    const RecordedCounts& call = trace_.calls[static_cast<size_t>(each.call)];
    record.shape = trace_.names[call.output];
    record.inputs += fmt::format("({})", trace_.names[call.inputs]);
    return record;
  }

  void add(int64_t& sum, int64_t amount) const {
    if (__builtin_add_overflow(sum, amount, &sum))
      throw file_error("[{}] expected counts that add up to less than 2^63", trace_.source);
  }
  void add(Work& sum, const Work& work) const {
    add(sum.macs, work.macs);
    add(sum.flops, work.flops);
    add(sum.transcendentals, work.transcendentals);
  }

  // Sums over all steps.
  void count(const ImportedOperation& each, NodeRecord& node) {
    if (each.call < 0) return;
    RecordedCounts call = trace_.calls[static_cast<size_t>(each.call)];
    if (call.macs_per_pair > 0 && !add_keys(each, call)) return;
    add(node.work, call.work);
    add(node.read_bytes, call.read_bytes);
    add(node.written_bytes, call.written_bytes);
    Work model = call.work;
    model.flops -= 2 * (model.macs - call.model_macs);
    model.macs = call.model_macs;
    add(each.phase == Phase::kForward    ? run_.model.forward
        : each.phase == Phase::kBackward ? run_.model.backward
                                         : run_.model.optimizer,
        model);
    if (call.work.macs > most_macs_) {
      most_macs_ = call.work.macs;
      product_type_ = call.output_type;
    }
  }

  // The work of attention over the keys of its batch, or else what its own operands tell. False if
  // neither is recorded.
  bool add_keys(const ImportedOperation& each, RecordedCounts& call) const {
    if (each.batch < 0) return call.are_known;
    const ServingBatch& batch = steps_.batches[static_cast<size_t>(each.batch)];
    if (batch.pairs < 0) return call.are_known;
    call.model_macs = call.work.macs = count_product({call.macs_per_pair, batch.pairs});
    call.work.flops = count_product({call.work.macs, 2});
    add(call.read_bytes, count_product({call.bytes_per_key, std::max<int64_t>(batch.keys, 0)}));
    return true;
  }

  void finish_nodes() {
    for (NodeRecord& node : nodes()) {
      divide(node.work, count_);
      node.read_bytes /= count_;
      node.written_bytes /= count_;
      node.calls = std::max<int64_t>((node.calls + count_ / 2) / count_, 1);
      if (ceilings_ != nullptr) predict(node, product_type_, *ceilings_);
      add(run_.executed, node.work);
      add(run_.planned_bytes, node.read_bytes);
      add(run_.planned_bytes, node.written_bytes);
      run_.launches += node.calls;
    }
    for (Work* work : {&run_.model.forward, &run_.model.backward, &run_.model.optimizer})
      divide(*work, count_);
  }

  void add_times() {
    expect_few_at_once(steps_.spans, trace_.source);
    std::vector<InstrumentedStep> steps(static_cast<size_t>(count_));
    for (InstrumentedStep& step : steps) step.runs.resize(1);
    for (size_t i = 0; i < number_of_.size(); ++i) {
      if (number_of_[i] < 0) continue;
      InstrumentedStep& step = steps[static_cast<size_t>(number_of_[i])];
      step.wall_ns = static_cast<double>(steps_.steps[i].end_ns - steps_.steps[i].begin_ns);
      step.runs[0].wall_ns = step.wall_ns;
    }
    for (const ImportedSpan& span : steps_.spans) {
      const auto step = static_cast<size_t>(steps_.operations[span.operation].step);
      auto since = [&](int64_t at) {
        return static_cast<double>(std::max<int64_t>(at - steps_.steps[step].begin_ns, 0));
      };
      steps[static_cast<size_t>(number_of_[step])].runs[0].spans.push_back(
          {node_of_[span.operation], since(span.begin_ns), since(span.end_ns)});
    }
    std::vector<int> record_of(nodes().size());
    std::iota(record_of.begin(), record_of.end(), 0);
    run_.step.graphs.push_back({kGraph, std::move(record_of)});
    add_step_times(steps, {0}, run_.step, MiddleSteps::kMedian);
    run_.plain_wall_ns = run_.step.wall_samples_ns;
  }

  const ForeignTrace& trace_;
  const ImportedSteps& steps_;
  const cost::Ceilings* ceilings_;
  std::vector<uint32_t> order_;
  std::vector<int> node_of_;    // per operation
  std::vector<int> number_of_;  // per step of the trace; -1: left out
  int count_ = 0;               // steps that are not left out
  int64_t most_macs_ = 0;
  DType product_type_ = DType::kF32;
  RunRecord run_;
};

}  // namespace

RunRecord imported_run(const ForeignTrace& trace,
                       const ImportedSteps& steps,
                       const cost::Ceilings* ceilings) {
  return RunMaker(trace, steps, ceilings).make();
}

}  // namespace ridge::record
