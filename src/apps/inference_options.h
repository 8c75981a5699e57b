// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a model file, and the session that they open. Not a
// subcommand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/model_options.h"
#include "serve/session.h"

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

// The passes of inference at a level, with the options' switches. A CPU reads weights as the file
// stores them. A GPU holds them in bf16 with bf16 activations, or all in fp32 with --exact. Throws a
// usage Error for --fast-8bit beside --exact or on a GPU.
passes::Selection inference_selection(const InferenceOptions& options, const std::string& level);
passes::Selection inference_selection(bool on_gpu,
                                      bool exact,
                                      bool fast_8bit,
                                      const std::string& level,
                                      const std::string& switches);

// The type of the KV cache that an option names; none for an empty text. Throws a usage Error for an
// unknown name.
std::optional<DType> parse_cache_dtype(const std::string& text, const char* option = "cache-dtype");
// As --cache-dtype spells it.
std::string_view cache_dtype_name(DType dtype);
// The same for a run. Throws a usage Error for a type that the run cannot have: on a GPU and with
// bf16 activations any but theirs, and i8 with --exact.
std::optional<DType> chosen_cache_dtype(const InferenceOptions& options,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");
std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        bool on_gpu,
                                        bool exact,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");

// Call before loading. Throws an out-of-memory Error if the KV cache of such a session does not fit
// into the free memory of the backend's device.
void expect_cache_fits(const models::ModelConfig& config,
                       const serve::SessionOptions& session,
                       const backends::Backend& backend);

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
  bool keeps_prefixes = false;
  int64_t cache_bytes = 0;  // of the KV cache; 0: enough for all slots
};
std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& options,
                                      const SessionNeeds& needs);

}  // namespace ridge::apps
