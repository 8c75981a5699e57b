// SPDX-License-Identifier: Apache-2.0
// Texts from files and from stdin.
#pragma once

#include <cstddef>
#include <string>

namespace ridge::files {

// Reads all of stdin. More than `most_bytes` is a usage Error.
std::string read_stdin(size_t most_bytes);
// Reads the text of a file, or of stdin for "-". More than 256 MiB is a usage Error.
std::string read_text(const std::string& path);

}  // namespace ridge::files
