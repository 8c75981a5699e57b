// SPDX-License-Identifier: Apache-2.0
// Compares the times that several tables show.
#include "record/inference_record.h"

#include <fmt/format.h>

#include "base/units.h"

namespace ridge::record {
namespace {

// The last level's run of a task at a batch size and length; null if there is none.
const RunRecord* last_run(const LabRecord& lab, const char* task, int64_t batch, int64_t length) {
  const RunRecord* found = nullptr;
  for (const RunRecord& run : lab.runs)
    if (run.setting.task == task && run.setting.batch_size == batch &&
        run.setting.sequence == length)
      found = &run;
  return found;
}

}  // namespace

bool are_inconsistent(double a_ns, double b_ns) {
  return a_ns > 0 && b_ns > 0 && (a_ns > kOtherSpeed * b_ns || b_ns > kOtherSpeed * a_ns);
}

void compare(const std::string& what, const ShownTime& a, const ShownTime& b, LabRecord& lab) {
  if (are_inconsistent(a.ns, b.ns))
    lab.warnings.push_back(
        fmt::format("{}: {} in {}, but {} in {}; is another program using the machine?", what,
                    format_ns(a.ns), a.where, format_ns(b.ns), b.where));
}

void check_trial_consistency(LabRecord& lab) {
  for (size_t i = 0; i < lab.trials.size(); ++i) {
    const TrialRecord& trial = lab.trials[i];
    check_consistency(trial.after, lab);
    // Changes that took turns together have one run before them.
    if (i > 0 && trial.before.plain_wall_ns == lab.trials[i - 1].before.plain_wall_ns) continue;
    check_consistency(trial.before, lab);
    for (const RunRecord& run : lab.runs)
      if (run.setting.str() == trial.before.setting.str())
        compare("a step of " + run.setting.str(), {run.wall().median, "the table of levels"},
                {trial.before.wall().median, "the trial of the advice"}, lab);
  }
}

void check_consistency(InferenceRecord& study) {
  constexpr std::string_view kPhases = "the table of prefill and decode";
  for (const CacheGainRecord& gain : study.gains)
    if (const RunRecord* run = last_run(study.lab, "decode", 1, gain.context))
      compare(fmt::format("a token at batch 1 and context {}", gain.context),
              {run->wall().median, kPhases}, {gain.with.median, "the table of the KV cache"},
              study.lab);
  for (const LatencyRecord& each : study.latencies) {
    compare(fmt::format("{} tokens after {} at batch {}", each.tokens, each.prompt, each.batch),
            {each.wall_ns, "wall time"}, {each.predicted_ns(), "the sum of TTFT and TPOT"},
            study.lab);
    if (const RunRecord* run = last_run(study.lab, "prefill", each.batch, each.prompt))
      compare(fmt::format("TTFT at batch {} and length {}", each.batch, each.prompt),
              {run->wall().median, kPhases}, {each.ttft_ns, "the table of latencies"}, study.lab);
  }
}

}  // namespace ridge::record
