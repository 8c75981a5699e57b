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
  std::string name;
  serve::Engine& engine;
  std::optional<serve::ChatFormat> chat = {};  // none: the model file has no chat template
  int64_t created_s = 0;                       // Unix time
};

}  // namespace ridge::http
