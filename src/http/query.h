// SPDX-License-Identifier: Apache-2.0
// The numbers of a request's query, as in "after=12&seconds=5".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::http {

// The whole number of a key, or `otherwise` if the query lacks it. Throws an ApiError 400 that
// names it, what was expected and what was found. The first of several counts; other keys are
// ignored.
int64_t query_integer(std::string_view query,
                      const std::string& key,
                      int64_t least,
                      int64_t most,
                      int64_t otherwise);

}  // namespace ridge::http
