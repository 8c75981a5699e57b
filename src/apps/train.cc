// SPDX-License-Identifier: Apache-2.0
// ridge train: trains a preset or a configuration and prints a line a step.
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>
#include <numeric>

#include "apps/subcommand.h"
#include "backends/cpu/cpu_backend.h"
#include "base/units.h"
#include "train/trainer.h"

namespace ridge::apps {
namespace {

struct TrainOptions {
  std::string preset = "small";
  std::string level = "compiled";
  std::string passes;
  int64_t steps = 20;
  int64_t warmup = 5;
  int64_t batch_size = 0;
  int64_t sequence = 0;
  int threads = 0;
  std::string isa;
};

void run(const TrainOptions& o) {
  const models::Preset& preset = models::preset(o.preset);
  train::StepOptions step;
  step.batch_size = o.batch_size > 0 ? o.batch_size : preset.batch_size;
  step.sequence = o.sequence > 0 ? o.sequence : preset.sequence;
  auto backend = backends::cpu::make_cpu_backend({o.threads, o.isa, false});
  train::Trainer trainer(preset.config, step, passes::Selection(o.level, o.passes), *backend);
  for (int64_t i = 0; i < o.warmup; ++i) trainer.step();
  std::vector<double> losses, times;
  for (int64_t i = 0; i < o.steps; ++i) {
    train::StepResult result = trainer.step();
    losses.push_back(result.loss);
    times.push_back(result.elapsed_ns);
    fmt::print("step {:4}  loss {:.4f}  {:8.2f} samples/s  {}\n", i, result.loss,
               static_cast<double>(step.batch_size) * 1e9 / result.elapsed_ns, format_ns(result.elapsed_ns));
    std::fflush(stdout);
  }
  double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  fmt::print("mean loss {:.4f}\n", mean);
}

}  // namespace

void register_train(CLI::App& program, const AppContext&) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* app = program.add_subcommand("train", "Train a preset and print a line a step");
  app->add_option("--preset", options->preset, "tiny, small, medium or large")->capture_default_str();
  app->add_option("--level", options->level, "baseline, fused, kernels or compiled")->capture_default_str();
  app->add_option("--pass", options->passes, "switches such as +recompute,-fuse_glu");
  app->add_option("--steps", options->steps, "measured steps")->capture_default_str();
  app->add_option("--warmup", options->warmup, "training steps before step 0")->capture_default_str();
  app->add_option("--batch-size", options->batch_size, "sequences a step (default: the preset's)");
  app->add_option("--seq-len", options->sequence, "tokens a sequence (default: the preset's)");
  app->add_option("--threads", options->threads, "CPU threads (default: all)");
  app->add_option("--isa", options->isa, "highest instruction set: avx2, avx512 or amx");
  app->callback([options] { run(*options); });
}

}  // namespace ridge::apps
