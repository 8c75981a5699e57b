// SPDX-License-Identifier: Apache-2.0
// Combines the options of inference and refuses the combinations that no session can have.
#include "serve/session_choice.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "base/units.h"
#include "models/adapter.h"
#include "models/model_hash.h"
#include "models/tokenizer_file.h"
#include "ops/kv_cache.h"
#include "passes/tensor_shards.h"
#include "plan/rank_layout.h"
#include "runtime/ranks.h"

namespace ridge::serve {

passes::Selection inference_selection(const Arithmetic& arithmetic,
                                      const std::string& level,
                                      const std::string& more) {
  const auto [on_gpu, exact, fast_8bit] = arithmetic;
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
  else  // -branches runs kernels one after the other, because a token's graph has no branches.
    switches += std::string("-branches,") +
                (exact ? "+store_f32," : "+store_fragments,+store_bf16,+autocast_bf16,");
  return passes::Selection(level, switches + more);
}

std::string_view cache_dtype_name(DType dtype) {
  if (dtype == DType::kF8E4M3) return "fp8";
  return dtype == DType::kF32 ? "fp32" : name(dtype);
}

std::optional<DType> parse_cache_dtype(const std::string& text, const char* option) {
  if (text.empty()) return {};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kF8E4M3})
    if (text == cache_dtype_name(dtype)) return dtype;
  throw usage_error("[{}] expected fp32, bf16, i8 or fp8, got {}", option, printable(text));
}

std::optional<DType> chosen_cache_dtype(const std::string& text,
                                        const Arithmetic& arithmetic,
                                        const passes::Selection& selection,
                                        const char* option) {
  const std::optional<DType> dtype = parse_cache_dtype(text, option);
  const DType activations = selection.activations();
  if (!dtype || *dtype == activations) return dtype;
  const bool fits = ops::can_hold(*dtype, activations);
  if (arithmetic.on_gpu && !(fits && activations == DType::kBF16))
    throw usage_error("[{}] expected {}, the type of activations{}, on a GPU, got {}", option,
                      cache_dtype_name(activations),
                      activations == DType::kBF16 ? ", i8 or fp8" : "", text);
  if (!arithmetic.on_gpu && *dtype == DType::kF8E4M3)
    throw usage_error("[{}] expected fp32, bf16 or i8 on a CPU, got fp8", option);
  if (!fits || (!arithmetic.on_gpu && activations != DType::kF32))
    throw usage_error("[{}] expected {}, the type of activations, got {}", option,
                      cache_dtype_name(activations), text);
  if (arithmetic.exact && *dtype == DType::kI8)
    throw usage_error(
        "[{}] expected fp32 or bf16 with --exact, got i8; attention over it rounds queries to 16 "
        "bits",
        option);
  return dtype;
}

void expect_cache_fits(const models::ModelConfig& config,
                       const SessionOptions& session,
                       const backends::Backend& backend) {
  const int64_t slots = session.slots, capacity = session.capacity;
  const int64_t needed = models::cache_bytes(config, cache_of(session, config));
  int64_t available = backend.available_bytes();
  if (available > 0 && needed > available)
    throw memory_error(
        "[memory] the KV cache of {} sequence(s) of {} positions needs {}, but this {} has {} left",
        slots, capacity, format_bytes(needed), backend.name() == "cpu" ? "machine" : "GPU",
        format_bytes(available));
}

int64_t kv_capacity_tokens(int64_t bytes,
                           SessionOptions session,
                           const models::ModelConfig& config) {
  const auto bytes_of = [&](int64_t positions) {
    session.kv_capacity_tokens = positions;
    return models::cache_bytes(config, cache_of(session, config));
  };
  const int64_t least = models::blocks_of(session.capacity) * models::kBlockTokens;
  const int64_t block = bytes_of(least + models::kBlockTokens) - bytes_of(least);
  if (bytes < bytes_of(least))
    throw usage_error("[kv-memory] expected at least {}, one request of {} positions, got {}",
                      format_bytes(bytes_of(least)), session.capacity, format_bytes(bytes));
  if (block == 0) return least;  // There are only window layers, and each slot has its own ring.
  return least + (bytes - bytes_of(least)) / block * models::kBlockTokens;
}

passes::Selection InferenceOptions::selection(const std::string& at_level) const {
  return inference_selection(arithmetic(), at_level, level.switches);
}

std::optional<DType> InferenceOptions::chosen_cache_dtype(const passes::Selection& selection,
                                                          const char* option) const {
  return serve::chosen_cache_dtype(cache_dtype, arithmetic(), selection, option);
}

int64_t session_capacity(const InferenceOptions& o,
                         const models::ModelConfig& config,
                         const SessionNeeds& needs) {
  if (o.context && (*o.context < needs.least || *o.context > config.context))
    throw usage_error("[context] expected {} to {} positions, the model's context, got {}",
                      needs.least, config.context, *o.context);
  return o.context.value_or(std::clamp<int64_t>(needs.positions, 1, config.context));
}

models::ModelFile open_model_file(const InferenceOptions& o) {
  models::ModelFile file =
      o.random_weights ? models::ModelFile::open_shape(o.model) : models::ModelFile::open(o.model);
  if (!o.adapter.empty()) {
    start_openmp_threads();
    file.merge(models::Adapter::open(o.adapter));
  }
  return file;
}

namespace {

TextModelFile text_model(models::ModelFile file, models::TokenizerFile source) {
  TextModelFile made{std::move(file), {}, source.chat_template};
  made.tokenizer.emplace(models::make_tokenizer(std::move(source), made.file));
  made.file.limit_tokens(made.tokenizer->vocab_size());
  return made;
}

std::optional<models::TokenizerFile> tokenizer_of(const models::ModelFile& file,
                                                  const InferenceOptions& o) {
  if (o.tokenizer.empty()) return models::find_tokenizer(file);
  return models::read_tokenizer(std::filesystem::path(o.tokenizer));
}

}  // namespace

TextModelFile open_text_model(const InferenceOptions& o) {
  models::ModelFile file = open_model_file(o);
  std::optional<models::TokenizerFile> found = tokenizer_of(file, o);
  if (!found) return {std::move(file), {}, {}};
  return text_model(std::move(file), *std::move(found));
}

TextModelFile open_with_tokenizer(const InferenceOptions& o) {
  TextModelFile made = open_text_model(o);
  if (!made.tokenizer)
    throw file_error("[tokenizer] {} has none; expected {}, or --tokenizer", printable(o.model),
                     made.file.is_gguf() ? "its keys in the file" : "a tokenizer.json beside it");
  return made;
}

void share_model(InferenceOptions& o, const runtime::Ranks& ranks) {
  const runtime::RankLayout& layout = ranks.layout();
  o.rank = ranks.tensor_rank();
  o.stage = ranks.stage(), o.stages = layout.pipeline;
  if (layout.tensor > 1)
    o.level.switches = passes::with_switch(o.level.switches,
                                           fmt::format("+shard_tensor_parallel={}", layout.tensor));
}

namespace {

// Ranks with other weights would give tokens of no model.
void expect_same_model(const models::ModelFile& file, const backends::Groups* groups) {
  if (groups == nullptr || groups->empty()) return;
  const std::string own = fmt::format("{} {}", file.path().string(), models::sampled_hash(file));
  const auto hash = [](const std::string& text) { return text.substr(text.rfind(' ')); };
  for (const char* name : {passes::kTensorGroup, plan::kPipelineGroup}) {
    const auto group = groups->find(name);
    if (group == groups->end()) continue;
    const std::vector<std::string> all = group->second->gather(own);
    for (size_t rank = 1; rank < all.size(); ++rank)
      if (hash(all[rank]) != hash(all[0]))
        throw usage_error(
            "[ranks] expected every rank to read the same model; rank 0 has {}, rank {} has {}",
            printable(all[0]), rank, printable(all[rank]));
  }
}

}  // namespace

std::unique_ptr<OpenModel> open_model(models::ModelFile file,
                                      const InferenceOptions& o,
                                      const SessionNeeds& needs) {
  expect_same_model(file, o.machine.groups);
  SessionOptions options;
  const models::ModelConfig& config = file.config();
  options.capacity = session_capacity(o, config, needs);
  options.selection = o.selection(o.level.level);
  options.slots = needs.slots;
  options.rank = o.rank;
  options.stage = model_stage(file, o.stage, o.stages);
  options.chunk = o.chosen_chunk();
  options.cached = needs.cached;
  options.prefix_caching = needs.prefix_caching && needs.cached;
  options.cache_dtype = o.chosen_cache_dtype(options.selection);
  if (needs.cache_bytes > 0)
    options.kv_capacity_tokens = kv_capacity_tokens(needs.cache_bytes, options, config);
  auto model = std::make_unique<OpenModel>(
      OpenModel{std::move(file), backends::make_backend(o.machine, options.selection), nullptr});
  passes::expect_effect(o.level.switches, passes::Serves::kInference, *model->backend);
  expect_cache_fits(model->file.config(), options, *model->backend);
  model->session = std::make_unique<Session>(model->file, options, *model->backend);
  return model;
}

}  // namespace ridge::serve
