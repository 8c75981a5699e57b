// SPDX-License-Identifier: Apache-2.0
// What the subcommands that run a model file share:
// options, and opening a session. Not a subcommand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/model_options.h"
#include "serve/session.h"

namespace ridge::apps {

struct InferenceOptions {
  std::string model;
  LevelOptions level;
  MachineOptions machine;
  int64_t context = 0;  // 0: as much as is needed
  int64_t chunk = 512;
  bool exact = false;
  bool json = false;
};
// MODEL, --context, --chunk, --exact, --json, --level, --pass and the machine's.
void add_inference_options(Command app, InferenceOptions& options);

// The passes of inference at a level, with the options' switches. Products are not tuned: that
// takes longer than most answers. A CPU reads weights as their file has them; a GPU has them in
// bf16, with activations in bf16, or all in fp32 where it is to be exact.
passes::Selection inference_selection(const InferenceOptions& options, const std::string& level);
passes::Selection inference_selection(bool on_gpu,
                                      bool exact,
                                      const std::string& level,
                                      const std::string& switches);

// Before anything is loaded: an out-of-memory Error where the keys and values of `slots` sequences
// of `capacity` positions do not fit into what the backend's device has left.
void expect_cache_fits(const models::ModelConfig& config,
                       int64_t slots,
                       int64_t capacity,
                       int64_t chunk,
                       const passes::Selection& selection,
                       const backends::Backend& backend);

// A model file with a session on it.
struct OpenModel {
  models::ModelFile file;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<serve::Session> session;
};
// `slots` sequences of `needed` positions, at most the model's context unless --context asks
// otherwise; their cache must fit.
std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& options,
                                      int64_t needed,
                                      bool cached = true,
                                      int64_t slots = 1);

// A file's text, or what comes on stdin for "-".
std::string read_text(const std::string& path);

// "1,2,3" or "1 2 3".
std::vector<int32_t> parse_ids(const std::string& text);

}  // namespace ridge::apps
