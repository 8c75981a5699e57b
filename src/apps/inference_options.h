// SPDX-License-Identifier: Apache-2.0
// Options of the subcommands that run a model file. Not a subcommand.
#pragma once

#include <functional>
#include <string>

#include "apps/model_options.h"
#include "apps/rank_options.h"
#include "serve/chat_prompt.h"
#include "serve/session_choice.h"

namespace ridge::apps {

using serve::open_model;
using serve::open_model_file;
using serve::OpenModel;
using serve::SessionNeeds;

struct InferenceOptions : serve::InferenceOptions {
  bool json = false;
  RankOptions ranks;
};
// MODEL
void add_model_argument(Command app, std::string& model);
// --adapter
void add_adapter_option(Command app, std::string& adapter);
// --chunk, --exact, --fast-8bit, --cache-dtype
void add_phase_options(Command app,
                       std::optional<int64_t>& chunk,
                       bool& exact,
                       bool& fast_8bit,
                       std::string& cache_dtype);
// MODEL, --chunk, --exact, --fast-8bit, --cache-dtype, --pass, --json and the machine's options
void add_model_run_options(Command app, InferenceOptions& options);
// The same options, --adapter, --context and --level
void add_inference_options(Command app, InferenceOptions& options);
// --random-weights
void add_random_weights_option(Command app, InferenceOptions& options);
// The same and --tokenizer
void add_shape_options(Command app, InferenceOptions& options);
// Joins the ranks, which then run one session together: each with the same prompts and options, and
// its part of the model. Call before the model is opened.
void join_ranks(InferenceOptions& options);
// The same, then `body`. An Error that all ranks have is printed once.
void run_on_ranks(InferenceOptions& options, const std::function<void()>& body);

// --chat-template, --parse-special
void add_chat_format_options(Command app, serve::ChatFormatOptions& options);
// --attention
void add_attention_option(Command app, std::string& attention);

}  // namespace ridge::apps
