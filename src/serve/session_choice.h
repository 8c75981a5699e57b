// SPDX-License-Identifier: Apache-2.0
// Chooses the passes, the KV cache's type and the size of a session from the options of a user, and
// opens it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backends/machine.h"
#include "models/model_file.h"
#include "passes/level_options.h"
#include "serve/session.h"
#include "text/tokenizer.h"

namespace ridge::runtime {
class Ranks;
}

namespace ridge::serve {

// The arithmetic of a session.
struct Arithmetic {
  bool on_gpu = false;
  bool exact = false;      // computes in fp32; on a GPU weights and KV cache are fp32 too
  bool fast_8bit = false;  // on a CPU, int8 activations for GEMMs with quantized weights
};

// Returns the passes of inference at a level, with the switches of --pass added. A CPU reads
// weights as the file stores them. A GPU keeps weights and activations in bf16, or in fp32 if
// exact. Throws a usage Error for fast_8bit where it has no effect.
passes::Selection inference_selection(const Arithmetic& arithmetic,
                                      const std::string& level,
                                      const std::string& switches);

// Returns the name of a KV-cache type as --cache-dtype spells it.
std::string_view cache_dtype_name(DType dtype);
// Returns the type that an option names, none if empty. Throws a usage Error for an unknown name.
std::optional<DType> parse_cache_dtype(const std::string& text, const char* option = "cache-dtype");
// Returns the type that an option names for a run. Throws a usage Error if the run cannot have it:
// a GPU and bf16 activations need that of activations, and exact arithmetic refuses i8.
std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        const Arithmetic& arithmetic,
                                        const passes::Selection& selection,
                                        const char* option = "cache-dtype");

// Throws an out-of-memory Error if the session's KV cache does not fit into the free memory of the
// backend's device. Call before loading.
void expect_cache_fits(const models::ModelConfig& config,
                       const SessionOptions& session,
                       const backends::Backend& backend);

// Returns the number of tokens that a KV cache of `bytes` bytes has room for. Throws a usage Error
// if one sequence of the session's capacity needs more.
int64_t kv_capacity_tokens(int64_t bytes,
                           SessionOptions session,
                           const models::ModelConfig& config);

// The tokens of a prompt that one run computes by default. A GPU needs more to be busy, and unpacks
// quantized weights once a run.
constexpr int64_t usual_chunk(bool is_gpu) { return is_gpu ? 2048 : 512; }

struct InferenceOptions {
  std::string model;
  bool random_weights = false;  // the model is a shape, as ModelFile::open_shape takes it
  std::string tokenizer;        // the path of another one than the model's; empty: the model's
  std::string adapter;          // empty: none
  passes::LevelOptions level;
  backends::MachineOptions machine;
  std::optional<int64_t> context;  // default: as much as the run needs
  std::optional<int64_t> chunk;    // tokens of a prompt in one run; default: usual_chunk
  bool exact = false;
  bool fast_8bit = false;
  std::string cache_dtype;        // empty: the type of activations
  int64_t rank = 0;               // this process, if several share each layer
  int64_t stage = 0, stages = 1;  // this process's part of the layers, and the number of parts

  int64_t chosen_chunk() const { return chunk.value_or(usual_chunk(backends::is_gpu(machine))); }
  Arithmetic arithmetic() const { return {backends::is_gpu(machine), exact, fast_8bit}; }
  // session_choice.h's choices for these options.
  passes::Selection selection(const std::string& at_level) const;
  std::optional<DType> chosen_cache_dtype(const passes::Selection& selection,
                                          const char* option = "cache-dtype") const;
};

// Makes this process one of the ranks that share the model.
void share_model(InferenceOptions& options, const runtime::Ranks& ranks);

// The requirements of a run on its session. The options' context replaces `positions`.
struct SessionNeeds {
  int64_t positions = 1;  // per sequence; the model's context is the limit
  int64_t least = 1;      // the least context that the options may name
  int64_t slots = 1;      // concurrent sequences
  bool cached = true;
  bool prefix_caching = false;
  int64_t cache_bytes = 0;  // the KV cache; 0: enough for all slots
};
// The positions of a sequence. Throws a usage Error for a context out of range.
int64_t session_capacity(const InferenceOptions& options,
                         const models::ModelConfig& config,
                         const SessionNeeds& needs);

// The model that the options name, with their adapter merged into its weights.
models::ModelFile open_model_file(const InferenceOptions& options);

// A model's file with its tokenizer, of whose ids alone tokens are sampled, and its chat template.
struct TextModelFile {
  models::ModelFile file;
  std::optional<text::Tokenizer> tokenizer;  // none: the model has none
  std::string chat_template;                 // Jinja source; empty: none
};
TextModelFile open_text_model(const InferenceOptions& options);
// The same. Throws a bad-file Error for a model without a tokenizer.
TextModelFile open_with_tokenizer(const InferenceOptions& options);

// A server's sequences have so many positions by default: several full contexts may take gigabytes.
inline constexpr int64_t kServedContext = 2048;

struct OpenModel {
  models::ModelFile file;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Session> session;
};
// Measures nothing: an attention that is to be measured must have been turned into a switch
// (bench/attention_choice.h).
std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& options,
                                      const SessionNeeds& needs);

}  // namespace ridge::serve
