// SPDX-License-Identifier: Apache-2.0
// A tokenizer with the chat template of its file, as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/tokenizer_file.h"
#include "serve/chat_prompt.h"
#include "text/tokenizer.h"

namespace ridge::python {

struct PythonTokenizer {
  PythonTokenizer(text::Tokenizer made, std::string jinja)
      : tokenizer(std::move(made)), chat_template(std::move(jinja)) {}

  text::Tokenizer tokenizer;
  std::string chat_template;  // Jinja source; empty: none
};

// Messages from dicts with the keys "role" and "content", as OpenAI's clients have them.
std::vector<text::ChatMessage> messages_of(nanobind::handle messages);

}  // namespace ridge::python
