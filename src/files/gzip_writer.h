// SPDX-License-Identifier: Apache-2.0
// Compresses a text into the bytes of a .gz file. The same text gives the same bytes: no time and
// no name is in the header.
#pragma once

#include <string>
#include <string_view>

namespace ridge::files {

std::string gzip(std::string_view text);

}  // namespace ridge::files
