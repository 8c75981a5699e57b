// SPDX-License-Identifier: Apache-2.0
// The figures of a training on its way, for its lines, its log and its summary. The record of the
// whole run is a RunRecord.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "record/figures.h"

namespace ridge::record {

// One step that has been made.
struct StepMetrics {
  int64_t step = 0;  // its index
  bool instrumented = false;
  double loss = 0;
  double learning_rate = 0;
  double step_ns = 0;
  double samples_per_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
  double mfu = 0;  // 0: unknown
  int64_t resident_bytes = 0;
  double gradient_norm = -1;  // before clipping; -1: unknown
  double attended = 1;        // the share of the keys of whole rows that queries attended to
  bool skipped = false;       // whether the update was left out
  bool overflowed = false;    // whether it was because the gradients overflowed fp16
  double loss_scale = 0;      // the next step's; 0 without loss scaling
  int64_t overflows = 0;      // steps of this run that overflowed so far
};

struct ValidationMetrics {
  int64_t step = 0;  // steps done
  double loss = 0;
  double perplexity() const { return std::exp(loss); }
};

// A text that a model in training generates.
struct TrainingSample {
  int64_t step = 0;  // steps done
  std::string prompt;
  std::string text;  // after the prompt
  std::vector<int32_t> ids;
  std::string finish_reason;  // as of serve::Generation
  std::string fault;          // why there is no sample; empty if there is one
};

template <class See>
void figures(const See& see, const StepMetrics& r) {
  see("step", r.step);
  see("loss", r.loss), see("learning_rate", r.learning_rate), see("step_ns", r.step_ns),
      see("samples_per_s", r.samples_per_s), see("tokens_per_s", r.tokens_per_s),
      see("model_flops_per_s", r.model_flops_per_s);
  see({"mfu", "share"}, r.mfu, Unknown::kNull);
  see("resident_bytes", r.resident_bytes), see("instrumented", r.instrumented);
  // Those that only some trainings have.
  if (r.gradient_norm >= 0) see({"gradient_norm", "", "before clipping"}, r.gradient_norm);
  if (r.attended != 1) see({"attended", "share", "of the keys of whole rows"}, r.attended);
  if (r.skipped) see({"skipped", "", "the update was left out"}, r.skipped);
  if (r.loss_scale > 0) see("loss_scale", r.loss_scale), see("overflows", r.overflows);
}

template <class See>
void figures(const See& see, const ValidationMetrics& r) {
  see("step", r.step), see("validation_loss", r.loss), see("perplexity", r.perplexity());
}

template <class See>
void figures(const See& see, const TrainingSample& r) {
  see("step", r.step), see("prompt", r.prompt), see("text", r.text), see("ids", r.ids),
      see("finish_reason", r.finish_reason);
  see({"fault", "", "why there is no sample"}, r.fault, Unknown::kLeftOut);
}

// The part of a summary that a RunRecord does not have.
struct TrainingTotals {
  double attended = 1;  // the mean over the steps
  bool packs_documents = false;
  int64_t skipped = 0;  // updates
  double waited_for_checkpoints_ns = 0;
};

}  // namespace ridge::record
