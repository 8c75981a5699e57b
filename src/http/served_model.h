// SPDX-License-Identifier: Apache-2.0
// The model that a server answers with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "http/request_bounds.h"
#include "serve/engine.h"

namespace ridge::http {

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
