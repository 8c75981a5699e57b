// SPDX-License-Identifier: Apache-2.0
// Builds calls of attention and compares their forms.
#include "bench/attention_choice.h"

#include <fmt/format.h>
#include <omp.h>

#include <array>
#include <bit>
#include <utility>

#include "backends/cpu/isa.h"
#include "backends/cuda/cuda_backend.h"
#include "base/error.h"
#include "base/printable.h"

namespace ridge::bench {
namespace {

constexpr std::array kForms = {"flash", "standard"};
constexpr double kMargin = 0.03;     // as of GEMMs
constexpr double kBudgetNs = 100e6;  // for the samples of one form

int64_t rounded(int64_t length) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
}

std::string attention_switch(const std::string& attention,
                             const AttentionCall& call,
                             const backends::MachineOptions& machine) {
  if (attention == "level") return "";
  if (attention == "flash") return "+flash_attention";
  if (attention == "standard") return "-flash_attention";
  if (attention != "auto")
    throw usage_error("[attention] expected level, flash, standard or auto, got {}",
                      printable(attention));
  const auto backend = backends::make_backend(machine, {"baseline", ""});
  return attention_choices(machine).prefers_flash(call, *backend) ? "+flash_attention"
                                                                  : "-flash_attention";
}

AttentionCall call_of(const models::ModelConfig& config, const passes::Selection& selection) {
  AttentionCall call{
      .heads = config.heads, .kv_heads = config.kv_heads, .head_size = config.head_size};
  if (selection.activations() == DType::kBF16) call.type = parse_trial_type("bf16");
  return call;
}

}  // namespace

std::string AttentionCall::key() const {
  return fmt::format("{} b{} h{} k{} e{} {}{} {}",
                     decodes       ? "decode"
                     : is_backward ? "forward+backward"
                                   : "forward",
                     batch, heads, kv_heads, head_size, decodes ? 'c' : 't', rounded(length),
                     type.name);
}

AttentionTrialGraph attention_graph(const AttentionCall& call,
                                    std::string_view implementation,
                                    int64_t page_tokens) {
  const OpShape& op = *find_op_shape(call.decodes ? "cached_attention" : "attention");
  record::Extents shape{{"b", call.batch},
                        {"h", call.heads},
                        {"k", call.kv_heads},
                        {call.decodes ? "c" : "t", call.length},
                        {"e", call.head_size}};
  if (call.decodes) shape.emplace_back("p", page_tokens);
  AttentionTrialGraph made;
  OpRequest& request = made.request;
  request.extents = points(op.letters, shape, {})[0];
  request.type = call.type;
  request.is_causal = call.is_causal || call.decodes;
  request.implementation = choose_implementations(op, call.type, std::string(implementation))[0];
  made.setting.selection = passes::Selection("baseline", request.implementation.switches);
  made.setting.is_backward = call.is_backward && !call.decodes;
  made.trial = op.build(request);
  return made;
}

void AttentionChoices::keep(const AttentionCall& call, double flash_ns, double standard_ns) {
  const std::array times{flash_ns, standard_ns};
  const size_t chosen = backends::first_of_fastest(times, kMargin);
  kept_.keep(call.key(), kForms[chosen], {times[chosen], flash_ns});
}

bool AttentionChoices::prefers_flash(const AttentionCall& call, backends::Backend& backend) {
  const backends::TunedChoice flash = kForms[0];
  if (const backends::TunedChoice* kept = kept_.find(call.key())) return *kept == flash;
  AttentionCall whole = call;
  whole.length = rounded(call.length);
  const int64_t left = backend.available_bytes();
  std::array<double, kForms.size()> ns{};
  for (size_t i = 0; i < kForms.size(); ++i) {
    const char* form = whole.decodes && i == 0 ? "paged" : kForms[i];
    AttentionTrialGraph made = attention_graph(whole, form, whole.length);
    made.setting.budget_ns = kBudgetNs;
    made.setting.memory_bytes = left > 0 ? left / 2 : 0;
    ns[i] = run_trial(made.trial, made.setting, backend, nullptr).time.median;
  }
  if (!(ns[0] > 0) || !(ns[1] > 0)) return true;
  keep(call, ns[0], ns[1]);
  return *kept_.find(call.key()) == flash;
}

AttentionChoices attention_choices(const backends::MachineOptions& machine) {
  return {backends::tuned_file(backends::kAttentionTuning),
          backends::is_gpu(machine)
              ? fmt::format("GPU {}", backends::cuda::gpu_architecture())
              : fmt::format("{}, {}, {} threads", backends::cpu::cpu_model(),
                            backends::cpu::isa_name(), omp_get_max_threads())};
}

void choose_attention(const train::TrainingOptions& o, train::TrainingChoice& choice) {
  AttentionCall call = call_of(choice.model.config, choice.selection);
  call.is_backward = true;
  call.batch = choice.step.batch_size;
  call.length = choice.step.sequence;
  choice.add_switch(attention_switch(o.level.attention, call, o.machine));
}

serve::InferenceOptions with_attention(serve::InferenceOptions o,
                                       const models::ModelConfig& config,
                                       const serve::SessionNeeds& needs) {
  AttentionCall call = call_of(config, o.selection(o.level.level));
  call.decodes = true;
  call.batch = needs.slots;
  call.length = serve::session_capacity(o, config, needs);
  o.level.switches =
      passes::with_switch(o.level.switches, attention_switch(o.level.attention, call, o.machine));
  return o;
}

}  // namespace ridge::bench
