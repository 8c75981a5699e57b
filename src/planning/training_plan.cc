// SPDX-License-Identifier: Apache-2.0
// Builds the step's graph for each variant and spreads its state over devices.
#include "planning/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "planning/layout.h"
#include "planning/step_plan.h"
#include "record/lab_record.h"

namespace ridge::planning {
namespace {

constexpr const char* kRecomputes[] = {"none", "attention", "block", "full"};

cost::Recompute recompute_of(const std::string& name) {
  const auto found = std::find(std::begin(kRecomputes), std::end(kRecomputes), name);
  return static_cast<cost::Recompute>(found - std::begin(kRecomputes));
}

int64_t peak(const record::RunRecord& record, plan::MemoryClass each) {
  return record.memory.class_peaks().bytes[static_cast<size_t>(each)];
}

// The memory that no device shares with others, by class.
constexpr plan::MemoryClass kOwn[] = {plan::MemoryClass::kActivations,
                                      plan::MemoryClass::kWorkspace, plan::MemoryClass::kData};

double phase_ns(const record::RunRecord& record, Phase phase) {
  double ns = 0;
  for (const record::NodeRecord& node : record.step.nodes)
    if (node.phase == name(phase)) ns += node.predicted_ns;
  return ns;
}

// A step that differs from the requested one.
struct Variant {
  int64_t batch = 0, sequence = 0;
  std::string recompute;
  bool adds_bf16 = false;
};

// The steps of a request, each planned once for a target.
class StepPlans {
 public:
  explicit StepPlans(const TrainingPlanRequest& request) : request_(request) {}

  Variant requested() const {
    return {request_.setup.step.batch_size, request_.setup.step.sequence, request_.recompute};
  }
  record::RunRecord record(const Variant& variant,
                           const TargetHardware& hardware,
                           const cost::Ceilings* ceilings) const {
    train::TrainingSetup setup = request_.setup;
    std::string& switches = setup.setting.switches;
    auto add_switch = [&](const std::string& more) {
      if (!more.empty()) switches += (switches.empty() ? "" : ",") + more;
    };
    add_switch(recompute_switch(variant.recompute));
    if (variant.adds_bf16) add_switch("+autocast_bf16");
    setup.selection = passes::Selection(setup.selection.level(), switches);
    setup.setting.dtype = setup.selection.gemm_dtype();
    hardware.name_in(setup.setting);
    setup.step.batch_size = variant.batch;
    setup.step.sequence = variant.sequence;
    return plan_step(setup, hardware.target_of(setup.selection), ceilings);
  }
  // The record without times, remembered.
  const record::RunRecord& counted(const Variant& v, const TargetHardware& hardware) {
    // All data sheets have the same target.
    const std::tuple key{hardware.target, v.batch, v.sequence, v.recompute, v.adds_bf16};
    const auto found = counted_.find(key);
    if (found != counted_.end()) return found->second;
    record::RunRecord made = record(v, hardware, nullptr);
    made.step = {};
    return counted_.emplace(key, std::move(made)).first->second;
  }

  bool is_bf16(const Variant& variant) const {
    return variant.adds_bf16 || request_.setup.selection.activations() == DType::kBF16;
  }
  cost::StateTypes types(bool is_bf16) const {
    return state_types(request_.layout, is_bf16, request_.setup.step.micro_batches > 1);
  }
  cost::StateParameters parameters(const record::RunRecord& record) const {
    constexpr double kMomentBytes = 8;
    const models::ModelConfig& config = request_.setup.config;
    auto layers = [&](int64_t count) {
      models::ModelConfig cut = config;
      cut.layers = count;
      return static_cast<double>(cut.parameters());
    };
    cost::StateParameters p;
    p.trained =
        static_cast<double>(
            record.memory.store_bytes[static_cast<size_t>(plan::MemoryClass::kOptimizerState)]) /
        kMomentBytes;
    p.all = static_cast<double>(record.parameters);
    if (request_.setup.selection.has("lora")) p.all += p.trained;
    p.next_part = layers(1) - layers(0);
    p.largest_part = std::max(
        p.next_part, static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden));
    return p;
  }
  record::DeviceMemory memory(const record::RunRecord& record,
                              bool is_bf16,
                              cost::Zero stage) const {
    record::DeviceMemory memory;
    auto add = [&](std::string_view name, int64_t bytes) {
      if (bytes > 0) memory.classes.emplace_back(name, bytes);
      memory.total = checked_sum(memory.total, bytes, "plan");
    };
    if (request_.layout.is_plain()) {
      const plan::MemoryMoment peaks = record.memory.class_peaks();
      for (int i = 0; i < plan::kMemoryClasses; ++i)
        add(name(static_cast<plan::MemoryClass>(i)), peaks.bytes[i]);
      memory.total = record.memory.owned_bytes;  // classes have their peaks at different times
      return memory;
    }
    const cost::StateBytes state =
        cost::state_bytes(parameters(record), types(is_bf16), stage, request_.layout.devices);
    add("weights", cost::whole_bytes(state.weights));
    add("master weights", cost::whole_bytes(state.masters));
    add("gradients", cost::whole_bytes(state.gradients));
    add("moments", cost::whole_bytes(state.moments));
    for (plan::MemoryClass each : kOwn) add(name(each), peak(record, each));
    return memory;
  }
  // The lowest stage of ZeRO in which a device holds the step, or the last one, and its memory.
  std::pair<cost::Zero, record::DeviceMemory> lowest(const record::RunRecord& record,
                                                     bool is_bf16,
                                                     const TargetHardware& hardware) const {
    std::pair<cost::Zero, record::DeviceMemory> last;
    for (cost::Zero stage : stages(request_.layout)) {
      last = {stage, memory(record, is_bf16, stage)};
      if (hardware.holds(static_cast<double>(last.second.total))) break;
    }
    return last;
  }
  // The bytes that a device needs for the variant.
  int64_t bytes(const Variant& variant, const TargetHardware& hardware) {
    return lowest(counted(variant, hardware), is_bf16(variant), hardware).second.total;
  }
  // The fewest devices that hold the step with ZeRO 3, more than the requested ones; 0: none.
  int64_t more_devices(const record::RunRecord& record,
                       const TargetHardware& hardware,
                       bool is_bf16) const {
    double others = 0;
    for (plan::MemoryClass each : kOwn) others += static_cast<double>(peak(record, each));
    const int64_t devices = cost::fewest_devices(hardware.memory_bytes, others, parameters(record),
                                                 types(is_bf16), cost::Zero::kWeights);
    return devices > request_.layout.devices ? devices : 0;
  }

 private:
  const TrainingPlanRequest& request_;
  std::map<std::tuple<std::string, int64_t, int64_t, std::string, bool>, record::RunRecord>
      counted_;
};

// The time of a step on all devices, and the days of the token budget.
void add_times(const TrainingPlanRequest& request, record::TrainingPlan& plan) {
  const int64_t devices = plan.layout.devices;
  const int64_t micro_batches = request.setup.step.micro_batches;
  plan.step_ns = plan.record.predicted_ns;
  if (devices > 1) {
    plan.sent_bytes =
        cost::sent_bytes(plan.parameters, plan.types, plan.zero, devices, micro_batches);
    plan.exchange_ns = 1e9 * plan.sent_bytes / plan.links().ring_bytes_per_s(devices);
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
    return cost::training_days(plan.flops_per_token(), plan.tokens, static_cast<double>(devices),
                               1e9 * plan.peak.per_ns, mfu);
  };
  plan.days = days(plan.mfu());
  plan.assumed_days = days(plan.assumed_mfu);
  plan.spent = expense(plan.layout, plan.hardware, plan.days);
}

// The largest batch and the longest context that fit.
void add_limits(const TargetHardware& hardware,
                const models::ModelConfig& config,
                const SearchListener& listener,
                StepPlans& steps,
                record::TrainingPlan& plan) {
  if (hardware.memory_bytes <= 0) return;
  const Variant asked = steps.requested();
  plan.largest_batch =
      cost::largest_fitting(hardware.memory_bytes, record::kMostPlannedBatch, [&](int64_t batch) {
        listener("largest batch", "batch sizes", fmt::format("{} sequences", batch));
        return steps.bytes({batch, asked.sequence, asked.recompute}, hardware);
      });
  const bool is_preset = std::any_of(
      models::presets().begin(), models::presets().end(),
      [&](const auto& preset) { return preset.config.name == plan.record.setting.model; });
  plan.most_context = is_preset ? record::kMostPlannedContext : config.context;
  // A step has at least two tokens.
  plan.longest_context =
      cost::largest_fitting(hardware.memory_bytes, plan.most_context, [&](int64_t length) {
        listener("longest context", "lengths", fmt::format("{} tokens", length));
        return steps.bytes({asked.batch, std::max<int64_t>(length, 2), asked.recompute}, hardware);
      });
  if (plan.longest_context < 2) plan.longest_context = 0;
}

// The changes of options that each make the step fit, or the smallest step if none does.
void add_changes(const TargetHardware& hardware, StepPlans& steps, record::TrainingPlan& plan) {
  const Variant asked = steps.requested();
  const bool is_bf16 = steps.is_bf16(asked);
  // Whether so many bytes fit, for an option that is then suggested.
  auto suggest = [&](const std::string& option, int64_t need) {
    if (need > hardware.memory_bytes) return false;
    plan.would_fit.push_back(fmt::format("{} ({})", option, format_bytes(need)));
    return true;
  };
  if (plan.layout.devices > 1)
    for (int stage = static_cast<int>(plan.zero) + 1; stage < cost::kZeroStages; ++stage)
      if (suggest(fmt::format("--zero {}", stage),
                  steps.memory(plan.record, is_bf16, static_cast<cost::Zero>(stage)).total))
        break;
  for (auto i = static_cast<size_t>(recompute_of(asked.recompute)) + 1; i < std::size(kRecomputes);
       ++i)
    if (suggest(fmt::format("--recompute {}", kRecomputes[i]),
                steps.bytes({asked.batch, asked.sequence, kRecomputes[i]}, hardware)))
      break;
  if (plan.largest_batch > 0)
    plan.would_fit.push_back(fmt::format("--batch-size {}", plan.largest_batch));
  if (plan.longest_context > 0)
    plan.would_fit.push_back(fmt::format("--seq-len {}", plan.longest_context));
  if (!is_bf16)
    suggest("--dtype bf16",
            steps.bytes({asked.batch, asked.sequence, asked.recompute, true}, hardware));
  if (const int64_t devices = steps.more_devices(plan.record, hardware, is_bf16); devices > 0)
    plan.would_fit.push_back(fmt::format("--devices {} --zero 3", devices));
  const std::vector<std::string> larger =
      larger_hardware(hardware.memory_bytes, static_cast<double>(plan.memory.total));
  if (!larger.empty())
    plan.would_fit.push_back(
        fmt::format("--hardware {} ({})", larger.front(), format_bytes(plan.memory.total)));
  if (!plan.would_fit.empty()) return;
  // No single change is enough.
  const std::string smallest = "--batch-size 1 --recompute full";
  const Variant least{1, asked.sequence, "full"};
  const int64_t need = steps.bytes(least, hardware);
  if (suggest(smallest, need)) return;
  const int64_t devices = steps.more_devices(steps.counted(least, hardware), hardware, is_bf16);
  plan.would_fit.push_back(
      devices > 0 ? fmt::format("{} --devices {} --zero 3", smallest, devices)
                  : fmt::format("nothing; with {} it takes {}", smallest, format_bytes(need)));
}

// The bytes of a parameter in the step's graph, and the largest model that fits by them.
void add_largest_model(record::TrainingPlan& plan) {
  const int64_t memory = plan.hardware.memory_bytes;
  if (!plan.layout.is_plain()) {
    plan.bytes_per_parameter = {plan.types.weights + plan.types.masters, plan.types.gradients,
                                plan.types.moments};
    plan.largest_model =
        cost::largest_model(memory, plan.types, plan.last_zero, plan.layout.devices);
    return;
  }
  auto bytes = [&](plan::MemoryClass each) {
    return static_cast<double>(peak(plan.record, each)) /
           static_cast<double>(std::max<int64_t>(plan.record.parameters, 1));
  };
  plan.bytes_per_parameter = {bytes(plan::MemoryClass::kParameters),
                              bytes(plan::MemoryClass::kGradients),
                              bytes(plan::MemoryClass::kOptimizerState)};
  plan.largest_model = cost::largest_model(memory, plan.bytes_per_parameter);
}

void add_activation_models(const TrainingPlanRequest& request, record::TrainingPlan& plan) {
  const models::ModelConfig& c = request.setup.config;
  auto real = [](int64_t n) { return static_cast<double>(n); };
  const cost::ActivationExtents extents{real(request.setup.step.batch_size),
                                        real(request.setup.step.sequence),
                                        real(c.hidden),
                                        real(c.heads),
                                        real(c.layers),
                                        real(c.vocabulary)};
  plan.korthikanti_bytes = cost::korthikanti_bytes(extents, recompute_of(request.recompute));
  plan.nano_gpt = cost::nano_gpt_memory(extents);
}

record::TrainingPlan plan_one(const TrainingPlanRequest& request,
                              const TargetHardware& hardware,
                              const SearchListener& listener,
                              StepPlans& steps) {
  const bool is_bf16 = steps.is_bf16(steps.requested());
  record::TrainingPlan plan;
  plan.hardware = hardware;
  plan.layout = request.layout;
  plan.tokens = request.tokens;
  plan.assumed_mfu = request.assumed_mfu;
  plan.recompute = request.recompute;
  plan.recomputes_nothing =
      request.recompute == "attention" && request.setup.selection.has("flash_attention");
  plan.clip_norm = request.setup.step.optimizer.clip_norm;
  plan.record = steps.record(steps.requested(), hardware, &hardware.ceilings);
  plan.peak = hardware.ceilings.mfu_reference(record::product_dtype(plan.record.setting));
  plan.types = steps.types(is_bf16);
  plan.parameters = steps.parameters(plan.record);
  plan.last_zero = stages(request.layout).back();
  std::tie(plan.zero, plan.memory) = steps.lowest(plan.record, is_bf16, hardware);
  plan.fits = hardware.holds(static_cast<double>(plan.memory.total));
  add_times(request, plan);
  add_limits(hardware, request.setup.config, listener, steps, plan);
  add_largest_model(plan);
  add_activation_models(request, plan);
  if (!plan.fits) add_changes(hardware, steps, plan);
  return plan;
}

}  // namespace

std::string recompute_switch(const std::string& name) {
  if (name == "none") return "";
  if (name == "attention") return "+recompute_attention";
  if (name == "block") return "+recompute";
  if (name == "full") return "+recompute_nested";
  throw usage_error("[recompute] expected none, attention, block or full, got {}", printable(name));
}

std::vector<record::TrainingPlan> plan_training(const TrainingPlanRequest& request,
                                                const std::vector<TargetHardware>& all,
                                                const SearchListener& listener) {
  StepPlans steps(request);
  std::vector<record::TrainingPlan> plans;
  for (const TargetHardware& hardware : all)
    plans.push_back(plan_one(request, hardware, listener, steps));
  return plans;
}

}  // namespace ridge::planning
