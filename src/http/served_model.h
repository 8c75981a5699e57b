// SPDX-License-Identifier: Apache-2.0
// The model that a server answers with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/conversation.h"
#include "serve/engine.h"

namespace ridge::http {

struct ServedModel {
  // Without a chat format, chats are refused. The engine must outlive it.
  ServedModel(std::string of_name,
              serve::Engine& of_engine,
              std::optional<serve::ChatFormat> of_chat);

  const std::string name;
  serve::Engine& engine;
  const std::optional<serve::ChatFormat> chat;
  const int64_t created_s;  // Unix time
  // Of all tokens: a text of n bytes has at least n / longest_token_bytes tokens.
  const size_t longest_token_bytes;
};

}  // namespace ridge::http
