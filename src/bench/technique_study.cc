// SPDX-License-Identifier: Apache-2.0
// The table of techniques, and a study that goes through types, lengths, batch sizes and
// techniques, the techniques of one size one after the other.
#include "bench/technique_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "bench/extents.h"
#include "models/cache_shape.h"
#include "models/known_shapes.h"
#include "planning/phase_plan.h"
#include "serve/session.h"
#include "serve/session_choice.h"

namespace ridge::bench {
namespace {

constexpr std::array kTechniques = {
    Technique{"eager", "one kernel a primitive, and the T x T scores in memory", "baseline",
              "-tune_gemm,+split_activations"},
    Technique{
        "compiled",
        "the same, with one kernel per cluster of pointwise operations, with the norm or softmax behind it",
        "baseline", "-tune_gemm,+fuse_rms_norm,+fuse_softmax,+generate_pointwise,+capture"},
    Technique{"flash", "compiled, with attention in tiles: no scores in memory", "baseline",
              "-tune_gemm,+fuse_rms_norm,+generate_pointwise,+capture,+flash_attention"},
    Technique{"memory-efficient", "compiled, with the scores of 256 queries in memory at a time",
              "baseline", "-tune_gemm,+fuse_rms_norm,+fuse_softmax,+generate_pointwise,+capture",
              256},
    Technique{"paged", "flash, with a KV cache in blocks of 16 positions", "baseline",
              "-tune_gemm,+fuse_rms_norm,+generate_pointwise,+capture,+flash_attention", 0, true},
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

// Whether the path has weights, not a configuration alone.
bool has_weights(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const auto is_file_of_weights = [](const std::filesystem::path& file) {
    return file.extension() == ".gguf" || file.extension() == ".safetensors";
  };
  if (!std::filesystem::is_directory(path, error)) return is_file_of_weights(path);
  for (const auto& each : std::filesystem::directory_iterator(path, error))
    if (is_file_of_weights(each.path())) return true;
  return false;
}

void refuse(const std::string& reason, bool lacks_memory, PhasePoints& points) {
  for (record::BenchPoint* each : {&points.prefill, &points.decode}) {
    each->refused = reason;
    each->lacks_memory = lacks_memory;
    if (lacks_memory) each->predicted_ns = each->limit_ns = 0;
  }
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
  e.chunk = technique.most_queries > 0 ? technique.most_queries : std::max(e.length, e.chunk);
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
    refuse(fmt::format("needs {} of memory, there are {}", format_bytes(plan.owned_bytes),
                       format_bytes(most_bytes)),
           true, points);
  return points;
}

void time_technique(const models::ModelFile& file,
                    const measure::InferenceExperiment& e,
                    backends::Backend& backend,
                    const cost::Ceilings& ceilings,
                    PhasePoints& points) {
  try {
    const std::optional<record::PhaseRecords> records =
        measure::measure_phases(file, e, backend, &ceilings);
    if (!records) return;
    points.prefill.time = records->prefill.wall();
    points.decode.time = records->decode.wall();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kOutOfMemory) throw;
    refuse(error.what(), true, points);
  } catch (const std::bad_alloc&) {
    refuse("out of memory", true, points);
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

models::ModelFile open_studied(const std::string& model) {
  return has_weights(model) ? models::ModelFile::open(model)
                            : models::ModelFile::of_shape(models::config_by_name(model));
}

int64_t StudyChoice::points() const {
  return std::ssize(techniques) * std::ssize(batches) * std::ssize(lengths) * std::ssize(dtypes);
}

std::string study_title(const models::ModelFile& file, const std::string& path) {
  return file.config().name.empty() ? std::filesystem::path(path).stem().string()
                                    : file.config().name;
}

void validate(const StudyChoice& o, const models::ModelFile& file) {
  if (o.points() > kMostPoints)
    throw usage_error("[study] expected at most {} points, got {}", kMostPoints, o.points());
  for (int64_t batch : o.batches)
    if (batch > serve::kMostSlots)
      throw usage_error("[batch-size] expected at most {} sequences, got {}", serve::kMostSlots,
                        batch);
  for (int64_t length : o.lengths)
    if (length > file.config().context)
      throw usage_error("[seq-len] expected at most {} positions, the model's context, got {}",
                        file.config().context, length);
  for (const std::string& each : o.dtypes) {
    if (each == kStoredType && !file.has_weights())
      throw usage_error("[dtype] expected some of fp32, bf16 for a configuration, got {}", each);
    if (each != "fp32" && each != "bf16" && each != kStoredType)
      throw usage_error("[dtype] expected some of fp32, bf16{}, got {}",
                        file.has_weights() ? ", file" : "", printable(each));
  }
}

TechniqueStudy::TechniqueStudy(const models::ModelFile& file,
                               const StudyChoice& choice,
                               TrialRunner& trials,
                               Describe describe)
    : file_(file),
      o_(choice),
      trials_(trials),
      describe_(std::move(describe)),
      left_ns_(choice.budget_ns) {
  record_.kind = "study";
  record_.name = "inference of " + o_.title;
  for (const std::string& each : o_.dtypes)
    record_.dtype += (record_.dtype.empty() ? "" : ",") + each;
}

record::BenchRecord TechniqueStudy::run(const PointListener& progress) {
  for (const std::string& dtype : o_.dtypes)
    for (int64_t length : o_.lengths)
      for (int64_t batch : o_.batches) {
        const size_t first = record_.points.size();
        for (const Technique& technique : o_.techniques) {
          if (trials_.is_stopped()) break;
          PhasePoints points = measure(technique, dtype, batch, length);
          if (trials_.is_stopped()) break;
          progress(2, fmt::format("{} {} x {}", technique.name, batch, length));
          add(std::move(points), technique, dtype);
        }
        add_speedups(record_.points, first);
      }
  add_notes();
  return std::move(record_);
}

passes::Selection TechniqueStudy::selection(const Technique& technique,
                                            const std::string& dtype) const {
  std::string switches(technique.switches);
  // A GPU holds 16-bit weights in any case, and fp32 ones with --exact.
  if (!o_.on_gpu && dtype != kStoredType)
    switches += dtype == "fp32" ? ",+store_f32" : ",+store_bf16";
  if (o_.ranks > 1) switches += fmt::format(",+shard_tensor_parallel={}", o_.ranks);
  return serve::inference_selection({o_.on_gpu, dtype == "fp32", false},
                                    std::string(technique.level), switches);
}

PhasePoints TechniqueStudy::measure(const Technique& technique,
                                    const std::string& dtype,
                                    int64_t batch,
                                    int64_t length) {
  measure::InferenceExperiment e;
  e.selection = selection(technique, dtype);
  e.setting = describe_(e.selection, std::string(technique.switches));
  e.batch = batch;
  e.length = length;
  e.chunk = serve::usual_chunk(o_.on_gpu);
  e.rank = o_.rank;
  e.is_stopped = [this] { return trials_.is_stopped(); };
  e = with_technique(std::move(e), technique);
  const bool runs = trials_.runs();
  // An eighth of the free memory here stays for other programs; another machine has its sheet's.
  const int64_t free = runs ? trials_.backend(e.selection).available_bytes() : 0,
                most = runs ? free - free / 8 : trials_.ceilings().machine.memory_bytes;
  PhasePoints points =
      plan_technique(file_, e, trials_.target(e.selection), trials_.ceilings(), most);
  const bool is_refused = !points.prefill.refused.empty();
  if (runs && o_.any(is_refused) && !is_refused)
    refuse("needs more memory than another rank has", true, points);
  else if (runs && !is_refused)
    time(e, points);
  return points;
}

// Points that would take more than the budget has left keep their prediction.
void TechniqueStudy::time(measure::InferenceExperiment& e, PhasePoints& points) {
  // Weights are read and unpacked; random ones of a shape are copied.
  const double load_bytes_per_ns =
      file_.has_weights() ? 1 : trials_.ceilings().memory_bytes_per_ns() / 4;
  constexpr int64_t kLeast = 3;
  constexpr double kMostShare = 0.5;  // the part of the budget for one point
  const double once = points.prefill.predicted_ns + points.decode.predicted_ns;
  const double needed =
      (kLeast + 2) * once + static_cast<double>(points.prefill.owned_bytes) / load_bytes_per_ns;
  if (o_.any(needed > kMostShare * left_ns_)) {
    refuse(fmt::format("would take about {}, and {} of the budget are left", format_ns(needed),
                       format_ns(left_ns_)),
           false, points);
    return;
  }
  e.repeats = {kLeast, 40, std::clamp(left_ns_ / static_cast<double>(4 * points_left()), 1e6, 5e8),
               o_.any};
  const double begin = now_ns();
  time_technique(file_, e, trials_.backend(e.selection), trials_.ceilings(), points);
  left_ns_ = std::max(0.0, left_ns_ - (now_ns() - begin));
}

int64_t TechniqueStudy::points_left() const {
  return std::max<int64_t>(o_.points() - std::ssize(record_.points) / 2, 1);
}

void TechniqueStudy::add(PhasePoints points, const Technique& technique, const std::string& dtype) {
  for (record::BenchPoint* each : {&points.prefill, &points.decode}) {
    each->name = o_.title;
    each->form = technique.name;
    each->dtype = dtype;
    if (o_.ranks == 1)
      each->published_ns = published_ns(o_.title, technique.name, each->phase,
                                        each->extents[0].second, each->extents[1].second);
    record_.points.push_back(std::move(*each));
  }
}

void TechniqueStudy::add_notes() {
  record_.notes.push_back(
      "prefill: all prompts of the batch; decode: one token for each sequence. Speed-ups are over the first technique, "
      "both measured or both predicted. Points that did not run are predicted.");
  if (o_.ranks > 1)
    record_.notes.push_back(fmt::format(
        "{} ranks share the model (tensor parallel). FLOPs and bytes are of one of them.",
        o_.ranks));
  for (const Technique& each : o_.techniques)
    record_.notes.push_back(fmt::format("{}: {}.", each.name, each.summary));
  if (std::ranges::any_of(o_.techniques, &Technique::pages)) add_paging();
  if (std::any_of(record_.points.begin(), record_.points.end(),
                  [](const record::BenchPoint& each) { return !each.published_ns.empty(); }))
    record_.notes.push_back(
        "Published times are of other machines: they show how much a technique gains there. docs/workbench.md has their "
        "sources.");
}

// Compares the KV cache in pages with one where each sequence reserves the model's context.
void TechniqueStudy::add_paging() {
  const models::ModelConfig& config = file_.config();
  auto bytes = [&](int64_t batch, int64_t positions) {
    models::CacheNeeds needs;
    needs.slots = batch;
    needs.capacity = positions;
    needs.chunk = positions;
    needs.window = config.window;
    needs.dtype = o_.on_gpu ? DType::kBF16 : DType::kF32;
    needs.pages = true;
    needs.ranks = o_.ranks;
    return models::cache_bytes(config, models::cache_shape(needs));
  };
  for (const int64_t length : o_.lengths)
    for (const int64_t batch : o_.batches) {
      const int64_t paged = bytes(batch, length), reserved = bytes(batch, config.context);
      record_.notes.push_back(fmt::format(
          "KV cache of {} of {} keys in {}: {} in blocks of {} positions; {} where each reserves the model's context of {}, "
          "{:.2f} times as much.",
          counted(batch, "sequence"), format_integer(length), o_.on_gpu ? "bf16" : "fp32",
          format_bytes(paged), models::kBlockTokens, format_bytes(reserved),
          format_integer(config.context), record::ratio(reserved, paged)));
    }
}

std::string lacking_memory(const record::BenchRecord& study) {
  const bool has_run = std::any_of(study.points.begin(), study.points.end(),
                                   [](const auto& each) { return each.refused.empty(); });
  return !has_run && !study.points.empty() && study.points[0].lacks_memory ? study.points[0].refused
                                                                           : "";
}

}  // namespace ridge::bench
