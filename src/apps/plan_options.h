// SPDX-License-Identifier: Apache-2.0
// The options of ridge plan, and the parts of a planner's request that they determine. Not a
// subcommand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/command.h"
#include "apps/model_options.h"
#include "apps/rank_options.h"
#include "planning/plans.h"
#include "record/plan_record.h"
#include "report/terminal.h"

namespace ridge::apps {

struct PlanOptions {
  TrainingOptions training;
  std::string batch_sizes, lengths;  // one number in a plan of training, lists in one of inference
  record::PlanLayout layout;
  int64_t fake_ranks = 0;       // 0: none
  int64_t tensor_parallel = 1;  // they share a model
  bool sequence_parallel = false;
  RankOptions pipeline;  // it has the stages, and how they work
  std::string hardware = "this";
  double enqueue_us = 0;  // 0: as measured or assumed
  std::string recompute = "none";
  double parameters = 0;
  double tokens = 1e9;
  double assumed_mfu = 0.4;
  double clip_norm = 0;
  bool json = false;
  bool verbose = false;
  // Plans of inference.
  bool inference = false;
  std::string model;
  std::optional<int64_t> chunk;  // default: serve::usual_chunk
  bool exact = false;
  bool fast_8bit = false;
  std::string cache_dtype;  // empty: the type of activations

  // A model file always gets a plan of inference.
  bool plans_inference() const { return inference || !model.empty(); }
  // The devices of a plan of inference that share the model.
  int64_t sharing_ranks() const { return fake_ranks == 0 ? tensor_parallel : fake_ranks; }
};
void add_plan_options(Command app, PlanOptions& options);
// Throws a usage Error for an option that has no effect in the kind of plan that is asked for.
void refuse_unused(const PlanOptions& options, const Command& app);
// Throws usage Errors for numbers of a training plan out of range.
void expect_sane(const PlanOptions& options);
// The number that a plan of training has where a plan of inference has a list; none if the option
// was not given. Throws a usage Error for a list.
std::optional<int64_t> one_size(const Command& app, const std::string& text, const char* option);

// Shows a planner's searches as progress bars, one after the other.
planning::SearchListener search_bars(const TerminalOptions& terminal);

}  // namespace ridge::apps
