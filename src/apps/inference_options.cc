// SPDX-License-Identifier: Apache-2.0
// Declares the options. Not a subcommand.
#include "apps/inference_options.h"

#include <fmt/format.h>

namespace ridge::apps {

void add_model_argument(Command app, std::string& model) {
  app.add_option("--model,MODEL", model,
                 "a .gguf file, or a folder with config.json and safetensors")
      .required();
}

void add_adapter_option(Command app, std::string& adapter) {
  app.add_option(
      "--adapter", adapter,
      "run the model with this LoRA adapter of ridge train or PEFT: a folder with "
      "adapter_config.json; the matrices that it changes are in memory in bf16 if the file "
      "has them quantized");
}

void add_phase_options(Command app,
                       std::optional<int64_t>& chunk,
                       bool& exact,
                       bool& fast_8bit,
                       std::string& cache_dtype) {
  app.add_option("--chunk", chunk,
                 "tokens of a prompt that one prefill run computes; more are faster and need more "
                 "memory (default: 512 on a CPU, 2048 on a GPU)");
  app.add_flag("--exact", exact, "compute in fp32 (on a GPU, weights and KV cache too)");
  app.add_flag(
      "--fast-8bit", fast_8bit,
      "on a CPU, round activations to 8 bits instead of 16 before GEMMs with quantized "
      "weights: faster prompts and batches, farther from the exact result (ridge "
      "perplexity prints how far); without AVX-512 VNNI, GEMMs with weights of more than six "
      "bits keep 16, and with AMX nothing changes");
  app.add_option(
      "--cache-dtype", cache_dtype,
      "type of the KV cache: fp32, bf16, or i8 or fp8 (E4M3) with a scale per head and position; "
      "on a CPU any but fp8, on a GPU that of activations, or i8 or fp8 with activations in bf16. "
      "Smaller types hold more tokens and are read faster, but move results (ridge perplexity "
      "--compare-cache prints how far; default: the type of activations)");
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
  add_adapter_option(app, o.adapter);
  app.add_option("--context", o.context,
                 "tokens for which the KV cache has room (default: what the run needs)");
  add_level_option(app, o.level);
  add_attention_option(app, o.level.attention);
}

void add_random_weights_option(Command app, InferenceOptions& o) {
  app.add_flag(
      "--random-weights", o.random_weights,
      "use random bf16 weights, the same for any number of ranks; MODEL is then a config.json, its "
      "folder, or a shape by its name, like llama-2-7b (ridge plan --help lists them)");
}

void add_shape_options(Command app, InferenceOptions& o) {
  add_random_weights_option(app, o);
  app.add_option("--tokenizer", o.tokenizer,
                 "use the tokenizer of this folder, tokenizer.json or .gguf file (default: the "
                 "model's)");
}

void join_ranks(InferenceOptions& o) {
  join_ranks(o.ranks, o.machine);
  if (o.ranks.joined != nullptr) serve::share_model(o, *o.ranks.joined);
}

void run_on_ranks(InferenceOptions& o, const std::function<void()>& body) {
  join_ranks(o);
  run_as_rank(o.ranks, "", [&] {
    body();
    return 0;
  });
}

void add_chat_format_options(Command app, serve::ChatFormatOptions& options) {
  app.add_option("--chat-template", options.name,
                 "use the chat template of this name (default: the file's)");
  app.add_flag("--parse-special", options.parses_messages,
               "read control tokens such as <|im_end|> in messages as tokens, as transformers and "
               "llama-server do: a message can then forge turns");
}

void add_attention_option(Command app, std::string& attention) {
  app.under("Level").add_option(
      "--attention", attention,
      "level (as --level and --pass have it), flash, standard, or auto: the faster of both, measured on this machine "
      "once and kept (see ridge tune)");
}

}  // namespace ridge::apps
