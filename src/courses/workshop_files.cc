// SPDX-License-Identifier: Apache-2.0
// Spells a run's figures with the workshop's keys.
#include "courses/workshop_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "record/operation_table.h"
#include "report/json_text.h"
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
class Workshop {
 public:
  explicit Workshop(const record::LabRecord& lab)
      : lab_(lab), run_(lab.runs[lab.detailed.back()]), on_gpu_(run_.setting.device == "cuda") {
    const double total_ns = std::accumulate(run_.all_wall_ns.begin(), run_.all_wall_ns.end(), 0.0);
    steps_ = static_cast<int64_t>(run_.losses.size());
    mean_step_s_ = seconds(ratio(total_ns, static_cast<double>(steps_)));
    flops_ = static_cast<double>(run_.palm_flops());
    peak_flops_ = 1e9 * mfu_reference(lab, run_.setting).per_ns;
    if (lab.ceilings && !lab.ceilings->bandwidth.empty())
      peak_bytes_ = 1e9 * lab.ceilings->memory_bytes_per_ns();
  }

  Json performance_summary() const {
    Json json = {{"version", lab_.program},
                 {"timestamp", lab_.finished_at},
                 {"config", config()},
                 {"profiler_config", {{"instrumented_steps", run_.step.wall_samples_ns.size()}}},
                 {"performance_summary", speeds()},
                 {"training_params",
                  {{"num_steps", steps_},
                   {"batch_size", run_.setting.samples()},
                   {"learning_rate", run_.learning_rate},
                   {"use_amp", run_.setting.dtype == "bf16" || run_.setting.dtype == "fp16"}}},
                 {"system_info",
                  {{"device", run_.setting.device},
                   {"gpu_name", device_name()},
                   {"pytorch_version", "none"},
                   {"rocm_version", "none"},
                   {"timestamp_iso", lab_.finished_at}}},
                 {"convention",
                  "means over all measured steps; forward, backward and optimizer: medians of the "
                  "kernel times of the instrumented steps; memory: owned by the program (arena and "
                  "store), the average without the arena"}};
    add_fusion(json);
    return json;
  }

  Json flops_profile() const {
    Json profile = Json::object();
    for (const record::OperationRow& row : table_by_op(run_.step, lab_.limits()).rows)
      profile[row.key] = {{"flops", row.work.flops}, {"macs", row.work.macs}, {"calls", row.calls}};
    Json steps = Json::array();
    for (size_t i = 0; i < run_.all_wall_ns.size() && i < run_.losses.size(); ++i)
      steps.push_back({{"step", i},
                       {"loss", run_.losses[i]},
                       {"flops", run_.palm_flops()},
                       {"time", seconds(run_.all_wall_ns[i])},
                       {"flops_per_sec", ratio(flops_, seconds(run_.all_wall_ns[i]))}});
    return {
        {"model_info",
         {{"total_params", run_.parameters},
          {"trainable_params", run_.parameters},
          {"config", config()}}},
        {"profiling_config",
         {{"batch_size", run_.setting.samples()},
          {"sequence_length", run_.setting.sequence},
          {"num_steps", steps_},
          {"device", run_.setting.device}}},
        {"flops_analysis",
         {{"total_flops", flops_ * static_cast<double>(steps_)},
          {"avg_flops_per_step", run_.palm_flops()},
          {"flops_per_parameter", ratio(flops_, static_cast<double>(run_.parameters))},
          {"detailed_profile", std::move(profile)}}},
        {"performance_metrics",
         {{"avg_time_per_step", mean_step_s_},
          {"throughput_samples_per_sec", samples_per_s()},
          {"avg_loss", run_.mean_loss()},
          {"flops_per_sec", flops_per_s()}}},
        {"efficiency_metrics",
         {{"mfu_percent", mfu_percent()},
          {"achieved_flops_per_sec", flops_per_s()},
          {"device_peak_flops", peak_flops_},
          {"efficiency_ratio", ratio(flops_per_s(), peak_flops_)}}},
        {"step_by_step_results", std::move(steps)},
        {"timestamp", lab_.finished_at},
        {"convention",
         std::string("FLOPs of a step: ") + record::kMfuConvention +
             "; detailed_profile: FLOPs that the kernels executed, pointwise work and optimizer "
             "included; device_peak_flops: measured"}};
  }

  Json computational_intensity() const {
    return {{"arithmetic_intensity_flops_per_byte", intensity()},
            {"memory_bandwidth_used_gb_per_sec", bytes_per_s() / 1e9},
            {"memory_bandwidth_utilization_percent", 100 * ratio(bytes_per_s(), peak_bytes_)},
            {"device_memory_bandwidth_gb_per_sec", peak_bytes_ / 1e9},
            {"memory_bound_vs_compute_bound",
             intensity() * peak_bytes_ < peak_flops_ ? "memory_bound" : "compute_bound"},
            {"roofline_metrics",
             {{"peak_flops", peak_flops_},
              {"peak_memory_bandwidth", peak_bytes_},
              {"achieved_flops", executed_per_s()},
              {"achieved_bandwidth", bytes_per_s()}}},
            {"convention",
             "executed FLOPs over planned bytes (each operand of each kernel once) of a step; a "
             "utilization over 100% means that operands came from a cache"}};
  }

  Json roofline_data() const {
    return {
        {"model_name", run_.setting.str()},
        {"timestamp", lab_.finished_at},
        {"device_info",
         {{"name", device_name()},
          {"peak_flops", peak_flops_},
          {"peak_memory_bandwidth", peak_bytes_}}},
        {"performance_point",
         {{"arithmetic_intensity", intensity()},
          {"achieved_performance", executed_per_s()},
          {"mfu_percent", mfu_percent()}}},
        {"optimization_targets", targets()},
        {"convention", "the point: executed FLOPs over planned bytes; mfu_percent: model FLOPs"}};
  }

  Json operator_analysis() const {
    const record::OperationTable table = table_by_op(run_.step, lab_.limits());
    Json stats = Json::array();
    for (const record::OperationRow& row : table.rows) stats.push_back(operator_json(row));
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
             {{"top_cpu_time", on_gpu_ ? Json::array() : top(time_us)},
              {"top_cuda_time", on_gpu_ ? top(time_us) : Json::array()},
              {"memory_intensive", top([](const record::OperationRow& row) {
                 return static_cast<double>(row.bytes());
               })},
              {"low_flops_utilization", top(lost_us)},
              {"optimization_targets", targets()}}},
            {"timestamp", lab_.finished_at},
            {"convention",
             "one step, all times in microseconds; an operation's time is that of its kernels, on "
             "the CPU or on the GPU, where they ran; flops: executed; cuda_memory_usage: bytes "
             "written; memory_intensive: planned bytes; low_flops_utilization: microseconds over "
             "the predicted time"}};
  }

  Json memory_analysis() const {
    const record::MemoryRecord& memory = run_.memory;
    Json categories = Json::object(), steps = Json::array();
    const plan::MemoryMoment peaks = memory.class_peaks();
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      categories[std::string(name(static_cast<plan::MemoryClass>(i)))] = megabytes(peaks.bytes[i]);
    for (int64_t step = 0; step < steps_; ++step)
      steps.push_back({{"step", step},
                       {"peak_memory_mb", megabytes(memory.owned_bytes)},
                       {"live_memory_mb", megabytes(stored_bytes())}});
    return {
        {"model_name", run_.setting.str()},
        {"timestamp", lab_.finished_at},
        {"peak_memory_mb", megabytes(memory.owned_bytes)},
        {"live_memory_mb", megabytes(stored_bytes())},
        {"process_peak_memory_mb", megabytes(memory.after.peak_bytes)},
        {"peak_by_category_mb", std::move(categories)},
        {"steps", std::move(steps)},
        {"convention",
         "peak: owned by the program, which is the same in each step: parameters, states, inputs "
         "and the arena of temporaries; live: without the arena; the peaks of categories need "
         "not coincide; process_peak: resident, with code and libraries"}};
  }

 private:
  static constexpr size_t kTargets = 3;

  Json config() const {
    const record::Architecture& a = run_.architecture;
    return {{"vocab_size", a.vocabulary}, {"hidden_dim", a.model},
            {"n_layers", a.layers},       {"n_heads", a.heads},
            {"n_kv_heads", a.kv_heads},   {"intermediate_dim", a.feed_forward},
            {"max_seq_len", a.context},   {"rope_theta", a.rope_theta},
            {"norm_eps", a.norm_epsilon}, {"dropout", 0.0}};
  }

  Json speeds() const {
    return {{"total_samples", steps_ * run_.setting.samples()},
            {"avg_training_speed", samples_per_s()},
            {"avg_loss", run_.mean_loss()},
            {"avg_batch_time", mean_step_s_},
            {"avg_forward_time", seconds_or_null(run_.step.forward)},
            {"avg_backward_time", seconds_or_null(run_.step.backward)},
            {"avg_optimizer_time", seconds_or_null(run_.step.optimizer)},
            {"peak_memory_mb", megabytes(run_.memory.owned_bytes)},
            {"avg_peak_memory_mb", megabytes(run_.memory.owned_bytes)},
            {"avg_memory_mb", megabytes(stored_bytes())}};
  }

  bool runs_pass(std::string_view name) const {
    return std::any_of(run_.passes.begin(), run_.passes.end(),
                       [&](const cost::PassRecord& pass) { return pass.name == name; });
  }

  // Launches of the kernels of one layer, forward and backward.
  static int64_t kernels_per_layer(const record::RunRecord& run) {
    int64_t calls = 0;
    for (const record::NodeRecord& node : run.step.nodes)
      if (node.scope == "layer.0" || node.scope.starts_with("layer.0/")) calls += node.calls;
    return calls;
  }

  void add_fusion(Json& json) const {
    const bool qkv = runs_pass("merge_qkv"), attention = runs_pass("flash_attention");
    const bool swiglu = runs_pass("fuse_glu"), compiled = runs_pass("generate_pointwise");
    json["fusion_config"] = {{"enable_qkv_fusion", qkv},
                             {"enable_flash_attention", attention},
                             {"enable_swiglu_fusion", swiglu},
                             {"enable_torch_compile", compiled}};
    const record::RunRecord& baseline = reference_run(lab_, run_);
    if (baseline.setting.level != "baseline") return;
    const int64_t before = kernels_per_layer(baseline), after = kernels_per_layer(run_);
    json["fusion_statistics"] = {
        {"qkv_fusion_enabled", qkv},
        {"flash_attention_enabled", attention},
        {"swiglu_fusion_enabled", swiglu},
        {"torch_compile_enabled", compiled},
        {"baseline_kernels_per_layer", before},
        {"fused_kernels_per_layer", after},
        {"kernel_reduction_per_layer", before - after},
        {"total_kernel_reduction", baseline.launches - run_.launches},
        {"kernel_reduction_percent",
         100 * ratio(static_cast<double>(baseline.launches - run_.launches),
                     static_cast<double>(baseline.launches))}};
  }

  Json operator_json(const record::OperationRow& row) const {
    const double us = static_cast<double>(row.time_ns) / 1e3;
    const double each_us = ratio(us, static_cast<double>(row.calls));
    const auto first = std::find_if(run_.step.nodes.begin(), run_.step.nodes.end(),
                                    [&](const auto& node) { return node.op == row.key; });
    return {{"name", row.key},
            {"cpu_time_total", on_gpu_ ? 0.0 : us},
            {"cpu_time_avg", on_gpu_ ? 0.0 : each_us},
            {"cpu_time_percent", on_gpu_ ? 0.0 : 100 * row.share},
            {"count", row.calls},
            {"input_shapes", first == run_.step.nodes.end() ? "" : first->inputs},
            {"flops", row.work.flops},
            {"cuda_time_total", on_gpu_ ? us : 0.0},
            {"cuda_time_avg", on_gpu_ ? each_us : 0.0},
            {"cuda_memory_usage", row.written_bytes}};
  }

  // The lab's advice; without one, the operations that could gain most.
  Json targets() const {
    Json json = Json::array();
    for (const record::AdviceRecord& each : lab_.advice)
      json.push_back(
          {{"target", each.title},
           {"reason", each.reason},
           {"expected_improvement",
            fmt::format("{:+.1f}% samples per second (predicted)", 100 * each.time_gain)}});
    if (!json.empty()) return json;
    for (const record::OperationRow& row : table_by_op(run_.step, lab_.limits()).rows) {
      const double gain = static_cast<double>(row.exclusive_ns) - row.predicted_ns;
      if (json.size() == kTargets || row.predicted_ns <= 0 || gain <= 0) continue;
      json.push_back({{"target", row.key},
                      {"reason", fmt::format("{:.1f}% of the step, bound by {}", 100 * row.share,
                                             name(row.bound))},
                      {"expected_improvement",
                       fmt::format("{:.1f}% of the step if it ran at its roof",
                                   100 * ratio(gain, static_cast<double>(run_.step.wall_ns)))}});
    }
    return json;
  }

  int64_t stored_bytes() const {
    return std::accumulate(std::begin(run_.memory.store_bytes), std::end(run_.memory.store_bytes),
                           int64_t{0});
  }
  std::string device_name() const {
    return lab_.ceilings ? lab_.ceilings->machine.device : run_.setting.device;
  }
  double samples_per_s() const {
    return ratio(static_cast<double>(run_.setting.samples()), mean_step_s_);
  }
  double flops_per_s() const { return ratio(flops_, mean_step_s_); }
  double mfu_percent() const { return 100 * ratio(flops_per_s(), peak_flops_); }
  double executed_per_s() const {
    return ratio(static_cast<double>(run_.executed.flops), mean_step_s_);
  }
  double bytes_per_s() const {
    return ratio(static_cast<double>(run_.planned_bytes), mean_step_s_);
  }
  double intensity() const {
    return ratio(static_cast<double>(run_.executed.flops), static_cast<double>(run_.planned_bytes));
  }

  const record::LabRecord& lab_;
  const record::RunRecord& run_;
  bool on_gpu_;
  int64_t steps_ = 0;
  double mean_step_s_ = 0;
  double flops_ = 0;  // a step takes so many
  double peak_flops_ = 0, peak_bytes_ = 0;
};

}  // namespace

std::vector<OutputFile> workshop_files(const record::LabRecord& lab, std::vector<OutputFile> own) {
  const Workshop workshop(lab);
  std::vector<OutputFile> files = {
      {"performance_summary.json", json_text(workshop.performance_summary())},
      {"flops_profile.json", json_text(workshop.flops_profile())},
      {"computational_intensity.json", json_text(workshop.computational_intensity())},
      {"roofline_data.json", json_text(workshop.roofline_data())},
      {"operator_analysis.json", json_text(workshop.operator_analysis())},
      {"memory_analysis.json", json_text(workshop.memory_analysis())},
      page_file(own),
      {"comprehensive_profiling_report.md", report::markdown_report(lab)}};
  for (OutputFile& file : own)
    if (file.name.starts_with("trace")) files.push_back(std::move(file));
  return files;
}

}  // namespace ridge::courses
