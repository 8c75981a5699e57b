// SPDX-License-Identifier: Apache-2.0
// Searches the file for the fault.
#include "serve/not_finite.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/finite.h"

namespace ridge::serve {
namespace {

[[noreturn]] void refuse(const models::ModelFile& file,
                         std::string_view what,
                         std::string_view found) {
  const std::string tensor = file.first_not_finite();
  if (!tensor.empty())
    throw file_error(
        "[model] expected finite {}, got {}; the first tensor that is not finite is {}", what,
        found, tensor);
  throw runtime_error("[model] expected finite {}, got {}; all weights are finite", what, found);
}

}  // namespace

void expect_finite(const models::ModelFile& file,
                   std::string_view what,
                   std::span<const float> values) {
  if (all_finite(values)) return;
  const bool has_nan = std::ranges::any_of(values, [](float x) { return std::isnan(x); });
  refuse(file, what, has_nan ? "nan" : "infinity");
}

void expect_tokens(const models::ModelFile& file, std::span<const int32_t> tokens) {
  if (std::ranges::any_of(tokens, [](int32_t token) { return token < 0; }))
    refuse(file, "logits", "nan or infinity");
}

}  // namespace ridge::serve
