// SPDX-License-Identifier: Apache-2.0
// Measures the call forms of a product.
#include "backends/cpu/gemm_tuner.h"

#include <omp.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/random_block.h"
#include "backends/tuning_file.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/samples.h"
#include "base/shape.h"
#include "base/timed_work.h"

namespace ridge::backends::cpu {
namespace {

// A form must be faster by more than this to displace one listed before it: medians of 5 runs
// differ by 1 to 2% by chance.
constexpr double kMargin = 0.03;
constexpr double kHopeless = 3;
constexpr int kRuns = 5;
constexpr double kEnoughNs = 3e6;  // short GEMMs are repeated until a run lasts this long

int64_t operand_bytes(const std::vector<int64_t>& batch, const GemmMatrix& m, DType dtype) {
  int64_t last = (m.rows - 1) * m.row_step + (m.columns - 1) * m.column_step;
  for (size_t i = 0; i < batch.size(); ++i) last += (batch[i] - 1) * m.batch_steps[i];
  return storage_bytes(dtype, last + 1);
}

// An operand of random data, because zeros multiply faster on some machines.
Arena random_operand(int64_t bytes, DType dtype) {
  Arena arena(round_up(bytes, kAlignmentBytes), "tuning operand");
  std::ranges::copy(random_block(dtype, bytes, 1), arena.data());
  return arena;
}

// A form that is measured: how often a run repeats it, and its times of a call.
struct Trial {
  GemmForm form;
  GemmLaunch launch;
  int repeats = 1;
  std::vector<double> times = {};

  double run() const {
    const double ns = timed_ns([this] {
      for (int i = 0; i < repeats; ++i) launch();
    });
    return ns / repeats;
  }
};

bool may_take(GemmForm form, const GemmShape& g, bool native) {
  return takes(form, g) && (native || form != GemmForm::kTiles);
}

// The default first, then the others as they are listed.
std::vector<GemmForm> candidates(const GemmShape& g, bool native) {
  const GemmForm usual = default_form(g, native);
  const int64_t planned = gemm_workspace_bytes(usual, g);
  std::vector<GemmForm> forms{usual};
  for (GemmForm form : gemm_forms())
    if (form != usual && may_take(form, g, native) && gemm_workspace_bytes(form, g) <= planned)
      forms.push_back(form);
  return forms;
}

struct Choice {
  GemmForm form;
  TunedTimes times;
};

Choice measure(const GemmShape& g, bool native) {
  const std::vector<GemmForm> forms = candidates(g, native);
  // Nothing to choose from: the time is for the list alone, and is not worth a measurement.
  if (forms.size() == 1) return {forms[0], {}};
  Arena a = random_operand(operand_bytes(g.batch, g.a(), g.input), g.input),
        b = random_operand(operand_bytes(g.batch, g.b(), g.input), g.input),
        c = random_operand(operand_bytes(g.batch, g.c(), g.output), g.output);
  std::vector<Trial> trials;
  double shortest_ns = 0;
  for (GemmForm form : forms) {
    Trial trial{form, bind_gemm(form, g, {a.data(), b.data(), c.data()})};
    trial.run();
    const double first_ns = std::max(trial.run(), 1.0);
    if (shortest_ns == 0 || first_ns < shortest_ns) shortest_ns = first_ns;
    trial.repeats = std::max(1, static_cast<int>(kEnoughNs / first_ns));
    trial.times.push_back(first_ns);
    trials.push_back(std::move(trial));
  }
  // A form that is far slower than the best has its first time alone.
  for (Trial& each : trials)
    if (each.times[0] <= kHopeless * shortest_ns) each.times.clear();
  for (int run = 0; run < kRuns; ++run)
    for (Trial& each : trials)
      if (each.times.size() == static_cast<size_t>(run)) each.times.push_back(each.run());
  std::vector<double> medians;
  for (const Trial& each : trials) medians.push_back(median(each.times));
  const size_t chosen = first_of_fastest(medians, kMargin);
  return {trials[chosen].form, {medians[chosen], medians[0]}};
}

}  // namespace

GemmTuner::GemmTuner(std::string path)
    : kept_(std::move(path),
            fmt::format("{}, {}, {} threads, {}",
                        cpu_model(),
                        isa_name(),
                        omp_get_max_threads(),
                        gemm_library())) {}

GemmForm GemmTuner::choose(const GemmShape& shape, bool native) {
  const std::string key = shape.key() + (native ? " own" : "");
  const auto usable = [&](const TunedChoice& kept) -> std::optional<GemmForm> {
    for (GemmForm form : gemm_forms())
      if (kept == TunedChoice(std::string(name(form))) && may_take(form, shape, native))
        return form;
    return std::nullopt;
  };
  if (const TunedChoice* kept = kept_.find(key))
    if (const std::optional<GemmForm> form = usable(*kept)) return *form;
  const Choice own = measure(shape, native);
  return usable(kept_.keep(key, std::string(name(own.form)), own.times)).value_or(own.form);
}

}  // namespace ridge::backends::cpu
