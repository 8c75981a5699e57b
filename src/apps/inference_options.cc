// SPDX-License-Identifier: Apache-2.0
// Declares the options of model files and opens sessions. Not a subcommand.
#include "apps/inference_options.h"

#include <algorithm>

#include "apps/tuning_files.h"
#include "base/error.h"

namespace ridge::apps {

void add_model_argument(Command app, std::string& model) {
  app.add_option("MODEL", model, "a .gguf file, or a folder with config.json and safetensors")
      .required();
}

void add_chunk_option(Command app, int64_t& chunk) {
  app.add_option(
         "--chunk", chunk,
         "tokens of a prompt that one prefill run computes; more are faster and need more memory")
      .show_default();
}

void add_phase_options(Command app,
                       int64_t& chunk,
                       bool& exact,
                       bool& fast_8bit,
                       std::string& cache_dtype) {
  add_chunk_option(app, chunk);
  app.add_flag("--exact", exact, "compute in fp32 (on a GPU, weights and KV cache too)");
  app.add_flag(
      "--fast-8bit", fast_8bit,
      "on a CPU, round activations to 8 bits instead of 16 before GEMMs with quantized "
      "weights: faster prompts and batches, farther from the exact result (ridge "
      "perplexity prints how far); without AVX-512 VNNI, GEMMs with weights of more than six "
      "bits keep 16, and with AMX nothing changes");
  app.add_option(
      "--cache-dtype", cache_dtype,
      "type of the KV cache: fp32, bf16, or i8 with a scale per head and position; smaller "
      "types hold more tokens (default: the type of activations, the only one on a GPU)");
}

void add_model_run_options(Command app, InferenceOptions& o) {
  add_model_argument(app, o.model);
  add_phase_options(app, o.chunk, o.exact, o.fast_8bit, o.cache_dtype);
  app.add_json_flag(o.json);
  add_pass_option(app, o.level);
  add_machine_options(app, o.machine);
}

void add_inference_options(Command app, InferenceOptions& o) {
  add_model_run_options(app, o);
  app.add_option("--context", o.context,
                 "tokens for which the KV cache has room (default: what the run needs)");
  add_level_option(app, o.level);
  add_attention_option(app, o.level.attention);
}

serve::Arithmetic arithmetic_of(const InferenceOptions& o) {
  return {chosen_device(o.machine) == "cuda", o.exact, o.fast_8bit};
}

passes::Selection inference_selection(const InferenceOptions& o, const std::string& level) {
  return serve::inference_selection(arithmetic_of(o), level, o.level.switches);
}

std::optional<DType> chosen_cache_dtype(const InferenceOptions& o,
                                        const passes::Selection& selection,
                                        const char* option) {
  return serve::chosen_cache_dtype(o.cache_dtype, arithmetic_of(o), selection, option);
}

int64_t session_capacity(const InferenceOptions& o,
                         const models::ModelConfig& config,
                         const SessionNeeds& needs) {
  if (o.context && (*o.context < needs.least || *o.context > config.context))
    throw usage_error("[context] expected {} to {} positions, the model's context, got {}",
                      needs.least, config.context, *o.context);
  return o.context.value_or(std::clamp<int64_t>(needs.positions, 1, config.context));
}

std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& o,
                                      const SessionNeeds& needs) {
  serve::SessionOptions options;
  const models::ModelConfig& config = file.config();
  options.capacity = session_capacity(o, config, needs);
  options.selection = inference_selection(o, o.level.level);
  options.slots = needs.slots;
  options.chunk = o.chunk;
  options.cached = needs.cached;
  options.prefix_caching = needs.prefix_caching && needs.cached;
  options.cache_dtype = chosen_cache_dtype(o, options.selection);
  if (needs.cache_bytes > 0)
    options.kv_capacity_tokens = serve::kv_capacity_tokens(needs.cache_bytes, options, config);
  auto model = std::make_unique<OpenModel>(
      OpenModel{std::move(file), make_backend(o.machine, options.selection), nullptr});
  expect_effect(o.level.switches, passes::Serves::kInference, *model->backend);
  serve::expect_cache_fits(model->file.config(), options, *model->backend);
  model->session = std::make_unique<serve::Session>(model->file, options, *model->backend);
  return model;
}

}  // namespace ridge::apps
