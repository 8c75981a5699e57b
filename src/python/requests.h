// SPDX-License-Identifier: Apache-2.0
// Requests from the arguments of a call.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "python/answer.h"
#include "python/keywords.h"
#include "python/model.h"
#include "serve/request.h"

namespace ridge::python {

// The options of generate and of an engine's submit, without a prompt.
serve::Request request_of(Keywords& keywords);

// The ids of a prompt, which is a text or ids.
std::vector<int32_t> prompt_ids(const Model& model, nanobind::handle prompt);

// A Session of the model.
nanobind::object open_session(const std::shared_ptr<Model>& model, nanobind::handle prompt);

// Whether it is several prompts and not the ids of one.
bool is_list_of_prompts(nanobind::handle prompt);

}  // namespace ridge::python
