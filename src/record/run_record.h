// SPDX-License-Identifier: Apache-2.0
// Defines the results of one run, training or inference. Reports and comparisons read only these
// records; run_figures.h says what each figure is. Nothing here measures; measure/training_run.h
// and measure/inference_run.h fill them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/samples.h"
#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/pass_record.h"
#include "cost/predict.h"
#include "cost/rate_limits.h"
#include "record/memory_record.h"
#include "record/profile.h"

namespace ridge::models {
struct ModelConfig;
}

namespace ridge::record {

// part / whole; 0 where the whole is 0 or unknown.
template <class Part, class Whole>
double ratio(Part part, Whole whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The options of a run, spelled as on the command line.
struct Setting {
  std::string model, level, switches, dtype, device, isa;
  int threads = 0;
  int64_t batch_size = 0, sequence = 0, micro_batches = 1;
  std::string task = "train", cache_dtype;
  int64_t ranks = 0;          // each has batches of its own; 0: one process alone
  std::string exchange = {};  // the library by which ranks exchange: "Open MPI 4.1.4"

  int64_t processes() const { return ranks > 0 ? ranks : 1; }
  int64_t samples() const { return batch_size * micro_batches; }  // sequences in a rank's step
  int64_t tokens() const { return task == "decode" ? samples() : samples() * sequence; }
  std::string str() const;  // "small compiled 8x128"
};

// One node that launches at least one kernel. Counts are per step: they include all repeats of the
// node's graph.
struct NodeRecord {
  std::string graph;
  NodeId node = 0;
  std::string op, scope, phase, shape, inputs;
  std::vector<NodeId> producers;  // through views; ascending
  int64_t parameters = 0, calls = 0;
  Work work;
  int64_t read_bytes = 0, written_bytes = 0, sent_bytes = 0;
  // The prediction is the larger one of arithmetic and memory, and the overhead.
  double predicted_ns = 0, compute_ns = 0, memory_ns = 0, overhead_ns = 0;
  cost::Bound bound = cost::Bound::kNone;
  int64_t time_ns = 0, exclusive_ns = 0;  // see StepRecord
  std::vector<double> samples_ns;         // one per instrumented step

  // The least, median or greatest sample, as `choose` says; empty without samples.
  template <class Choose>
  std::optional<double> sample_ns(const Choose& choose) const {
    return samples_ns.empty() ? std::nullopt : std::optional<double>(choose(samples_ns));
  }
};

// One run of a graph in an instrumented step; `graph` is an index into StepRecord::graphs.
struct TimelineRun {
  int graph = 0;
  ProfiledRun run;
  double begin_ns = 0;  // from the begin of the step, without the time that the instrument took
};
struct GraphName {
  std::string name;
  std::vector<int> record_of;  // per node of the graph: index into StepRecord::nodes, or -1
};

// Bytes of a scope's inputs and outputs in one step, as if it were one kernel.
struct ScopeBytes {
  std::string graph, scope;  // with everything below the scope
  int64_t compulsory_bytes = 0;
};

// One instrumented step: its wall time, and the kernels' by the phase of their nodes.
struct StepPhases {
  int64_t step = 0;  // its number
  double wall_ns = 0, forward_ns = 0, backward_ns = 0, optimizer_ns = 0;
};

// The instrumented steps of a run. Times here and in the nodes are means over the middle half of
// the steps (ordered by wall time), in whole nanoseconds. So sums over any partition of the nodes
// are exact, and kernel_ns - overlapped_ns + idle_ns + host_ns = wall_ns. A moment in which n
// kernels run counts 1/n for each, so the nodes' exclusive times add up to busy_ns(). The summaries
// hold medians with intervals; medians do not add up.
struct StepRecord {
  std::vector<NodeRecord> nodes;
  std::vector<GraphName> graphs;
  int64_t wall_ns = 0, kernel_ns = 0, overlapped_ns = 0;
  int64_t idle_ns = 0, idle_before_first_ns = 0, host_ns = 0;
  int64_t busy_ns() const { return kernel_ns - overlapped_ns; }
  // Exclusive time of the kernels that compute, or of those that only move data.
  int64_t exclusive_ns(bool computes) const;
  std::vector<double> wall_samples_ns;
  std::vector<int64_t> step_numbers;     // the numbers of these steps
  Summary forward, backward, optimizer;  // by the phase of the node
  int64_t dropped = 0;
  std::string caveat;                      // about the times; empty if there is none
  std::vector<TimelineRun> timeline;       // the step with the median wall time
  int64_t timeline_step = 0;               // its number
  double timeline_wall_ns = 0;             // its wall time
  std::vector<ScopeBytes> scopes;          // the scopes that have nodes
  std::vector<StepPhases> phases() const;  // one for each instrumented step
};

// One module summed over all layers, such as the attention with its projections, or the MLP.
struct ModuleRecord {
  std::string name;  // "attention", "mlp"
  Work work;         // executed
  int64_t planned_bytes = 0, compulsory_bytes = 0, launches = 0;
  int64_t time_ns = 0;  // see StepRecord
  double predicted_ns = 0;

  // FLOPs per compulsory byte; 0 without bytes.
  double intensity() const { return ratio(work.flops, compulsory_bytes); }
  double flops_per_ns() const { return ratio(work.flops, time_ns); }
};

// The model's architecture.
struct Architecture {
  int64_t vocabulary = 0, model = 0, layers = 0, heads = 0, kv_heads = 0, feed_forward = 0;
  int64_t context = 0;
  double rope_theta = 0, norm_epsilon = 0;
};

// Counts of the processor in steps, in all threads together; a value for each counted step.
struct HardwareCounts {
  std::vector<double> cycles, instructions;
  std::vector<double> cache_misses;  // in the last level of cache; each reads a line of memory
  std::string reason;                // why an event is not counted; empty if all are
};

struct RunRecord {
  Setting setting;
  Architecture architecture;
  double learning_rate = 0;  // in the first step; only for training
  int64_t parameters = 0;
  std::vector<double> losses;             // one per measured step
  std::map<int64_t, double> validations;  // losses after so many measured steps
  double loss_scale = 0;                  // after the last step; 0 without loss scaling
  int64_t overflows = 0;                  // measured steps skipped because gradients overflowed
  std::vector<double> all_wall_ns;        // the same steps
  std::vector<double> plain_wall_ns;      // steps that are not instrumented
  std::vector<double> paired_wall_ns;     // the plain step next to each instrumented one
  StepRecord step;
  cost::ModelTotals model;  // per step, all micro-batches
  Work executed;
  int64_t planned_bytes = 0, compulsory_bytes = 0, launches = 0;
  // 0 if no ceilings are known. Kernels that the host launches one by one on a GPU are predicted at
  // the launch rate that was sampled next to the steps, everything else at the calibrated rates.
  double predicted_ns = 0;
  // The host's launch rate next to the steps, relative to the rate at calibration. Empty if no
  // ceilings are known or if the steps do not wait for kernels launched one by one.
  std::vector<double> launch_rate_samples;
  HardwareCounts counts;
  double clock_ns = 0;  // time of all clock readings in one instrumented step; 0 if there are none
  MemoryRecord memory;
  std::vector<cost::PassRecord> passes;
  // Only for inference.
  std::vector<ModuleRecord> modules;
  int64_t weight_bytes = 0, cache_bytes = 0;
  cost::TypedAmounts amounts;   // all graphs of a step
  std::vector<float> logits;    // the last token of the last sequence
  std::vector<int32_t> chosen;  // first generated token of each sequence

  Summary wall() const { return summarize(plain_wall_ns); }
  Summary launch_rate() const { return summarize(launch_rate_samples); }
  // The median wall time of the steps, or the predicted time if nothing was run. Rates and shares
  // use it.
  double step_ns() const { return plain_wall_ns.empty() ? predicted_ns : wall().median; }
  double samples_per_s() const;
  double tokens_per_s() const;
  // Model FLOPs as in PaLM (arXiv:2204.02311, appendix B): 2 per MAC, forward and backward,
  // attention as the full square, and recomputation not counted twice. The optimizer and pointwise
  // ops are left out. This cannot overflow: the overflow-checked count of all FLOPs includes these.
  int64_t palm_flops() const { return 2 * model.step().macs; }
  double palm_flops_per_s() const;
  // Model FLOPs utilization, see kMfuConvention; 0 if the time or the rate is unknown.
  double mfu(const cost::ReferenceRate& flops) const;
  // Model bandwidth utilization, see kMbuConvention; 0 likewise.
  double mbu(const cost::ReferenceRate& bytes) const;
  // Why the share mbu() of mbu_reference() is over 100%; empty if it is not. Whoever shows the
  // share shows the reason beside it.
  std::string mbu_reason(const cost::Ceilings& ceilings) const;
  // The measured overhead of instrumentation as a share of a step: each instrumented step over the
  // plain step next to it in time, less 1. Mostly the machine's noise.
  Summary profiling_cost() const;
  // The overhead for the whole run: profiling_cost() times the share of steps that were
  // instrumented.
  double profiling_cost_of_run() const;
  // The same overhead by counting: the time of an instrumented step's clock readings, over a step.
  double clock_cost() const;
  double mean_loss() const;
};
inline constexpr const char* kMfuConvention =
    "PaLM (2 FLOPs per model MAC, full attention square, no optimizer, no recomputation)";

inline constexpr const char* kLaunchRateConvention =
    "how fast the host enqueued launches before the steps, relative to calibration";

inline constexpr const char* kMbuConvention =
    "stored bytes of the weights and of the attended KV entries, each once per step, over the "
    "read bandwidth of memory";

// Why `bytes` were read faster than memory delivers them, so that a share of its rate is over 100%;
// empty for other shares. The last-level cache explains as much as it can hold.
std::string over_memory_reason(double share, int64_t bytes, const cost::Ceilings& ceilings);

// Max abs difference between the logits of two runs; infinite if their numbers of logits differ.
double logits_difference(const RunRecord& a, const RunRecord& b);

// Max abs difference between the losses of two runs, step by step, over the length of the shorter
// run.
double loss_difference(const RunRecord& a, const RunRecord& b);
// The difference up to which losses count as equal: equal to 4 decimals if both runs use fp32, 0.02
// otherwise.
double loss_tolerance(const RunRecord& a, const RunRecord& b);

Architecture architecture(const models::ModelConfig& config);

struct PassCost {
  std::string pass;  // empty: only the passes that every step needs
  std::string summary;
  RunRecord planned;  // the whole step, with gradient and update
};

}  // namespace ridge::record
