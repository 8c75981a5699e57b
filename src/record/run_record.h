// SPDX-License-Identifier: Apache-2.0
// What one run showed, of training or of inference, as plain records:
// reports and comparisons read these and nothing else. Nothing here
// measures; measure/training_run.h and measure/inference_run.h fill them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/samples.h"
#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/pass_record.h"
#include "cost/predict.h"
#include "record/memory_record.h"
#include "record/profile.h"

namespace ridge::record {

// The choices that a run was made with, as the user would spell them.
struct Setting {
  std::string model;  // preset or file
  std::string level;
  std::string switches;  // of --pass, empty for none
  std::string dtype;     // of the products: "fp32", "tf32", "bf16" or "i16"
  std::string device;    // "cpu"
  std::string isa;
  int threads = 0;
  int64_t batch_size = 0;
  int64_t sequence = 0;  // of decode the context: keys that the new token sees, itself included
  int64_t micro_batches = 1;
  std::string task = "train";  // or "prefill", "decode"

  int64_t samples() const { return batch_size * micro_batches; }  // sequences a step
  int64_t tokens() const { return task == "decode" ? samples() : samples() * sequence; }
  std::string str() const;  // "small compiled 8x128"
};

// One node that launches something. Counts are those
// of one step: all repeats of its graph together.
struct NodeRecord {
  std::string graph;  // of the program: "step", "accumulate", "update"
  NodeId node = 0;
  std::string op;
  std::string scope;
  std::string phase;
  std::string shape;  // of its first output
  int64_t calls = 0;
  Work work;
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  double predicted_ns = 0;
  cost::Bound bound = cost::Bound::kNone;
  int64_t time_ns = 0;             // see StepRecord
  int64_t exclusive_ns = 0;        // of it, in equal parts where kernels ran side by side
  std::vector<double> samples_ns;  // one per instrumented step
};

// The runs of one instrumented step: `graph` indexes StepRecord::graphs.
struct TimelineRun {
  int graph = 0;
  ProfiledRun run;
};
struct GraphName {
  std::string name;
  std::vector<int> record_of;  // per node of the graph: index into StepRecord::nodes, or -1
};

// The instrumented steps of a run. `time_ns` of nodes and the times here are means over the middle
// half of the steps (ordered by wall time), in whole nanoseconds: sums over any partition of the
// nodes are exact, and busy - overlapped + idle + host = wall. A moment in which n kernels run
// belongs to each by 1/n: so nodes' own times add up to the time while some kernel ran. Medians,
// which do not add up, stand beside with their intervals.
struct StepRecord {
  std::vector<NodeRecord> nodes;
  std::vector<GraphName> graphs;
  int64_t wall_ns = 0;               // a step, data and loss included
  int64_t kernel_ns = 0;             // the sum over the nodes
  int64_t overlapped_ns = 0;         // of it, what kernels side by side count more than once
  int64_t idle_ns = 0;               // inside the graphs, while no kernel ran
  int64_t idle_before_first_ns = 0;  // of it, before a graph's first kernel
  int64_t host_ns = 0;               // outside the graphs: batch, learning rate, loss
  int64_t busy_ns() const { return kernel_ns - overlapped_ns; }  // while some kernel ran
  std::vector<double> wall_samples_ns;
  Summary forward;  // by the phase of the node
  Summary backward;
  Summary optimizer;
  int64_t dropped = 0;                // records that the instrument lost, over all steps
  std::vector<TimelineRun> timeline;  // of the step whose wall time is the median
};

// A part of every layer, all layers together: the attention module with its projections, the MLP.
struct ModuleRecord {
  std::string name;  // "attention", "mlp"
  Work work;         // executed
  int64_t planned_bytes = 0;
  int64_t compulsory_bytes = 0;
  int64_t launches = 0;
  int64_t time_ns = 0;  // see StepRecord
  double predicted_ns = 0;

  // FLOPs per compulsory byte; 0 without bytes.
  double intensity() const;
  double flops_per_ns() const;
};

struct RunRecord {
  Setting setting;
  int64_t parameters = 0;
  std::vector<double> losses;          // one per measured step
  std::vector<double> plain_wall_ns;   // un-instrumented steps
  std::vector<double> paired_wall_ns;  // those of them beside the instrumented ones, one each
  StepRecord step;
  cost::ModelTotals model;  // of a step: all micro-batches
  Work executed;
  int64_t planned_bytes = 0;
  int64_t compulsory_bytes = 0;  // of the graphs as if each were fused into one kernel
  int64_t launches = 0;
  // 0 where no ceilings are known. Launches that a host makes one by one for a GPU are predicted at
  // the launch rate sampled beside the steps, all else at the calibrated rates.
  double predicted_ns = 0;
  // The host's launch rate beside the steps over that at calibration. Empty where no ceilings are
  // known, or where a step does not wait for launches made one by one.
  std::vector<double> launch_rate_samples;
  double clock_ns = 0;  // of all clock readings in one instrumented step; 0 where none are made
  MemoryRecord memory;
  std::vector<cost::PassRecord> passes;
  // Of inference only.
  std::vector<ModuleRecord> modules;
  int64_t weight_bytes = 0;     // as they are stored, what a step must read of them
  int64_t cache_bytes = 0;      // keys and values that its tokens see
  std::vector<float> logits;    // of the last sequence's last token
  std::vector<int32_t> chosen;  // the sequences' first tokens

  Summary wall() const { return summarize(plain_wall_ns); }
  Summary launch_rate() const { return summarize(launch_rate_samples); }
  // The median of the steps; where nothing was run, the predicted time. Rates and shares are of it.
  double step_ns() const { return plain_wall_ns.empty() ? predicted_ns : wall().median; }
  double samples_per_s() const;
  double tokens_per_s() const;
  // 2 FLOPs per MAC of the model, forward and backward, attention as the full square, nothing
  // recomputed counted twice (PaLM, arXiv:2204.02311, appendix B). The optimizer and pointwise work
  // are left out. Fits: the checked count of all FLOPs holds 2 for each of these.
  int64_t palm_flops() const { return 2 * model.step().macs; }
  double palm_flops_per_s() const;
  // Share of `peak`; 0 where either is unknown.
  double mfu(double peak_flops_per_ns) const;
  // Model bandwidth utilisation, see kMbuConvention; 0 where either is unknown.
  double mbu(double read_bytes_per_ns) const;
  // What instrumenting costs as a share of a step, measured: each instrumented step over the plain
  // step beside it in time, less 1. Mostly the machine's own unrest.
  Summary profiling_cost() const;
  // profiling_cost() times the share of steps that were instrumented: what the run paid.
  double profiling_cost_of_run() const;
  // The same, counted: the time of the clock readings that an instrumented step makes.
  double clock_cost() const;
  double mean_loss() const;
};
inline constexpr const char* kMfuConvention =
    "PaLM (2 FLOPs per model MAC, full attention square, no optimizer, no recomputation)";

inline constexpr const char* kLaunchRateConvention =
    "how fast the host enqueued launches before the steps, relative to calibration";

inline constexpr const char* kMbuConvention =
    "stored bytes of the weights and of the attended KV entries, each once per step, over the "
    "measured read bandwidth of memory";

// Largest difference between the logits of two runs; infinite where their numbers differ.
double logits_difference(const RunRecord& a, const RunRecord& b);

// Largest difference between the losses of two runs, step by step; compared over the shorter.
double loss_difference(const RunRecord& a, const RunRecord& b);
// What counts as equal: 4 decimals in f32, 0.02 when either run stored bf16.
double loss_tolerance(const RunRecord& a, const RunRecord& b);

}  // namespace ridge::record
