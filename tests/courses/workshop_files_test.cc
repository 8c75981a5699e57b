// SPDX-License-Identifier: Apache-2.0
// The workshop's files: the keys that its scripts read, and figures computed here from the record.
#include "courses/workshop_files.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "record/summary_file.h"
#include "report/lab_fixture.h"

namespace ridge::courses {
namespace {

using nlohmann::json;

using report::lab_record;

// The JSON files, traces apart.
std::map<std::string, json> files_of(record::LabRecord lab) {
  std::map<std::string, json> files;
  for (const report::OutputFile& file : workshop_files(lab, report::record_files(lab)))
    if (file.name.ends_with(".json") && file.name.find("trace") == file.name.npos)
      files[file.name] = json::parse(file.text);
  return files;
}

// Keys of the scripts, by the path to their object.
const std::map<std::string, std::map<std::string, std::set<std::string>>> kKeys = {
    {"performance_summary.json",
     {{"",
       {"version", "timestamp", "config", "profiler_config", "performance_summary",
        "training_params", "system_info", "fusion_config", "fusion_statistics"}},
      {"/config",
       {"vocab_size", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "intermediate_dim",
        "max_seq_len", "rope_theta", "norm_eps", "dropout"}},
      {"/performance_summary",
       {"total_samples", "avg_training_speed", "avg_loss", "avg_batch_time", "avg_forward_time",
        "avg_backward_time", "avg_optimizer_time", "peak_memory_mb", "avg_peak_memory_mb",
        "avg_memory_mb"}},
      {"/training_params", {"num_steps", "batch_size", "learning_rate", "use_amp"}},
      {"/system_info", {"device", "gpu_name", "pytorch_version", "rocm_version", "timestamp_iso"}},
      {"/fusion_config",
       {"enable_qkv_fusion", "enable_flash_attention", "enable_swiglu_fusion",
        "enable_torch_compile"}},
      {"/fusion_statistics",
       {"qkv_fusion_enabled", "flash_attention_enabled", "swiglu_fusion_enabled",
        "torch_compile_enabled", "baseline_kernels_per_layer", "fused_kernels_per_layer",
        "kernel_reduction_per_layer", "total_kernel_reduction", "kernel_reduction_percent"}}}},
    {"flops_profile.json",
     {{"",
       {"model_info", "profiling_config", "flops_analysis", "performance_metrics",
        "efficiency_metrics", "step_by_step_results", "timestamp"}},
      {"/model_info", {"total_params", "trainable_params", "config"}},
      {"/profiling_config", {"batch_size", "sequence_length", "num_steps", "device"}},
      {"/flops_analysis",
       {"total_flops", "avg_flops_per_step", "flops_per_parameter", "detailed_profile"}},
      {"/performance_metrics",
       {"avg_time_per_step", "throughput_samples_per_sec", "avg_loss", "flops_per_sec"}},
      {"/efficiency_metrics",
       {"mfu_percent", "achieved_flops_per_sec", "device_peak_flops", "efficiency_ratio"}},
      {"/step_by_step_results/0", {"step", "loss", "flops", "time", "flops_per_sec"}}}},
    {"computational_intensity.json",
     {{"",
       {"arithmetic_intensity_flops_per_byte", "memory_bandwidth_used_gb_per_sec",
        "memory_bandwidth_utilization_percent", "device_memory_bandwidth_gb_per_sec",
        "memory_bound_vs_compute_bound", "roofline_metrics"}},
      {"/roofline_metrics",
       {"peak_flops", "peak_memory_bandwidth", "achieved_flops", "achieved_bandwidth"}}}},
    {"roofline_data.json",
     {{"", {"model_name", "timestamp", "device_info", "performance_point", "optimization_targets"}},
      {"/device_info", {"name", "peak_flops", "peak_memory_bandwidth"}},
      {"/performance_point", {"arithmetic_intensity", "achieved_performance", "mfu_percent"}},
      {"/optimization_targets/0", {"target", "reason", "expected_improvement"}}}},
    {"operator_analysis.json",
     {{"", {"operator_stats", "bottlenecks", "timestamp"}},
      {"/operator_stats/0",
       {"name", "cpu_time_total", "cpu_time_avg", "cpu_time_percent", "count", "input_shapes",
        "flops", "cuda_time_total", "cuda_time_avg", "cuda_memory_usage"}},
      {"/bottlenecks",
       {"top_cpu_time", "top_cuda_time", "memory_intensive", "low_flops_utilization",
        "optimization_targets"}}}},
    {"memory_analysis.json", {{"", {"peak_memory_mb", "live_memory_mb", "steps"}}}}};

TEST(WorkshopFiles, HaveTheKeysOfTheScripts) {
  const auto files = files_of(lab_record());
  for (const auto& [name, objects] : kKeys)
    for (const auto& [path, keys] : objects) {
      const json::json_pointer pointer(path);
      ASSERT_TRUE(files.at(name).contains(pointer)) << name << path;
      for (const std::string& key : keys)
        EXPECT_TRUE(files.at(name).at(pointer).contains(key)) << name << path << "/" << key;
    }
}

// Its scripts' folders: what they read stands where they read it, and Ridge's own files beside it.
TEST(WorkshopFiles, LieWhereTheScriptsReadThem) {
  const auto files = files_of(lab_record());
  for (const char* name : {"flops_profile.json", "computational_intensity.json"}) {
    const json& alone = files.at(std::string("flops_analysis/") + name);
    const json& both = files.at(name);
    EXPECT_TRUE(both.contains("runs")) << "Ridge's key in " << name;
    for (const auto& [key, value] : alone.items()) EXPECT_EQ(both.at(key), value) << name << key;
  }
  EXPECT_EQ(files.at("pytorch_profiling/operator_analysis.json"),
            files.at("operator_analysis.json"));
  for (const char* name :
       {"performance_summary.json", "pytorch_profiling/performance_summary.json"})
    EXPECT_EQ(record::read_summary(files.at(name), name).runs.size(), 2u) << "explain reads it";
  std::set<std::string> names;
  const record::LabRecord lab = lab_record();
  record::LabRecord own = lab;
  for (const report::OutputFile& file : workshop_files(lab, report::record_files(own)))
    EXPECT_TRUE(names.insert(file.name).second) << file.name << " twice";
  for (const char* name :
       {"performance_summary_report.md", "pytorch_profiling/comprehensive_profiling_report.md",
        "pytorch_profiling/ridge.pt.trace.json", "trace.json", "kernels.json", "memory.json",
        "operators.csv", "report.html"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(WorkshopFiles, HoldTheRunsFigures) {
  const auto files = files_of(lab_record());
  // Three steps of 1, 1.5 and 0.5 ms with 8 samples each.
  const json& speeds = files.at("performance_summary.json")["performance_summary"];
  EXPECT_EQ(speeds["total_samples"], 24);
  EXPECT_DOUBLE_EQ(speeds["avg_batch_time"].get<double>(), 1e-3);
  EXPECT_DOUBLE_EQ(speeds["avg_training_speed"].get<double>(), 8000);
  EXPECT_NEAR(speeds["avg_loss"].get<double>(), (7.0185 + 6.9978 + 6.95 + 1e-6) / 3, 1e-9);
  EXPECT_DOUBLE_EQ(speeds["peak_memory_mb"].get<double>(), 50000 / 1048576.0);
  EXPECT_EQ(files.at("performance_summary.json")["config"]["n_kv_heads"], 2);
  EXPECT_EQ(files.at("performance_summary.json")["training_params"]["learning_rate"], 3e-4);
  EXPECT_EQ(files.at("performance_summary.json")["fusion_config"]["enable_qkv_fusion"], true);
  EXPECT_EQ(files.at("performance_summary.json")["fusion_config"]["enable_torch_compile"], false);

  // 9e6 MACs of the model, forward and backward, in a step; the peak is 100 FLOPs per nanosecond.
  const json& flops = files.at("flops_profile.json");
  EXPECT_EQ(flops["flops_analysis"]["avg_flops_per_step"], 18'000'000);
  EXPECT_EQ(flops["flops_analysis"]["total_flops"], 54e6);
  EXPECT_EQ(flops["step_by_step_results"].size(), 3u);
  EXPECT_DOUBLE_EQ(flops["step_by_step_results"][1]["time"].get<double>(), 1.5e-3);
  EXPECT_DOUBLE_EQ(flops["efficiency_metrics"]["mfu_percent"].get<double>(), 18.0);
  EXPECT_DOUBLE_EQ(flops["efficiency_metrics"]["device_peak_flops"].get<double>(), 1e11);

  // 17e6 executed FLOPs and 1920 planned bytes in a millisecond; memory copies 25 bytes per ns.
  const json& intensity = files.at("computational_intensity.json");
  EXPECT_DOUBLE_EQ(intensity["arithmetic_intensity_flops_per_byte"].get<double>(), 17e6 / 1920);
  EXPECT_DOUBLE_EQ(intensity["memory_bandwidth_used_gb_per_sec"].get<double>(), 1920e3 / 1e9);
  EXPECT_EQ(intensity["memory_bound_vs_compute_bound"], "compute_bound");
  EXPECT_DOUBLE_EQ(intensity["roofline_metrics"]["achieved_flops"].get<double>(), 17e9);
}

TEST(WorkshopFiles, OperatorsAddUpAndAreTimedWhereTheyRan) {
  record::LabRecord lab = lab_record();
  for (const char* device : {"cpu", "cuda"}) {
    lab.runs[1].setting.device = device;
    const json analysis = files_of(lab).at("operator_analysis.json");
    double cpu_us = 0, gpu_us = 0;
    for (const json& row : analysis["operator_stats"]) {
      cpu_us += row["cpu_time_total"].get<double>();
      gpu_us += row["cuda_time_total"].get<double>();
    }
    const bool on_gpu = std::string(device) == "cuda";
    EXPECT_NEAR(on_gpu ? gpu_us : cpu_us, 5.0, 1e-9);  // 400 + 900 + 1000 + 2000 + 700 ns
    EXPECT_EQ(on_gpu ? cpu_us : gpu_us, 0);
    EXPECT_EQ(analysis["bottlenecks"]["top_cpu_time"].empty(), on_gpu);
    EXPECT_EQ(analysis["bottlenecks"]["top_cuda_time"].empty(), !on_gpu);
  }
}

TEST(WorkshopFiles, WithoutABaselineNoFusionIsCounted) {
  record::LabRecord lab = lab_record();
  lab.runs.erase(lab.runs.begin());
  lab.detailed = {0};
  lab.advice.clear();
  lab.ceilings.reset();
  const auto files = files_of(lab);
  EXPECT_FALSE(files.at("performance_summary.json").contains("fusion_statistics"));
  EXPECT_EQ(files.at("flops_profile.json")["efficiency_metrics"]["mfu_percent"], 0);
  // Without advice the operations that could gain most stand there.
  EXPECT_EQ(files.at("roofline_data.json")["optimization_targets"].size(), 0u)
      << "exclusive times are 0 in this record";
}

}  // namespace
}  // namespace ridge::courses
