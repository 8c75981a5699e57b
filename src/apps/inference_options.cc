// SPDX-License-Identifier: Apache-2.0
// Declares the options of model files and opens sessions. Not a subcommand.
#include "apps/inference_options.h"

#include <algorithm>

#include "apps/tuning_files.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "ops/kv_cache.h"

namespace ridge::apps {

void add_model_argument(Command app, std::string& model) {
  app.add_option("MODEL", model, "a .gguf file, or a folder with config.json and safetensors")
      .required();
}

void add_chunk_option(Command app, int64_t& chunk) {
  app.add_option("--chunk", chunk, "prefill chunk size, in tokens").show_default();
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
  app.add_option("--cache-dtype", cache_dtype,
                 "type of the keys and values in the KV cache: fp32, bf16, or i8 with a scale per "
                 "head and position (default: that of activations, the only one on a GPU)");
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
                 "context length to allocate (default: what the run needs)");
  add_level_option(app, o.level);
  add_attention_option(app, o.level.attention);
}

namespace {

// --attention, as one more switch: a decode step at the end of what the session holds decides.
void choose_attention(const models::ModelConfig& config,
                      const SessionNeeds& needs,
                      int64_t capacity,
                      InferenceOptions& o) {
  bench::AttentionCall call{
      true, false, needs.slots, config.heads, config.kv_heads, config.head_size, capacity, {}};
  if (inference_selection(o, o.level.level).activations() == DType::kBF16)
    call.type = bench::parse_trial_type("bf16");
  const std::string more = attention_switch(o.level.attention, call, o.machine);
  if (!more.empty()) o.level.switches += (o.level.switches.empty() ? "" : ",") + more;
}

}  // namespace

passes::Selection inference_selection(const InferenceOptions& o, const std::string& level) {
  return inference_selection(chosen_device(o.machine) == "cuda", o.exact, o.fast_8bit, level,
                             o.level.switches);
}

passes::Selection inference_selection(bool on_gpu,
                                      bool exact,
                                      bool fast_8bit,
                                      const std::string& level,
                                      const std::string& more) {
  if (fast_8bit && (on_gpu || exact))
    throw usage_error(
        "[fast-8bit] expected a CPU without --exact, got {}; only its GEMMs with quantized weights "
        "round activations to 8 bits",
        on_gpu ? "a GPU" : "--exact");
  for (const passes::Switch& each : passes::parse_switches(more))
    if (exact && each.is_on && each.name == "quantize_activations")
      throw usage_error("[exact] quantize_activations rounds what --exact computes in fp32");
  std::string switches;
  if (!on_gpu)
    switches += exact ? "" : fast_8bit ? "+quantize_activations=8," : "+quantize_activations,";
  else  // kernels run one after the other: a token's graph has no branches
    switches += std::string("-branches,") + (exact ? "+store_f32," : "+store_bf16,+autocast_bf16,");
  return passes::Selection(level, switches + more);
}

std::optional<DType> parse_cache_dtype(const std::string& text, const char* option) {
  if (text.empty()) return {};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8})
    if (text == cache_dtype_name(dtype)) return dtype;
  throw usage_error("[{}] expected fp32, bf16 or i8, got {}", option, printable(text));
}

std::string_view cache_dtype_name(DType dtype) {
  return dtype == DType::kF32 ? "fp32" : name(dtype);
}

std::optional<DType> chosen_cache_dtype(const InferenceOptions& o,
                                        const passes::Selection& selection,
                                        const char* option) {
  return chosen_cache_dtype(o.cache_dtype, chosen_device(o.machine) == "cuda", o.exact, selection,
                            option);
}

std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        bool on_gpu,
                                        bool exact,
                                        const passes::Selection& selection,
                                        const char* option) {
  const std::optional<DType> dtype = parse_cache_dtype(text, option);
  const DType activations = selection.activations();
  if (!dtype || *dtype == activations) return dtype;
  if (on_gpu)
    throw usage_error(
        "[{}] expected {}, the type of activations, on a GPU, got {}; only CPUs keep keys and "
        "values in another type",
        option, cache_dtype_name(activations), text);
  if (!ops::can_hold(*dtype, activations))
    throw usage_error("[{}] expected {}, the type of activations, got {}", option,
                      cache_dtype_name(activations), text);
  if (exact && *dtype == DType::kI8)
    throw usage_error(
        "[{}] expected fp32 or bf16 with --exact, got i8; attention over it rounds queries to 16 "
        "bits",
        option);
  return dtype;
}

void expect_cache_fits(const models::ModelConfig& config,
                       const serve::SessionOptions& session,
                       const backends::Backend& backend) {
  const int64_t slots = session.slots, capacity = session.capacity;
  const int64_t needed = models::cache_bytes(config, serve::cache_of(session, config));
  int64_t available = backend.available_bytes();
  if (available > 0 && needed > available)
    throw memory_error(
        "[memory] the KV cache of {} sequence(s) of {} positions needs {}, but this {} has {} left",
        slots, capacity, format_bytes(needed), backend.name() == "cpu" ? "machine" : "GPU",
        format_bytes(available));
}

// The positions for which a cache of so many bytes has room.
int64_t positions_in(int64_t bytes,
                     serve::SessionOptions session,
                     const models::ModelConfig& config) {
  const auto bytes_of = [&](int64_t positions) {
    session.positions = positions;
    return models::cache_bytes(config, serve::cache_of(session, config));
  };
  const int64_t least = models::blocks_of(session.capacity) * models::kBlockTokens;
  const int64_t block = bytes_of(least + models::kBlockTokens) - bytes_of(least);
  if (bytes < bytes_of(least))
    throw usage_error("[kv-memory] expected at least {}, one request of {} positions, got {}",
                      format_bytes(bytes_of(least)), session.capacity, format_bytes(bytes));
  if (block == 0) return least;  // window layers alone: each slot has its ring
  return least + (bytes - bytes_of(least)) / block * models::kBlockTokens;
}

std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& given,
                                      const SessionNeeds& needs) {
  InferenceOptions o = given;
  serve::SessionOptions options;
  const models::ModelConfig& config = file.config();
  if (o.context && (*o.context < needs.least || *o.context > config.context))
    throw usage_error("[context] expected {} to {} positions, the model's context, got {}",
                      needs.least, config.context, *o.context);
  options.capacity = o.context.value_or(std::clamp<int64_t>(needs.positions, 1, config.context));
  choose_attention(config, needs, options.capacity, o);
  options.selection = inference_selection(o, o.level.level);
  options.slots = needs.slots;
  options.chunk = o.chunk;
  options.cached = needs.cached;
  options.keeps_prefixes = needs.keeps_prefixes && needs.cached;
  options.cache_dtype = chosen_cache_dtype(o, options.selection);
  if (needs.cache_bytes > 0) options.positions = positions_in(needs.cache_bytes, options, config);
  auto model = std::make_unique<OpenModel>(
      OpenModel{std::move(file), make_backend(o.machine, options.selection), nullptr});
  expect_effect(o.level.switches, passes::Serves::kInference, *model->backend);
  expect_cache_fits(model->file.config(), options, *model->backend);
  model->session = std::make_unique<serve::Session>(model->file, options, *model->backend);
  return model;
}

}  // namespace ridge::apps
