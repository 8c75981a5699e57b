// SPDX-License-Identifier: Apache-2.0
// Reads the options of requests, and prompts.
#include "python/requests.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "base/error.h"
#include "python/arrays.h"

namespace ridge::python {
namespace nb = nanobind;

serve::Request request_of(Keywords& keywords) {
  serve::Request request{.max_tokens = 256};
  serve::SamplingOptions& s = request.sampling;
  keywords.take("max_tokens", request.max_tokens), keywords.take("temperature", s.temperature);
  keywords.take("top_k", s.top_k), keywords.take("top_p", s.top_p);
  keywords.take("min_p", s.min_p), keywords.take("seed", s.seed);
  keywords.take("repeat_penalty", s.repeat_penalty);
  keywords.take("presence_penalty", s.presence_penalty);
  keywords.take("frequency_penalty", s.frequency_penalty);
  keywords.take("ignore_end", request.ignores_end), keywords.take("logprobs", request.top_logprobs);
  nb::object stop;
  keywords.take("stop", stop);
  if (std::string one; stop.is_valid() && nb::try_cast(stop, one))
    request.stop = {one};
  else if (stop.is_valid() && !nb::try_cast(stop, request.stop))
    throw usage_error("[stop] expected a text or a list of texts, got {}", type_name_of(stop));
  return request;
}

std::vector<int32_t> prompt_ids(const Model& model, nb::handle prompt) {
  if (!nb::isinstance<nb::str>(prompt) && !nb::hasattr(prompt, "__len__"))
    throw usage_error("[prompt] expected a text or a list of ids, got {}", type_name_of(prompt));
  if (!nb::isinstance<nb::str>(prompt)) return ids_of(prompt, "prompt");
  const text::Tokenizer& tokenizer = model.tokenizer()->tokenizer;
  return tokenizer.encode(nb::cast<std::string>(prompt), {.add_bos = tokenizer.spec().add_bos});
}

bool is_list_of_prompts(nb::handle prompt) {
  if (!nb::isinstance<nb::list>(prompt) && !nb::isinstance<nb::tuple>(prompt)) return false;
  return nb::len(prompt) > 0 && nb::hasattr(prompt[0], "__len__");
}

}  // namespace ridge::python
