// SPDX-License-Identifier: Apache-2.0
// The figures of the records of runs.
#pragma once

#include <algorithm>

#include "record/figures.h"
#include "record/lab_record.h"
#include "record/operation_table.h"
#include "record/summary_file.h"

namespace ridge {

template <class See, record::Of<Summary> R>
void figures(const See& see, R& r) {
  see("median_ns", r.median);
  see({"low_ns", "", "low end of the interval"}, r.low);
  see({"high_ns", "", "high end of the interval"}, r.high);
  see("samples", r.count);
  see({"coverage", "share", "probability that the interval contains the true median"}, r.coverage);
}

template <class See>
void figures(const See& see, const Work& r) {
  see({"flops", "", "2 per MAC, and all other arithmetic"}, r.flops);
  see("macs", r.macs);
  see({"transcendentals", "FLOP", "those that are exp, log, tanh or divisions"}, r.transcendentals);
}

}  // namespace ridge

namespace ridge::cost {

template <class See>
void figures(const See& see, const GraphCost& r) {
  see("nodes", r.nodes), see("kernel_calls", r.launches), see("flops", r.flops),
      see("bytes", r.bytes), see({"peak_bytes", "", "the arena"}, r.peak_bytes),
      see("predicted_ns", r.predicted_ns);
}

template <class See>
void figures(const See& see, const PassRecord& r) {
  see("name", r.name), see("stage", r.stage), see("trade", r.trade), see("before", r.before),
      see("after", r.after), see("elapsed_ns", r.elapsed_ns);
}

}  // namespace ridge::cost

namespace ridge::record {

template <class See, Of<Setting> R>
void figures(const See& see, R& r) {
  see({"task", "", "train, prefill, decode or forward", 2}, r.task);
  see({"model", "", "preset or file"}, r.model);
  see("level", r.level);
  see({"pass", "", "values of --pass, empty if none"}, r.switches);
  see({"dtype", "", "of the GEMMs: fp32, tf32, bf16, fp16 or i16"}, r.dtype);
  see({"device", "", "cpu or cuda", 2}, r.device), see({"isa", "", "", 2}, r.isa),
      see({"threads", "", "", 2}, r.threads);
  see("batch_size", r.batch_size);
  see({"seq_len", "", "for decode the keys that the new token attends to, with its own"},
      r.sequence);
  see("micro_batches", r.micro_batches);
  see({"ranks", "", "processes that train together, each on batches of its own", 2}, r.ranks,
      Unknown::kLeftOut);
  see({"exchange", "", "the library by which ranks exchange, with its version", 2}, r.exchange,
      Unknown::kLeftOut);
  see({"cache_dtype", "", "bf16, i8 or fp8; without it that of activations", 2}, r.cache_dtype,
      Unknown::kLeftOut);
}

// The sentences of times are those of performance_summary.json.
constexpr Figure kTime = {"time_ns", "",
                          "mean over the middle half of the instrumented steps, so rows add up"};
constexpr Figure kSent = {"sent_bytes", "", "to other ranks", 2};
constexpr Figure kExclusive = {"exclusive_ns", "",
                               "divides a moment in which kernels overlap equally among them"};

template <class See>
void figures(const See& see, const OperationRow& r) {
  see("key", r.key), see("phase", r.phase, Unknown::kLeftOut),
      see("scope", r.scope, Unknown::kLeftOut), see("op", r.op, Unknown::kLeftOut),
      see("nodes", r.nodes), see("calls", r.calls), see(kTime, r.time_ns),
      see(kExclusive, r.exclusive_ns);
  see({"samples", "ns", "times of the row in each step"}, r.samples);
  see({"share", "share", "exclusive time over the wall time of the step"}, r.share);
  figures(see, r.work);
  see({"read_bytes", "", "planned: each operand of each kernel once"}, r.read_bytes);
  see("written_bytes", r.written_bytes);
  see(kSent, r.sent_bytes);
  see({"flops_per_byte", "", "FLOPs per planned byte"}, r.intensity());
  see("flops_per_s", r.flops_per_ns() * 1e9), see("bytes_per_s", r.bytes_per_ns() * 1e9);
  see({"bound", "", "what limits the predicted time"}, r.bound);
  see("predicted_ns", r.predicted_ns);
  see({"prediction_error", "share", "predicted over exclusive time, less 1; or 0"}, r.error());
}

template <class See, Of<SummaryOperation> R>
void figures(const See& see, R& r) {
  see("key", r.key), see("calls", r.calls), see(kTime, r.time_ns), see(kExclusive, r.exclusive_ns),
      see("samples", r.samples), see("share", r.share), see("flops_per_s", r.flops_per_s),
      see("bytes_per_s", r.bytes_per_s), see("bound", r.bound), see("predicted_ns", r.predicted_ns),
      see("possible_gain_ns", r.possible_gain_ns());
}

template <class See, Of<SummaryRun> R>
void figures(const See& see, R& r) {
  see("setting", r.setting), see("step", r.step), see("predicted_step_ns", r.predicted_ns),
      see({"speed_up", "x"}, r.speed_up), see("kernel_calls", r.kernel_calls),
      see("samples_per_s", r.samples_per_s), see("tokens_per_s", r.tokens_per_s),
      see({"mfu", "share"}, r.mfu);
  see({"launch_rate", "share", "0 if not measured"}, r.launch_rate);
}

template <class See>
void figures(const See& see, const MemoryPoint& r) {
  see("graph", r.graph), see("node", r.node), see("op", r.op), see("scope", r.scope),
      see("phase", r.phase);
  see({"total_bytes", "", "live while the node runs"}, r.live.total());
  see({"bytes", "", "the same by class"}, r.live);
}

template <class See>
void figures(const See& see, const LiveTensor& r) {
  see({"name", "", "of a stored value; empty for a temporary"}, r.name);
  see({"op", "", "of the node that produces a temporary; empty for a stored value"}, r.op);
  see("scope", r.scope), see("phase", r.phase);
  see({"type", "", "empty for workspace"}, r.type);
  see("class", r.memory_class), see("bytes", r.bytes);
}

template <class See>
void figures(const See& see, const MemoryRecord& r) {
  see({"owned_bytes", "", "predicted: arena and store"}, r.owned_bytes);
  see({"arena_bytes", "", "one arena for all graphs, sized for the largest plan"}, r.arena_bytes);
  see({"allocated_bytes", "", "what the runtime allocated for them"}, r.allocated_bytes);
  see({"live_peak_bytes", "", "most that is live, with stored values"}, r.live_peak_bytes);
  see({"store_bytes", "", "all graphs' parameters, states and inputs, each once"}, r.store_bytes);
  see({"peak_by_class_bytes", "", "most of each class in the timeline"}, r.class_peaks());
  see({"foreign_bytes", "", "resident before: code, libraries, caches"}, r.foreign_bytes);
  see({"predicted_peak_bytes", "", "owned and foreign"}, r.predicted_peak_bytes());
  see("measured_peak_bytes", r.after.peak_bytes),
      see("measured_resident_bytes", r.after.resident_bytes),
      see("peak_is_of_the_steps_alone", r.peak_was_reset);
}

template <class See>
void figures(const See& see, const StepRecord& r) {
  see({"wall_ns", "", "one step, including data and loss"}, r.wall_ns);
  see({"kernel_ns", "", "sum over the nodes"}, r.kernel_ns);
  see({"overlapped_ns", "", "part that overlap counts more than once"}, r.overlapped_ns);
  see({"idle_ns", "", "inside the graphs, while no kernel ran"}, r.idle_ns);
  see({"busy_ns", "", "while at least one kernel ran"}, r.busy_ns());
  see({"computing_ns", "", "exclusive time of kernels that compute"}, r.exclusive_ns(true));
  see({"moving_data_ns", "", "and of those that only move data"}, r.exclusive_ns(false));
  see({"idle_before_first_ns", "", "before a graph's first kernel"}, r.idle_before_first_ns);
  see({"host_ns", "", "outside the graphs: batch, learning rate, loss"}, r.host_ns);
  see({"attributed_share", "share", "busy over wall time"}, ratio(r.busy_ns(), r.wall_ns));
  see("instrumented_steps", r.wall_samples_ns.size());
  see({"dropped_records", "", "lost by the instrument, over all steps"}, r.dropped);
}

template <class See>
void figures(const See& see, const StepPhases& r) {
  see({"step", "", "its number"}, r.step);
  see("wall_ns", r.wall_ns);
  see({"forward_ns", "", "kernel times, as of the two others"}, r.forward_ns);
  see("backward_ns", r.backward_ns), see("optimizer_ns", r.optimizer_ns);
}

template <class See>
void figures(const See& see, const NodeRecord& r) {
  see({"graph", "", "the program's name of it: step, accumulate, update"}, r.graph);
  see("node", r.node), see("op", r.op), see("scope", r.scope), see("phase", r.phase);
  see({"shape", "", "of the node's first output"}, r.shape);
  see({"inputs", "", "types of its operands: f32[8,16], f32[16,32]"}, r.inputs);
  see({"producers", "", "earlier nodes with kernels whose results it reads"}, r.producers);
  see({"parameters", "", "elements that no earlier node of its graph reads"}, r.parameters);
  see("calls", r.calls), figures(see, r.work), see("read_bytes", r.read_bytes),
      see("written_bytes", r.written_bytes), see(kTime, r.time_ns), see(kExclusive, r.exclusive_ns),
      see("min_ns", r.sample_ns(std::ranges::min)), see("median_ns", r.sample_ns(median)),
      see("max_ns", r.sample_ns(std::ranges::max)), see("predicted_ns", r.predicted_ns),
      see("compute_ns", r.compute_ns), see("memory_ns", r.memory_ns),
      see("overhead_ns", r.overhead_ns), see("bound", r.bound);
}

template <class See>
void figures(const See& see, const ModuleRecord& r) {
  see("name", r.name), see("macs", r.work.macs), see("flops", r.work.flops),
      see("planned_bytes", r.planned_bytes), see("compulsory_bytes", r.compulsory_bytes),
      see("flops_per_compulsory_byte", r.intensity()), see("kernel_calls", r.launches),
      see("time_ns", r.time_ns), see("predicted_ns", r.predicted_ns);
}

template <class See>
void figures(const See& see, const AdviceRecord& r) {
  see("title", r.title), see("reason", r.reason), see("command", r.command);
  see({"predicted_gain", "share", "tokens per second, after over before, less 1"}, r.time_gain);
  see({"predicted_memory_gain", "share", "in owned memory"}, r.memory_gain);
  see("predicted_before_ns", r.before_ns), see("predicted_after_ns", r.after_ns),
      see("owned_before_bytes", r.before_peak_bytes), see("owned_after_bytes", r.after_peak_bytes),
      see("same_training", r.is_same_training), see({"confidence", "share"}, r.confidence);
}

template <class See>
void figures(const See& see, const RunRecord& r) {
  see("setting", r.setting), see("parameters", r.parameters);
  see({"step", "ns", "wall time of the steps that are not instrumented"}, r.wall());
  see("forward", r.step.forward), see("backward", r.step.backward),
      see("optimizer", r.step.optimizer), see("predicted_ns", r.predicted_ns),
      see({"launch_rate", "share"}, r.launch_rate().median),
      see("samples_per_s", r.samples_per_s()), see("tokens_per_s", r.tokens_per_s()),
      see("kernel_calls", r.launches);
  see({"model_flops", "", "forward and backward"}, r.model.step().flops);
  see("model_macs", r.model.step().macs);
  see({"executed_flops", "", "with recomputation and optimizer"}, r.executed.flops);
  see({"model_flops_per_s", "", "2 per model MAC"}, r.palm_flops_per_s());
  see("planned_bytes", r.planned_bytes);
  see({"compulsory_bytes", "", "as if each graph were one kernel"}, r.compulsory_bytes);
  see({"weight_bytes", "", "stored bytes of weights that a step reads"}, r.weight_bytes);
  see({"cache_bytes", "", "attended KV entries of the step's tokens"}, r.cache_bytes);
  figures(see, r.memory), see("attribution", r.step), see("step_samples_ns", r.plain_wall_ns);
  see({"validations", "", "[measured steps, loss] of each (`loss.validation`)"}, r.validations);
}

}  // namespace ridge::record
