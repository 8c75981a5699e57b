// SPDX-License-Identifier: Apache-2.0
// Spells a run's figures with the workshop's keys, in the folders of its scripts.
#include "courses/workshop_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "files/gzip_writer.h"
#include "record/operation_table.h"
#include "report/json_text.h"
#include "report/kineto_trace.h"
#include "report/markdown_report.h"
#include "report/report_page.h"

namespace ridge::courses {
namespace {

using report::Json;
using report::json_text;
using report::OutputFile;

double seconds(double ns) { return ns / 1e9; }
double megabytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
double ratio(double a, double b) { return b > 0 ? a / b : 0; }
Json seconds_or_null(const Summary& summary) {
  return summary.count > 0 ? Json(seconds(summary.median)) : Json();
}

// The figures that several files share.
struct Figures {
  explicit Figures(const record::LabRecord& of)
      : lab(of), run(lab.runs[lab.detailed.back()]), on_gpu(run.setting.device == "cuda") {
    const double total_ns = std::accumulate(run.all_wall_ns.begin(), run.all_wall_ns.end(), 0.0);
    steps = static_cast<int64_t>(run.losses.size());
    mean_step_s = seconds(ratio(total_ns, static_cast<double>(steps)));
    flops = static_cast<double>(run.palm_flops());
    peak_flops = 1e9 * mfu_reference(lab, run.setting).per_ns;
    if (lab.ceilings && !lab.ceilings->bandwidth.empty())
      peak_bytes = 1e9 * lab.ceilings->memory_bytes_per_ns();
  }

  int64_t stored_bytes() const {
    return std::accumulate(std::begin(run.memory.store_bytes), std::end(run.memory.store_bytes),
                           int64_t{0});
  }
  std::string device_name() const {
    return lab.ceilings ? lab.ceilings->machine.device : run.setting.device;
  }
  double samples_per_s() const {
    return ratio(static_cast<double>(run.setting.samples()), mean_step_s);
  }
  double flops_per_s() const { return ratio(flops, mean_step_s); }
  double mfu_percent() const { return 100 * ratio(flops_per_s(), peak_flops); }
  double executed_per_s() const {
    return ratio(static_cast<double>(run.executed.flops), mean_step_s);
  }
  double bytes_per_s() const { return ratio(static_cast<double>(run.planned_bytes), mean_step_s); }
  double intensity() const {
    return ratio(static_cast<double>(run.executed.flops), static_cast<double>(run.planned_bytes));
  }

  const record::LabRecord& lab;
  const record::RunRecord& run;
  bool on_gpu;
  int64_t steps = 0;
  double mean_step_s = 0;
  double flops = 0;  // a step takes so many
  double peak_flops = 0, peak_bytes = 0;
};

constexpr size_t kTargets = 3;

Json config(const Figures& f) {
  const record::Architecture& a = f.run.architecture;
  return {{"vocab_size", a.vocabulary}, {"hidden_dim", a.model},
          {"n_layers", a.layers},       {"n_heads", a.heads},
          {"n_kv_heads", a.kv_heads},   {"intermediate_dim", a.feed_forward},
          {"max_seq_len", a.context},   {"rope_theta", a.rope_theta},
          {"norm_eps", a.norm_epsilon}, {"dropout", 0.0}};
}

Json speeds(const Figures& f) {
  return {{"total_samples", f.steps * f.run.setting.samples()},
          {"avg_training_speed", f.samples_per_s()},
          {"avg_loss", f.run.mean_loss()},
          {"avg_batch_time", f.mean_step_s},
          {"avg_forward_time", seconds_or_null(f.run.step.forward)},
          {"avg_backward_time", seconds_or_null(f.run.step.backward)},
          {"avg_optimizer_time", seconds_or_null(f.run.step.optimizer)},
          {"peak_memory_mb", megabytes(f.run.memory.owned_bytes)},
          {"avg_peak_memory_mb", megabytes(f.run.memory.owned_bytes)},
          {"avg_memory_mb", megabytes(f.stored_bytes())}};
}

bool runs_pass(const record::RunRecord& run, std::string_view name) {
  return std::any_of(run.passes.begin(), run.passes.end(),
                     [&](const cost::PassRecord& pass) { return pass.name == name; });
}

// Launches of the kernels of one layer, forward and backward.
int64_t kernels_per_layer(const record::RunRecord& run) {
  int64_t calls = 0;
  for (const record::NodeRecord& node : run.step.nodes)
    if (node.scope == "layer.0" || node.scope.starts_with("layer.0/")) calls += node.calls;
  return calls;
}

void add_fusion(const Figures& f, Json& json) {
  const bool qkv = runs_pass(f.run, "merge_qkv"), attention = runs_pass(f.run, "flash_attention");
  const bool swiglu = runs_pass(f.run, "fuse_glu"),
             compiled = runs_pass(f.run, "generate_pointwise");
  json["fusion_config"] = {{"enable_qkv_fusion", qkv},
                           {"enable_flash_attention", attention},
                           {"enable_swiglu_fusion", swiglu},
                           {"enable_torch_compile", compiled}};
  const record::RunRecord& baseline = reference_run(f.lab, f.run);
  if (baseline.setting.level != "baseline") return;
  const int64_t before = kernels_per_layer(baseline), after = kernels_per_layer(f.run);
  json["fusion_statistics"] = {{"qkv_fusion_enabled", qkv},
                               {"flash_attention_enabled", attention},
                               {"swiglu_fusion_enabled", swiglu},
                               {"torch_compile_enabled", compiled},
                               {"baseline_kernels_per_layer", before},
                               {"fused_kernels_per_layer", after},
                               {"kernel_reduction_per_layer", before - after},
                               {"total_kernel_reduction", baseline.launches - f.run.launches},
                               {"kernel_reduction_percent",
                                100 * ratio(static_cast<double>(baseline.launches - f.run.launches),
                                            static_cast<double>(baseline.launches))}};
}

Json operator_json(const Figures& f, const record::OperationRow& row) {
  const double us = static_cast<double>(row.time_ns) / 1e3;
  const double each_us = ratio(us, static_cast<double>(row.calls));
  const auto first = std::find_if(f.run.step.nodes.begin(), f.run.step.nodes.end(),
                                  [&](const auto& node) { return node.op == row.key; });
  return {{"name", row.key},
          {"cpu_time_total", f.on_gpu ? 0.0 : us},
          {"cpu_time_avg", f.on_gpu ? 0.0 : each_us},
          {"cpu_time_percent", f.on_gpu ? 0.0 : 100 * row.share},
          {"count", row.calls},
          {"input_shapes", first == f.run.step.nodes.end() ? "" : first->inputs},
          {"flops", row.work.flops},
          {"cuda_time_total", f.on_gpu ? us : 0.0},
          {"cuda_time_avg", f.on_gpu ? each_us : 0.0},
          {"cuda_memory_usage", row.written_bytes}};
}

// The lab's advice; without one, the operations that could gain most.
Json targets(const Figures& f) {
  Json json = Json::array();
  for (const record::AdviceRecord& each : f.lab.advice)
    json.push_back({{"target", each.title},
                    {"reason", each.reason},
                    {"expected_improvement", fmt::format("{:+.1f}% samples per second (predicted)",
                                                         100 * each.time_gain)}});
  if (!json.empty()) return json;
  for (const record::OperationRow& row : table_by_op(f.run.step, f.lab.limits()).rows) {
    const double gain = static_cast<double>(row.exclusive_ns) - row.predicted_ns;
    if (json.size() == kTargets || row.predicted_ns <= 0 || gain <= 0) continue;
    json.push_back({{"target", row.key},
                    {"reason", fmt::format("{:.1f}% of the step, bound by {}", 100 * row.share,
                                           name(row.bound))},
                    {"expected_improvement",
                     fmt::format("{:.1f}% of the step if it ran at its roof",
                                 100 * ratio(gain, static_cast<double>(f.run.step.wall_ns)))}});
  }
  return json;
}

Json performance_summary(const Figures& f) {
  Json json = {{"version", f.lab.program},
               {"timestamp", f.lab.finished_at},
               {"config", config(f)},
               {"profiler_config", {{"instrumented_steps", f.run.step.wall_samples_ns.size()}}},
               {"performance_summary", speeds(f)},
               {"training_params",
                {{"num_steps", f.steps},
                 {"batch_size", f.run.setting.samples()},
                 {"learning_rate", f.run.learning_rate},
                 {"use_amp", f.run.setting.dtype == "bf16" || f.run.setting.dtype == "fp16"}}},
               {"system_info",
                {{"device", f.run.setting.device},
                 {"gpu_name", f.device_name()},
                 {"pytorch_version", "none"},
                 {"rocm_version", "none"},
                 {"timestamp_iso", f.lab.finished_at}}},
               {"convention",
                "means over all measured steps; forward, backward and optimizer: medians of the "
                "kernel times of the instrumented steps; memory: owned by the program (arena and "
                "store), the average without the arena"}};
  add_fusion(f, json);
  return json;
}

Json flops_profile(const Figures& f) {
  Json profile = Json::object();
  for (const record::OperationRow& row : table_by_op(f.run.step, f.lab.limits()).rows)
    profile[row.key] = {{"flops", row.work.flops}, {"macs", row.work.macs}, {"calls", row.calls}};
  Json steps = Json::array();
  for (size_t i = 0; i < f.run.all_wall_ns.size() && i < f.run.losses.size(); ++i)
    steps.push_back({{"step", i},
                     {"loss", f.run.losses[i]},
                     {"flops", f.run.palm_flops()},
                     {"time", seconds(f.run.all_wall_ns[i])},
                     {"flops_per_sec", ratio(f.flops, seconds(f.run.all_wall_ns[i]))}});
  return {{"model_info",
           {{"total_params", f.run.parameters},
            {"trainable_params", f.run.parameters},
            {"config", config(f)}}},
          {"profiling_config",
           {{"batch_size", f.run.setting.samples()},
            {"sequence_length", f.run.setting.sequence},
            {"num_steps", f.steps},
            {"device", f.run.setting.device}}},
          {"flops_analysis",
           {{"total_flops", f.flops * static_cast<double>(f.steps)},
            {"avg_flops_per_step", f.run.palm_flops()},
            {"flops_per_parameter", ratio(f.flops, static_cast<double>(f.run.parameters))},
            {"detailed_profile", std::move(profile)}}},
          {"performance_metrics",
           {{"avg_time_per_step", f.mean_step_s},
            {"throughput_samples_per_sec", f.samples_per_s()},
            {"avg_loss", f.run.mean_loss()},
            {"flops_per_sec", f.flops_per_s()}}},
          {"efficiency_metrics",
           {{"mfu_percent", f.mfu_percent()},
            {"achieved_flops_per_sec", f.flops_per_s()},
            {"device_peak_flops", f.peak_flops},
            {"efficiency_ratio", ratio(f.flops_per_s(), f.peak_flops)}}},
          {"step_by_step_results", std::move(steps)},
          {"timestamp", f.lab.finished_at},
          {"convention",
           std::string("FLOPs of a step: ") + record::kMfuConvention +
               "; detailed_profile: FLOPs that the kernels executed, pointwise work and optimizer "
               "included; device_peak_flops: measured"}};
}

Json computational_intensity(const Figures& f) {
  return {{"arithmetic_intensity_flops_per_byte", f.intensity()},
          {"memory_bandwidth_used_gb_per_sec", f.bytes_per_s() / 1e9},
          {"memory_bandwidth_utilization_percent", 100 * ratio(f.bytes_per_s(), f.peak_bytes)},
          {"device_memory_bandwidth_gb_per_sec", f.peak_bytes / 1e9},
          {"memory_bound_vs_compute_bound",
           f.intensity() * f.peak_bytes < f.peak_flops ? "memory_bound" : "compute_bound"},
          {"roofline_metrics",
           {{"peak_flops", f.peak_flops},
            {"peak_memory_bandwidth", f.peak_bytes},
            {"achieved_flops", f.executed_per_s()},
            {"achieved_bandwidth", f.bytes_per_s()}}},
          {"convention",
           "executed FLOPs over planned bytes (each operand of each kernel once) of a step; a "
           "utilization over 100% means that operands came from a cache"}};
}

Json roofline_data(const Figures& f) {
  return {{"model_name", f.run.setting.str()},
          {"timestamp", f.lab.finished_at},
          {"device_info",
           {{"name", f.device_name()},
            {"peak_flops", f.peak_flops},
            {"peak_memory_bandwidth", f.peak_bytes}}},
          {"performance_point",
           {{"arithmetic_intensity", f.intensity()},
            {"achieved_performance", f.executed_per_s()},
            {"mfu_percent", f.mfu_percent()}}},
          {"optimization_targets", targets(f)},
          {"convention", "the point: executed FLOPs over planned bytes; mfu_percent: model FLOPs"}};
}

Json operator_analysis(const Figures& f) {
  const record::OperationTable table = table_by_op(f.run.step, f.lab.limits());
  Json stats = Json::array();
  for (const record::OperationRow& row : table.rows) stats.push_back(operator_json(f, row));
  // The names of the three rows with the largest value, as the scripts list them.
  auto top = [&](auto value) {
    std::vector<const record::OperationRow*> rows;
    for (const record::OperationRow& row : table.rows)
      if (value(row) > 0) rows.push_back(&row);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](auto* a, auto* b) { return value(*a) > value(*b); });
    if (rows.size() > kTargets) rows.resize(kTargets);
    Json names = Json::array();
    for (const record::OperationRow* row : rows)
      names.push_back({{"name", row->key}, {"value", value(*row)}});
    return names;
  };
  auto time_us = [](const record::OperationRow& row) {
    return static_cast<double>(row.time_ns) / 1e3;
  };
  // How far below its roof an operation stays, in time.
  auto lost_us = [](const record::OperationRow& row) {
    return row.predicted_ns > 0
               ? std::max(0.0, static_cast<double>(row.exclusive_ns) - row.predicted_ns) / 1e3
               : 0;
  };
  return {{"operator_stats", std::move(stats)},
          {"bottlenecks",
           {{"top_cpu_time", f.on_gpu ? Json::array() : top(time_us)},
            {"top_cuda_time", f.on_gpu ? top(time_us) : Json::array()},
            {"memory_intensive",
             top([](const record::OperationRow& row) { return static_cast<double>(row.bytes()); })},
            {"low_flops_utilization", top(lost_us)},
            {"optimization_targets", targets(f)}}},
          {"timestamp", f.lab.finished_at},
          {"convention",
           "one step, all times in microseconds; an operation's time is that of its kernels, on "
           "the CPU or on the GPU, where they ran; flops: executed; cuda_memory_usage: bytes "
           "written; memory_intensive: planned bytes; low_flops_utilization: microseconds over "
           "the predicted time"}};
}

Json memory_analysis(const Figures& f) {
  const record::MemoryRecord& memory = f.run.memory;
  Json categories = Json::object(), steps = Json::array();
  const plan::MemoryMoment peaks = memory.class_peaks();
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    categories[std::string(name(static_cast<plan::MemoryClass>(i)))] = megabytes(peaks.bytes[i]);
  for (int64_t step = 0; step < f.steps; ++step)
    steps.push_back({{"step", step},
                     {"peak_memory_mb", megabytes(memory.owned_bytes)},
                     {"live_memory_mb", megabytes(f.stored_bytes())}});
  return {{"model_name", f.run.setting.str()},
          {"timestamp", f.lab.finished_at},
          {"peak_memory_mb", megabytes(memory.owned_bytes)},
          {"live_memory_mb", megabytes(f.stored_bytes())},
          {"process_peak_memory_mb", megabytes(memory.after.peak_bytes)},
          {"peak_by_category_mb", std::move(categories)},
          {"steps", std::move(steps)},
          {"convention",
           "peak: owned by the program, which is the same in each step: parameters, states, inputs "
           "and the arena of temporaries; live: without the arena; the peaks of categories need "
           "not coincide; process_peak: resident, with code and libraries"}};
}

// Ridge's file with the keys of the workshop's added; a key that both have stays Ridge's.
std::string with_own(const std::vector<OutputFile>& own,
                     const std::string& name,
                     const Json& file) {
  const auto found = std::ranges::find(own, name, &OutputFile::name);
  if (found == own.end()) return json_text(file);
  Json merged = Json::parse(found->text);
  for (const auto& [key, value] : file.items())
    if (!merged.contains(key)) merged[key] = value;
  return json_text(merged);
}

// For TensorBoard's plugin for PyTorch's profiler, which finds traces by the end of their names.
OutputFile tensorboard_trace(const Figures& f, const std::vector<OutputFile>& own) {
  const bool gzip = std::ranges::any_of(
      own, [](const OutputFile& file) { return file.name.ends_with(".json.gz"); });
  const std::string name = std::string("ridge.pt.trace.json") + (gzip ? ".gz" : "");
  std::string text = report::kineto_trace(f.lab, f.run, name, report::kTraceCapBytes,
                                          report::TraceReader::kTensorBoard)
                         .text;
  return {"pytorch_profiling/" + name, gzip ? files::gzip(text) : std::move(text)};
}

}  // namespace

std::vector<OutputFile> workshop_files(const record::LabRecord& lab, std::vector<OutputFile> own) {
  const Figures figures(lab);
  const Json flops = flops_profile(figures), intensity = computational_intensity(figures);
  const std::string roofline = json_text(roofline_data(figures)),
                    operators = json_text(operator_analysis(figures)),
                    memory = json_text(memory_analysis(figures)),
                    text = report::markdown_report(lab),
                    summary =
                        with_own(own, "performance_summary.json", performance_summary(figures));
  std::vector<OutputFile> files = {
      {"performance_summary.json", summary},
      {"flops_profile.json", with_own(own, "flops_profile.json", flops)},
      {"computational_intensity.json", with_own(own, "computational_intensity.json", intensity)},
      {"roofline_data.json", roofline},
      {"operator_analysis.json", operators},
      {"memory_analysis.json", memory},
      {"performance_summary_report.md", text},
      {"report.md", text},
      {"flops_analysis/flops_profile.json", json_text(flops)},
      {"flops_analysis/computational_intensity.json", json_text(intensity)},
      {"flops_analysis/roofline_data.json", roofline},
      {"pytorch_profiling/performance_summary.json", summary},
      {"pytorch_profiling/operator_analysis.json", operators},
      {"pytorch_profiling/memory_analysis.json", memory},
      {"pytorch_profiling/comprehensive_profiling_report.md", text},
      tensorboard_trace(figures, own),
      page_file(own)};
  for (OutputFile& file : own)
    if (std::ranges::find(files, file.name, &OutputFile::name) == files.end())
      files.push_back(std::move(file));
  return files;
}

}  // namespace ridge::courses
