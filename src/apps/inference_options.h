// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a model file, and the session that they open. Not a
// subcommand.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/model_options.h"
#include "serve/session.h"
#include "serve/session_choice.h"

namespace ridge::apps {

struct InferenceOptions {
  std::string model;
  LevelOptions level;
  MachineOptions machine;
  std::optional<int64_t> context;  // default: as much as the run needs
  int64_t chunk = 512;
  bool exact = false;
  bool fast_8bit = false;
  std::string cache_dtype;  // empty: the type of activations
  bool json = false;
};
// MODEL
void add_model_argument(Command app, std::string& model);
// --chunk
void add_chunk_option(Command app, int64_t& chunk);
// --chunk, --exact, --fast-8bit, --cache-dtype
void add_phase_options(Command app,
                       int64_t& chunk,
                       bool& exact,
                       bool& fast_8bit,
                       std::string& cache_dtype);
// MODEL, --chunk, --exact, --fast-8bit, --cache-dtype, --pass, --json and the machine's options
void add_model_run_options(Command app, InferenceOptions& options);
// The same options, --context and --level
void add_inference_options(Command app, InferenceOptions& options);

serve::Arithmetic arithmetic_of(const InferenceOptions& options);
// serve/session_choice.h's choices for these options.
passes::Selection inference_selection(const InferenceOptions& options, const std::string& level);
std::optional<DType> chosen_cache_dtype(const InferenceOptions& options,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");

// A model file and a session that runs it.
struct OpenModel {
  models::ModelFile file;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<serve::Session> session;
};
// The requirements of a run on its session. --context replaces `positions`.
struct SessionNeeds {
  int64_t positions = 1;  // per sequence; the model's context is the limit
  int64_t least = 1;      // of --context
  int64_t slots = 1;      // concurrent sequences
  bool cached = true;
  bool prefix_caching = false;
  int64_t cache_bytes = 0;  // of the KV cache; 0: enough for all slots
};
// The positions of a sequence. Throws a usage Error for a --context out of range.
int64_t session_capacity(const InferenceOptions& options,
                         const models::ModelConfig& config,
                         const SessionNeeds& needs);
// Measures nothing: --attention must have been turned into a switch (apps/tuning_files.h).
std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& options,
                                      const SessionNeeds& needs);

}  // namespace ridge::apps
