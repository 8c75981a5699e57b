// SPDX-License-Identifier: Apache-2.0
// Builds the step's graph for each variant and spreads its state over devices. Not a subcommand.
#include "apps/training_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "ops/registry.h"
#include "record/lab_record.h"

namespace ridge::apps {
namespace {

constexpr const char* kRecomputes[] = {"none", "attention", "block", "full"};

int64_t whole(double bytes) { return static_cast<int64_t>(std::min(bytes + 0.5, 9e18)); }

void add(DeviceMemory& memory, std::string name, int64_t bytes) {
  if (bytes > 0) memory.classes.emplace_back(std::move(name), bytes);
  memory.total = checked_sum(memory.total, bytes, "plan");
}

std::string class_name(plan::MemoryClass memory_class) { return std::string(name(memory_class)); }

// Bytes that this step takes per parameter, without activations.
cost::BytesPerParameter bytes_per_parameter(const record::RunRecord& record) {
  auto bytes = [&](plan::MemoryClass each) {
    return static_cast<double>(record.memory.class_peaks().bytes[static_cast<size_t>(each)]) /
           static_cast<double>(std::max<int64_t>(record.parameters, 1));
  };
  return {bytes(plan::MemoryClass::kParameters), bytes(plan::MemoryClass::kGradients),
          bytes(plan::MemoryClass::kOptimizerState)};
}

double phase_ns(const record::RunRecord& record, Phase phase) {
  double ns = 0;
  for (const record::NodeRecord& node : record.step.nodes)
    if (node.phase == name(phase)) ns += node.predicted_ns;
  return ns;
}

}  // namespace

std::string recompute_switch(const std::string& name) {
  if (name == "none") return "";
  if (name == "attention") return "+recompute_attention";
  if (name == "block") return "+recompute";
  if (name == "full") return "+recompute_nested";
  throw usage_error("[recompute] expected none, attention, block or full, got {}",
                    terminal_safe(name));
}

cost::Recompute TrainingPlanner::recompute() const {
  const auto found = std::find(std::begin(kRecomputes), std::end(kRecomputes), request_.recompute);
  return static_cast<cost::Recompute>(found - std::begin(kRecomputes));
}

cost::ActivationExtents TrainingPlanner::extents() const {
  const models::ModelConfig& c = request_.choice.model.config;
  auto real = [](int64_t n) { return static_cast<double>(n); };
  return {real(request_.choice.step.batch_size),
          real(request_.choice.step.sequence),
          real(c.hidden),
          real(c.heads),
          real(c.layers),
          real(c.vocabulary)};
}

TrainingPlanner::Variant TrainingPlanner::requested() const {
  return {request_.choice.step.batch_size, request_.choice.step.sequence, request_.recompute,
          false};
}

measure::TrainingExperiment TrainingPlanner::experiment(const Variant& variant,
                                                        const Place& place) const {
  std::string switches = request_.choice.switches;
  auto add_switch = [&](const std::string& more) {
    if (!more.empty()) switches += (switches.empty() ? "" : ",") + more;
  };
  add_switch(recompute_switch(variant.recompute));
  if (variant.bf16) add_switch("+autocast_bf16");
  measure::TrainingExperiment e =
      make_experiment(request_.choice.model, request_.machine,
                      passes::Selection(request_.choice.selection.level(), switches), switches);
  e.step = request_.choice.step;
  e.step.batch_size = variant.batch;
  e.step.sequence = variant.sequence;
  e.step.optimizer.clip_norm = request_.clip_norm;
  e.setting.device = place.target;
  return e;
}

record::RunRecord TrainingPlanner::record(const Variant& variant,
                                          const Place& place,
                                          const cost::Ceilings* ceilings) const {
  const measure::TrainingExperiment e = experiment(variant, place);
  const train::TrainingStep graphs =
      train::build_step(e.config, e.step, e.selection, ops::table(), *place.planned);
  return measure::planned_training(e, graphs, *place.planned, ceilings);
}

const record::RunRecord& TrainingPlanner::counted(const Variant& v, const Place& place) {
  // All data sheets have the same target.
  const std::tuple key{place.target, v.batch, v.sequence, v.recompute, v.bf16};
  const auto found = counted_.find(key);
  if (found != counted_.end()) return found->second;
  record::RunRecord made = record(v, place, nullptr);
  made.step = {};
  return counted_.emplace(key, std::move(made)).first->second;
}

bool TrainingPlanner::is_bf16(const Variant& variant) const {
  return variant.bf16 || request_.choice.selection.activations() == DType::kBF16;
}

cost::StateTypes TrainingPlanner::types(bool is_bf16) const {
  return state_types(request_.layout, is_bf16, request_.choice.step.micro_batches > 1);
}

cost::StateParameters TrainingPlanner::parameters(const record::RunRecord& record) const {
  constexpr double kMomentBytes = 8;
  auto layers = [&](int64_t count) {
    models::ModelConfig config = request_.choice.model.config;
    config.layers = count;
    return static_cast<double>(config.parameters());
  };
  const models::ModelConfig& config = request_.choice.model.config;
  cost::StateParameters p;
  p.trained =
      static_cast<double>(
          record.memory.store_bytes[static_cast<size_t>(plan::MemoryClass::kOptimizerState)]) /
      kMomentBytes;
  p.all = static_cast<double>(record.parameters);
  if (request_.choice.selection.has("lora")) p.all += p.trained;
  p.next_part = layers(1) - layers(0);
  p.largest_part = std::max(
      p.next_part, static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden));
  return p;
}

DeviceMemory TrainingPlanner::memory(const record::RunRecord& record,
                                     bool is_bf16,
                                     cost::Zero stage) const {
  DeviceMemory memory;
  const plan::MemoryMoment peaks = record.memory.class_peaks();
  auto peak = [&](plan::MemoryClass each) { return peaks.bytes[static_cast<size_t>(each)]; };
  if (is_plain(request_.layout)) {
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      add(memory, class_name(static_cast<plan::MemoryClass>(i)), peaks.bytes[i]);
    memory.total = record.memory.owned_bytes;  // classes have their peaks at different times
    return memory;
  }
  const cost::StateBytes state =
      cost::state_bytes(parameters(record), types(is_bf16), stage, request_.layout.devices);
  add(memory, "weights", whole(state.weights));
  add(memory, "master weights", whole(state.masters));
  add(memory, "gradients", whole(state.gradients));
  add(memory, "moments", whole(state.moments));
  for (plan::MemoryClass each :
       {plan::MemoryClass::kActivations, plan::MemoryClass::kWorkspace, plan::MemoryClass::kData})
    add(memory, class_name(each), peak(each));
  return memory;
}

std::pair<cost::Zero, DeviceMemory> TrainingPlanner::lowest(const record::RunRecord& record,
                                                            bool is_bf16,
                                                            const Place& place) const {
  std::pair<cost::Zero, DeviceMemory> last;
  for (cost::Zero stage : stages(request_.layout)) {
    last = {stage, memory(record, is_bf16, stage)};
    if (place.memory_bytes <= 0 || last.second.total <= place.memory_bytes) break;
  }
  return last;
}

int64_t TrainingPlanner::bytes(const Variant& variant, const Place& place) {
  return lowest(counted(variant, place), is_bf16(variant), place).second.total;
}

void TrainingPlanner::add_times(const Place& place, TrainingPlan& plan) const {
  const int64_t devices = request_.layout.devices;
  const int64_t micro_batches = request_.choice.step.micro_batches;
  plan.step_ns = plan.record.predicted_ns;
  if (devices > 1) {
    plan.sent_bytes =
        cost::sent_bytes(plan.parameters, plan.types, plan.zero, devices, micro_batches);
    plan.exchange_ns =
        1e9 * plan.sent_bytes / links(request_.layout, place).ring_bytes_per_s(devices);
    // Gradients of the last micro-batch are exchanged while it runs backward; weights of stage 3
    // during the whole step.
    const double backward = phase_ns(plan.record, Phase::kBackward),
                 forward = phase_ns(plan.record, Phase::kForward);
    const double overlap = plan.zero == cost::Zero::kWeights
                               ? forward + backward
                               : backward / static_cast<double>(micro_batches);
    plan.exposed_ns = std::max(0.0, plan.exchange_ns - overlap);
    plan.step_ns += plan.exposed_ns;
    // Each device updates its share.
    if (plan.zero != cost::Zero::kNone)
      plan.step_ns -=
          phase_ns(plan.record, Phase::kOptimizer) * (1 - 1.0 / static_cast<double>(devices));
  }
  auto days = [&](double mfu) {
    return cost::training_days(plan.flops_per_token(), request_.tokens,
                               static_cast<double>(devices), 1e9 * plan.peak.per_ns, mfu);
  };
  plan.days = days(plan.mfu());
  plan.assumed_days = days(request_.assumed_mfu);
  plan.spent = expense(request_.layout, place, plan.days);
}

void TrainingPlanner::add_limits(const Place& place, TrainingPlan& plan) {
  if (place.memory_bytes <= 0) return;
  const Variant asked = requested();
  {
    Progress progress("largest batch", 0, "batch sizes", terminal_);
    plan.largest_batch =
        cost::largest_fitting(place.memory_bytes, kLargestBatch, [&](int64_t batch) {
          progress.tick(1, fmt::format("{} sequences", batch));
          return bytes({batch, asked.sequence, asked.recompute, false}, place);
        });
  }
  const ModelChoice& model = request_.choice.model;
  const bool is_preset = std::any_of(models::presets().begin(), models::presets().end(),
                                     [&](const auto& p) { return p.config.name == model.name; });
  plan.most_context = is_preset ? kMostContext : model.config.context;
  Progress progress("longest context", 0, "lengths", terminal_);
  // A step has at least two tokens.
  auto length_bytes = [&](int64_t length) {
    progress.tick(1, fmt::format("{} tokens", length));
    return bytes({asked.batch, std::max<int64_t>(length, 2), asked.recompute, false}, place);
  };
  plan.longest_context = cost::largest_fitting(place.memory_bytes, plan.most_context, length_bytes);
  if (plan.longest_context < 2) plan.longest_context = 0;
}

void TrainingPlanner::add_changes(const Place& place, TrainingPlan& plan) {
  const Variant asked = requested();
  const int64_t capacity = place.memory_bytes;
  auto suggest = [&](const std::string& option, int64_t need) {
    plan.would_fit.push_back(fmt::format("{} ({})", option, format_bytes(need)));
  };
  if (request_.layout.devices > 1)
    for (int stage = static_cast<int>(plan.zero) + 1; stage < cost::kZeroStages; ++stage) {
      const int64_t need = memory(plan.record, plan.is_bf16, static_cast<cost::Zero>(stage)).total;
      if (need > capacity) continue;
      suggest(fmt::format("--zero {}", stage), need);
      break;
    }
  for (auto i = static_cast<size_t>(recompute()) + 1; i < std::size(kRecomputes); ++i) {
    const int64_t need = bytes({asked.batch, asked.sequence, kRecomputes[i], false}, place);
    if (need > capacity) continue;
    suggest(fmt::format("--recompute {}", kRecomputes[i]), need);
    break;
  }
  if (plan.largest_batch > 0)
    plan.would_fit.push_back(fmt::format("--batch-size {}", plan.largest_batch));
  if (plan.longest_context > 0)
    plan.would_fit.push_back(fmt::format("--seq-len {}", plan.longest_context));
  if (!plan.is_bf16) {
    const int64_t need = bytes({asked.batch, asked.sequence, asked.recompute, true}, place);
    if (need <= capacity) suggest("--dtype bf16", need);
  }
  if (const int64_t devices = more_devices(plan.record, place, plan.is_bf16); devices > 0)
    plan.would_fit.push_back(fmt::format("--devices {} --zero 3", devices));
  const std::vector<std::string> larger =
      larger_hardware(capacity, static_cast<double>(plan.memory.total));
  if (!larger.empty())
    plan.would_fit.push_back(
        fmt::format("--hardware {} ({})", larger.front(), format_bytes(plan.memory.total)));
  if (!plan.would_fit.empty()) return;
  // No single change is enough.
  const Variant least{1, asked.sequence, "full", false};
  const record::RunRecord& smallest = counted(least, place);
  if (const int64_t need = bytes(least, place); need <= capacity)
    suggest("--batch-size 1 --recompute full", need);
  else if (const int64_t devices = more_devices(smallest, place, plan.is_bf16); devices > 0)
    plan.would_fit.push_back(
        fmt::format("--batch-size 1 --recompute full --devices {} --zero 3", devices));
  else
    plan.would_fit.push_back(fmt::format(
        "nothing; with --batch-size 1 --recompute full it takes {}", format_bytes(need)));
}

int64_t TrainingPlanner::more_devices(const record::RunRecord& record,
                                      const Place& place,
                                      bool is_bf16) const {
  const plan::MemoryMoment peaks = record.memory.class_peaks();
  double others = 0;
  for (plan::MemoryClass each :
       {plan::MemoryClass::kActivations, plan::MemoryClass::kWorkspace, plan::MemoryClass::kData})
    others += static_cast<double>(peaks.bytes[static_cast<size_t>(each)]);
  const int64_t devices = cost::fewest_devices(place.memory_bytes, others, parameters(record),
                                               types(is_bf16), cost::Zero::kWeights);
  return devices > request_.layout.devices ? devices : 0;
}

TrainingPlan TrainingPlanner::plan(const Place& place) {
  TrainingPlan plan;
  plan.record = record(requested(), place, &place.ceilings);
  plan.dtype = record::product_dtype(plan.record.setting);
  plan.peak = place.ceilings.mfu_reference(plan.dtype);
  plan.is_bf16 = is_bf16(requested());
  plan.types = types(plan.is_bf16);
  plan.parameters = parameters(plan.record);
  std::tie(plan.zero, plan.memory) = lowest(plan.record, plan.is_bf16, place);
  plan.fits = place.memory_bytes <= 0 || plan.memory.total <= place.memory_bytes;
  add_times(place, plan);
  add_limits(place, plan);
  if (is_plain(request_.layout)) {
    plan.bytes_per_parameter = bytes_per_parameter(plan.record);
    plan.largest_model = cost::largest_model(place.memory_bytes, plan.bytes_per_parameter);
  } else {
    plan.bytes_per_parameter = {plan.types.weights + plan.types.masters, plan.types.gradients,
                                plan.types.moments};
    plan.largest_model = cost::largest_model(
        place.memory_bytes, plan.types, stages(request_.layout).back(), request_.layout.devices);
  }
  if (!plan.fits) add_changes(place, plan);
  return plan;
}

}  // namespace ridge::apps
