// SPDX-License-Identifier: Apache-2.0
// The model that a server answers with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/chat_prompt.h"
#include "serve/engine.h"

namespace ridge::http {

// Bounds of the requests to a model: everything that reading one needs to know of it.
struct RequestBounds {
  std::string model;                           // its name
  const text::Tokenizer* tokenizer = nullptr;  // never null; outlives this
  std::optional<serve::ChatFormat> chat = {};  // without it, chats are refused
  int64_t context = 1;                         // tokens of a prompt and its answer
  int64_t vocabulary = 1;
  int64_t queue = 1;  // requests that can wait at once
  int64_t most_priority = 0;
  // A text of n bytes has at least n / longest_token_bytes tokens.
  size_t longest_token_bytes = 1;
};

struct ServedModel {
  // Without a chat format, chats are refused. The engine must outlive it.
  ServedModel(std::string of_name,
              serve::Engine& of_engine,
              std::optional<serve::ChatFormat> of_chat);

  const RequestBounds bounds;
  serve::Engine& engine;
  const int64_t created_s;  // Unix time

  const std::string& name() const { return bounds.model; }
};

}  // namespace ridge::http
