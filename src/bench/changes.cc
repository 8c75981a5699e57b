// SPDX-License-Identifier: Apache-2.0
// Lists the changes.
#include "bench/changes.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::bench {
namespace {

using measure::TrainingExperiment;

constexpr int64_t kLeastSequence = 16;
constexpr const char* kCast = "autocast_bf16";
constexpr const char* kHalfCast = "autocast_f16";
constexpr const char* kTf32 = "tf32";

void select(TrainingExperiment& e, const std::string& level, const std::string& item) {
  std::string& switches = e.setting.switches;
  if (!item.empty()) switches += (switches.empty() ? "" : ",") + item;
  e.setting.level = level;
  e.selection = passes::Selection(level, switches);
  e.setting.dtype = e.selection.has(kCast)       ? "bf16"
                    : e.selection.has(kHalfCast) ? "fp16"
                    : e.selection.has(kTf32)     ? "tf32"
                                                 : "fp32";
}

class Changes {
 public:
  Changes(const TrainingExperiment& present, const passes::PassTarget& target)
      : present_(present), target_(target), on_gpu_(present.setting.device == "cuda") {}

  std::vector<Change> all(std::span<const int> threads) {
    add_levels();
    add_passes();
    add_recomputation();
    add_dtypes();
    add_batches();
    add_lengths();
    add_threads(threads);
    return std::move(changes_);
  }

 private:
  void add_levels() {
    for (const passes::Level& level : passes::levels()) {
      const std::string name(level.name);
      if (name == present_.setting.level) continue;
      changes_.push_back({.setting = "level",
                          .title = "train at level " + name,
                          .why = std::string(level.summary),
                          .option = "--level",
                          .value = name,
                          .make = [name](TrainingExperiment& e) { select(e, name, ""); }});
    }
  }

  void add_switch(const std::string& setting,
                  const std::string& title,
                  std::string_view why,
                  const std::string& item) {
    changes_.push_back(
        {.setting = setting,
         .title = title,
         .why = std::string(why),
         .option = "--pass",
         .value = item,
         .make = [item](TrainingExperiment& e) { select(e, e.setting.level, item); }});
  }

  void add_passes() {
    for (const passes::Pass* pass : passes::pipeline(target_.passes())) {
      const std::string name(pass->name);
      // Types are proposed by themselves; adapters are another training, of other parameters.
      if (name == kCast || name == kHalfCast || name == "lora" ||
          pass->serves == passes::Serves::kInference)
        continue;
      const bool is_on = present_.selection.has(name);
      if (is_on && passes::is_required(name)) continue;
      add_switch("pass " + name, fmt::format("turn {} {}", is_on ? "off" : "on", name),
                 is_on ? "" : pass->summary, (is_on ? "-" : "+") + name);
    }
  }

  // Quarters of the layers; the whole is the pass itself.
  void add_recomputation() {
    const int64_t layers = present_.config.layers;
    int64_t last = 0;
    for (int64_t quarter : {1, 2, 3}) {
      const int64_t first = layers * quarter / 4;
      if (first <= last || first >= layers) continue;
      last = first;
      if (present_.selection.has("recompute") &&
          present_.selection.number("recompute").value_or(layers) == first)
        continue;
      add_switch("pass recompute", fmt::format("recompute the first {} layers", first),
                 "keep only their inputs and recompute the rest for the gradient",
                 fmt::format("+recompute={}", first));
    }
  }

  void add_dtype(const char* dtype, std::string_view why, const std::string& item) {
    changes_.push_back(
        {.setting = "dtype",
         .title = fmt::format("train in {}", dtype),
         .why = std::string(why),
         .option = "--dtype",
         .value = dtype,
         .is_same_training = false,
         .is_untested_rate = true,
         .make = [item](TrainingExperiment& e) { select(e, e.setting.level, item); }});
  }

  void add_dtypes() {
    const std::string& now = present_.setting.dtype;
    const std::string off = now == "bf16"   ? std::string("-") + kCast
                            : now == "fp16" ? std::string("-") + kHalfCast
                            : now == "tf32" ? std::string("-") + kTf32
                                            : "";
    const std::string to = off.empty() ? "+" : off + ",+";
    if (now != "bf16")
      add_dtype("bf16", "run activations and GEMMs in bf16 with fp32 master weights", to + kCast);
    if (now != "tf32" && on_gpu_)
      add_dtype("tf32", "round the fp32 inputs of GEMMs to TF32", to + kTf32);
    if (now != "fp32") add_dtype("fp32", "", off);
  }

  void add_batches() {
    const int64_t now = present_.step.batch_size;
    for (const auto& [times, over] : {std::pair{2, 1}, {4, 1}, {8, 1}, {1, 2}, {1, 4}}) {
      if (now % over != 0) continue;
      const int64_t batch = now * times / over;
      changes_.push_back({.setting = "batch",
                          .title = fmt::format("train with batches of {}", batch),
                          .why = batch > now
                                     ? "weights and optimizer state are read once for more tokens"
                                     : "fewer activations, so more of them stay in the caches",
                          .option = "--batch-size",
                          .value = fmt::to_string(batch),
                          .is_same_training = false,
                          .make = [batch](TrainingExperiment& e) {
                            e.step.batch_size = e.setting.batch_size = batch;
                          }});
    }
  }

  void add_lengths() {
    const int64_t now = present_.step.sequence, context = present_.config.context;
    for (const int64_t length : {2 * now, now / 2}) {
      if (length < kLeastSequence || (context > 0 && length > std::max(context, now))) continue;
      changes_.push_back(
          {.setting = "length",
           .title = fmt::format("train on sequences of {} tokens", length),
           .why = length > now ? "fewer, longer sequences" : "attention costs less per token",
           .option = "--seq-len",
           .value = fmt::to_string(length),
           .is_same_training = false,
           .make = [length](TrainingExperiment& e) {
             e.step.sequence = e.setting.sequence = length;
           }});
    }
  }

  void add_threads(std::span<const int> threads) {
    for (const int each : threads) {
      if (each == present_.setting.threads || on_gpu_) continue;
      changes_.push_back({.setting = "threads",
                          .title = fmt::format("use {} thread{}", each, each == 1 ? "" : "s"),
                          .why = each < present_.setting.threads
                                     ? "kernels wait less for each other's threads"
                                     : "more cores compute",
                          .option = "--threads",
                          .value = fmt::to_string(each),
                          .is_untested_rate = true,
                          .make = [each](TrainingExperiment& e) { e.setting.threads = each; }});
    }
  }

  const TrainingExperiment& present_;
  const passes::PassTarget& target_;
  bool on_gpu_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> possible_changes(const TrainingExperiment& present,
                                     const passes::PassTarget& target,
                                     std::span<const int> threads) {
  return Changes(present, target).all(threads);
}

std::string options_text(std::span<const Change* const> changes) {
  std::string text, passes;
  for (const Change* each : changes) {
    if (each->option == "--pass")
      passes += (passes.empty() ? "" : ",") + each->value;
    else
      text += (text.empty() ? "" : " ") + each->option + " " + each->value;
  }
  if (!passes.empty()) text += (text.empty() ? "--pass=" : " --pass=") + passes;
  return text;
}

}  // namespace ridge::bench
