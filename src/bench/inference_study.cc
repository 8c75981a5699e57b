// SPDX-License-Identifier: Apache-2.0
// The table of techniques, and the points of a study.
#include "bench/inference_study.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "bench/extents.h"
#include "planning/phase_plan.h"

namespace ridge::bench {
namespace {

constexpr int64_t kUsualChunk = 512;

constexpr std::array kTechniques = {
    Technique{"eager", "one kernel a primitive, and the T x T scores in memory", "baseline",
              "-tune_gemm,+split_activations"},
    Technique{"compiled", "the same, with one generated kernel per cluster of pointwise operations",
              "baseline", "-tune_gemm,+generate_pointwise,+capture"},
    Technique{"flash", "compiled, with attention in tiles: no scores in memory", "baseline",
              "-tune_gemm,+generate_pointwise,+capture,+flash_attention"},
    Technique{"memory-efficient", "compiled, with the scores of 256 queries in memory at a time",
              "baseline", "-tune_gemm,+generate_pointwise,+capture", 256},
    Technique{"paged", "flash, with a KV cache in blocks of 16 positions", "baseline",
              "-tune_gemm,+generate_pointwise,+capture,+flash_attention", 0, true},
    Technique{
        "tuned",
        "all that Ridge has: paged, merged projections, hand-written kernels, and GEMM algorithms chosen by timing",
        "compiled", "+tune_gemm", 0, true}};

record::BenchPoint point_of(const record::RunRecord& run,
                            int64_t owned_bytes,
                            const cost::Ceilings& ceilings) {
  record::BenchPoint point;
  point.phase = run.setting.task;
  point.extents = {{"b", run.setting.batch_size},
                   {run.setting.task == "decode" ? "c" : "t", run.setting.sequence}};
  point.work = run.executed;
  point.launches = run.launches;
  point.planned_bytes = run.planned_bytes;
  point.compulsory_bytes = run.compulsory_bytes;
  point.owned_bytes = owned_bytes;
  point.predicted_ns = run.predicted_ns;
  // The roofline: multiplications of each type at its peak, or reading the weights and keys once.
  double multiply_ns = 0;
  for (const auto& [dtype, macs] : run.amounts.macs)
    multiply_ns += 2 * static_cast<double>(macs) / ceilings.peak_flops_per_ns(dtype);
  const double read_ns =
      static_cast<double>(run.weight_bytes + run.cache_bytes) / ceilings.memory_reads_per_ns();
  point.limit_ns = std::max(multiply_ns, read_ns);
  point.bound = multiply_ns >= read_ns ? cost::Bound::kCompute : cost::Bound::kMemory;
  if (point.bound == cost::Bound::kMemory && !ceilings.levels.empty())
    point.level = ceilings.levels.back().name;
  return point;
}

}  // namespace

std::span<const Technique> techniques() { return kTechniques; }

std::vector<Technique> choose_techniques(const std::string& names) {
  if (names == "all") return {kTechniques.begin(), kTechniques.end()};
  std::string known;
  for (const Technique& each : kTechniques)
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  std::vector<Technique> chosen;
  for (const std::string& name : split(names)) {
    const auto found = std::find_if(kTechniques.begin(), kTechniques.end(),
                                    [&](const Technique& each) { return each.name == name; });
    if (found == kTechniques.end())
      throw usage_error("[techniques] expected all or some of {}, got {}", known, printable(name));
    if (std::any_of(chosen.begin(), chosen.end(),
                    [&](const Technique& each) { return each.name == name; }))
      throw usage_error("[techniques] expected each once, got {} twice", name);
    chosen.push_back(*found);
  }
  return chosen;
}

measure::InferenceExperiment with_technique(measure::InferenceExperiment e,
                                            const Technique& technique) {
  // A whole prompt in one run; several short ones share it.
  e.chunk = technique.most_queries > 0 ? technique.most_queries : std::max(e.length, kUsualChunk);
  e.pages = technique.pages;
  return e;
}

PhasePoints plan_technique(const models::ModelFile& file,
                           const measure::InferenceExperiment& e,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           int64_t most_bytes) {
  const record::PhasePlan plan = planning::plan_phases(file, e, target, &ceilings);
  PhasePoints points{point_of(plan.records.prefill, plan.owned_bytes, ceilings),
                     point_of(plan.records.decode, plan.owned_bytes, ceilings)};
  if (most_bytes > 0 && plan.owned_bytes > most_bytes)
    for (record::BenchPoint* each : {&points.prefill, &points.decode}) {
      each->refused = fmt::format("needs {} of memory, {} are left", format_bytes(plan.owned_bytes),
                                  format_bytes(most_bytes));
      each->lacks_memory = true;
    }
  return points;
}

void time_technique(const models::ModelFile& file,
                    const measure::InferenceExperiment& e,
                    backends::Backend& backend,
                    const cost::Ceilings& ceilings,
                    PhasePoints& points) {
  const auto refuse = [&](const std::string& reason, bool lacks_memory) {
    for (record::BenchPoint* each : {&points.prefill, &points.decode}) {
      each->refused = reason;
      each->lacks_memory = lacks_memory;
    }
  };
  try {
    const std::optional<record::PhaseRecords> records =
        measure::measure_phases(file, e, backend, &ceilings);
    if (!records) return;
    points.prefill.time = records->prefill.wall();
    points.decode.time = records->decode.wall();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kOutOfMemory) throw;
    refuse(error.what(), true);
  } catch (const std::bad_alloc&) {
    refuse("out of memory", true);
  }
}

void add_speedups(std::vector<record::BenchPoint>& points, size_t first) {
  std::map<std::string, const record::BenchPoint*> bases;
  for (size_t i = first; i < points.size(); ++i) {
    record::BenchPoint& each = points[i];
    const auto [base, is_first] = bases.try_emplace(each.phase, &each);
    if (is_first) continue;
    const record::BenchPoint& of = *base->second;
    const bool both_measured = of.is_measured() && each.is_measured();
    const double over = both_measured ? of.time.median : of.predicted_ns,
                 under = both_measured ? each.time.median : each.predicted_ns;
    if (over > 0 && under > 0) each.speedup = over / under;
  }
}

std::vector<PublishedTime>& published_times() {
  static std::vector<PublishedTime> times;
  return times;
}

std::map<std::string, double> published_ns(std::string_view model,
                                           std::string_view technique,
                                           std::string_view phase,
                                           int64_t batch,
                                           int64_t length) {
  std::map<std::string, double> found;
  for (const PublishedTime& each : published_times())
    if (each.model == model && each.technique == technique && each.decodes == (phase == "decode") &&
        each.batch == batch && each.length == length)
      found[std::string(each.source)] = 1e6 * each.ms;
  return found;
}

}  // namespace ridge::bench
