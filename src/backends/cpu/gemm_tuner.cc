// SPDX-License-Identifier: Apache-2.0
// Measures the call forms of a product.
#include "backends/cpu/gemm_tuner.h"

#include <omp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/tuning_file.h"
#include "base/arena.h"
#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/shape.h"

namespace ridge::backends::cpu {
namespace {

// A form must be faster by more than this to displace one listed before it: medians of 5 runs
// differ by 1 to 2% by chance.
constexpr double kMargin = 0.03;
constexpr double kHopeless = 3;
constexpr int kRuns = 5;
constexpr double kEnoughNs = 3e6;  // short GEMMs are repeated until a run lasts this long

int64_t operand_bytes(const std::vector<int64_t>& batch,
                      const std::vector<int64_t>& strides,
                      int64_t last,
                      DType dtype) {
  for (size_t i = 0; i < batch.size(); ++i) last += (batch[i] - 1) * strides[i];
  return storage_bytes(dtype, last + 1);
}

// An operand of random data, because zeros multiply faster on some machines.
Arena random_operand(int64_t bytes, DType dtype) {
  Arena arena(round_up(bytes, kAlignmentBytes), "tuning operand");
  Random random(1);
  if (dtype == DType::kF32) {
    for (int64_t i = 0; i < bytes / 4; ++i)
      reinterpret_cast<float*>(arena.data())[i] = random.uniform() - 0.5f;
  } else {
    for (int64_t i = 0; i < bytes / 2; ++i)
      reinterpret_cast<uint16_t*>(arena.data())[i] = float_to_bf16(random.uniform() - 0.5f);
  }
  return arena;
}

// Gives up after one run on a form that is far slower than the best so far (0: none yet).
double median_ns(const GemmLaunch& launch, double best_ns) {
  launch();
  double begin = now_ns();
  launch();
  double first_ns = now_ns() - begin;
  if (best_ns > 0 && first_ns > kHopeless * best_ns) return first_ns;
  int repeats = std::max(1, static_cast<int>(kEnoughNs / std::max(first_ns, 1.0)));
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    begin = now_ns();
    for (int i = 0; i < repeats; ++i) launch();
    times.push_back((now_ns() - begin) / repeats);
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

bool may_take(GemmForm form, const GemmShape& g, bool native) {
  return takes(form, g) && (native || form != GemmForm::kTiles);
}

GemmForm measure(const GemmShape& g, bool native) {
  Arena a = random_operand(
      operand_bytes(g.batch, g.a_batch, (g.m - 1) * g.a_m + (g.k - 1) * g.a_k, g.input), g.input);
  Arena b = random_operand(
      operand_bytes(g.batch, g.b_batch, (g.k - 1) * g.b_k + (g.n - 1) * g.b_n, g.input), g.input);
  Arena c = random_operand(
      operand_bytes(g.batch, g.c_batch, (g.m - 1) * g.c_m + (g.n - 1) * g.c_n, g.output), g.output);
  GemmForm best = default_form(g, native);
  const int64_t planned = gemm_workspace_bytes(best, g);
  double best_ns = 0;
  for (GemmForm form : gemm_forms()) {
    if (!may_take(form, g, native) || gemm_workspace_bytes(form, g) > planned) continue;
    double ns = median_ns(bind_gemm(form, g, a.data(), b.data(), c.data(), {}), best_ns);
    if (best_ns == 0 || ns < best_ns * (1 - kMargin)) {
      best = form;
      best_ns = ns;
    }
  }
  return best;
}

}  // namespace

GemmTuner::GemmTuner(std::string path)
    : path_(std::move(path)),
      identity_(fmt::format("{}, {}, {} threads, {}",
                            cpu_model(),
                            isa_name(),
                            omp_get_max_threads(),
                            gemm_library())) {
  const nlohmann::json kept = read_tuning(path_, identity_);
  for (const auto& [key, form] : kept.items())
    if (form.is_string()) choices_[key] = form.get<std::string>();
}

GemmTuner::~GemmTuner() {
  if (changed_) write_tuning(path_, identity_, choices_);
}

GemmForm GemmTuner::choose(const GemmShape& shape, bool native) {
  std::string key = shape.key() + (native ? " own" : "");
  auto found = choices_.find(key);
  if (found != choices_.end())
    for (GemmForm form : gemm_forms())
      if (name(form) == found->second && may_take(form, shape, native)) return form;
  GemmForm form = measure(shape, native);
  choices_[key] = name(form);
  changed_ = true;
  return form;
}

}  // namespace ridge::backends::cpu
