// SPDX-License-Identifier: Apache-2.0
// Reads texts of bounded size.
#include "files/text_input.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/mapped_file.h"

namespace ridge::files {

constexpr size_t kMostTextBytes = size_t{256} << 20;

std::string read_stdin(size_t most_bytes) {
  std::string text;
  std::array<char, size_t{1} << 16> part;
  // A short read is the end; another one would wait for a second Ctrl-D on a terminal.
  for (size_t size = part.size(); size == part.size();) {
    size = std::fread(part.data(), 1, part.size(), stdin);
    text.append(part.data(), size);
    if (text.size() > most_bytes)
      throw usage_error("[stdin] expected at most {}",
                        format_bytes(static_cast<int64_t>(most_bytes)));
  }
  if (std::ferror(stdin) != 0) throw runtime_error("[stdin] cannot read");
  return text;
}

std::string read_text(const std::string& path) {
  if (path == "-") return read_stdin(kMostTextBytes);
  MappedFile file(path);
  if (file.text().size() > kMostTextBytes)
    throw usage_error("[text] expected at most {}, {} has {}",
                      format_bytes(static_cast<int64_t>(kMostTextBytes)), printable(path),
                      format_bytes(static_cast<int64_t>(file.text().size())));
  return std::string(file.text());
}

}  // namespace ridge::files
