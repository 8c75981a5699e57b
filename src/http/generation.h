// SPDX-License-Identifier: Apache-2.0
// Reads the body of a completion, chat or not, into a request to the engine.
#pragma once

#include <string>
#include <vector>

#include "http/body.h"
#include "http/served_model.h"
#include "serve/request.h"

namespace ridge::http {

struct Generation {
  serve::Request request;
  int64_t choices = 1;  // answers to the prompt
  std::string echo;     // stands before each answer's text
  bool is_chat = false;
  bool streams = false;
  bool wants_metrics = false;   // each choice says what it took ("x_ridge")
  bool includes_usage = false;  // a stream ends with a chunk of usage
};

// Throw ApiErrors: 400 for what is malformed or out of range, 404 for another model, 422 for what
// the API knows and Ridge does not have. Unknown fields are ignored.
Generation read_completion(const Body& body, const RequestBounds& model);
Generation read_chat(const Body& body, const RequestBounds& model);

// The ids of a text, with the token that begins a text if `begins` and the model has one. Throws an
// ApiError, in time that the context bounds, if it must be longer than the context.
std::vector<int32_t> encode_prompt(const std::string& text,
                                   bool begins,
                                   const RequestBounds& model);
// A list of ids of the vocabulary.
std::vector<int32_t> read_ids(const nlohmann::json& list,
                              const std::string& key,
                              const RequestBounds& model);

}  // namespace ridge::http
