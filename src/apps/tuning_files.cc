// SPDX-License-Identifier: Apache-2.0
// Finds the files of choices, and makes the choice of attention. Not a subcommand.
#include "apps/tuning_files.h"

#include <fmt/format.h>
#include <omp.h>

#include <array>
#include <filesystem>

#include "apps/environment.h"
#include "backends/cpu/isa.h"
#include "backends/cuda/cuda_backend.h"
#include "base/error.h"
#include "base/printable.h"

namespace ridge::apps {

std::span<const TuningFile> tuning_files() {
  static constexpr std::array kFiles = {TuningFile{"gemm-tuning.json", "GEMM, CPU"},
                                        TuningFile{"gemm-tuning-cuda.json", "GEMM, GPU"},
                                        TuningFile{kAttentionTuning, "attention"}};
  return kFiles;
}

std::string tuning_path(const char* name) {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? "" : (folder / name).string();
}

bench::AttentionChoices attention_choices(const MachineOptions& machine) {
  const std::string path = tuning_path(kAttentionTuning);
  std::error_code error;  // without the folder nothing is kept, and the next run measures again
  if (!path.empty())
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  return {path, chosen_device(machine) == "cuda"
                    ? fmt::format("GPU {}", backends::cuda::gpu_architecture())
                    : fmt::format("{}, {}, {} threads", backends::cpu::cpu_model(),
                                  backends::cpu::isa_name(), omp_get_max_threads())};
}

void add_attention_option(Command app, std::string& attention) {
  app.under("Level")
      .add_option(
          "--attention", attention,
          "level (as --level and --pass have it), flash, standard, or auto: the faster of both, measured on this machine "
          "once and kept (see ridge tune)")
      .show_default();
}

std::string attention_switch(const std::string& attention,
                             const bench::AttentionCall& call,
                             const MachineOptions& machine) {
  if (attention == "level") return "";
  if (attention == "flash") return "+flash_attention";
  if (attention == "standard") return "-flash_attention";
  if (attention != "auto")
    throw usage_error("[attention] expected level, flash, standard or auto, got {}",
                      printable(attention));
  const std::unique_ptr<backends::Backend> backend = make_backend(machine, {"baseline", ""});
  return attention_choices(machine).prefers_flash(call, *backend) ? "+flash_attention"
                                                                  : "-flash_attention";
}

void choose_attention(const TrainingOptions& o, TrainingChoice& choice) {
  const models::ModelConfig& config = choice.model.config;
  bench::AttentionCall call{false,
                            true,
                            choice.step.batch_size,
                            config.heads,
                            config.kv_heads,
                            config.head_size,
                            choice.step.sequence,
                            {}};
  if (choice.selection.activations() == DType::kBF16) call.type = bench::parse_trial_type("bf16");
  const std::string more = attention_switch(o.level.attention, call, o.machine);
  if (more.empty()) return;
  choice.switches += (choice.switches.empty() ? "" : ",") + more;
  choice.selection = passes::Selection(o.level.level, choice.switches);
}

InferenceOptions with_attention(InferenceOptions o,
                                const models::ModelConfig& config,
                                const SessionNeeds& needs) {
  bench::AttentionCall call{true,
                            false,
                            needs.slots,
                            config.heads,
                            config.kv_heads,
                            config.head_size,
                            session_capacity(o, config, needs),
                            {}};
  if (inference_selection(o, o.level.level).activations() == DType::kBF16)
    call.type = bench::parse_trial_type("bf16");
  const std::string more = attention_switch(o.level.attention, call, o.machine);
  if (!more.empty()) o.level.switches += (o.level.switches.empty() ? "" : ",") + more;
  return o;
}

}  // namespace ridge::apps
