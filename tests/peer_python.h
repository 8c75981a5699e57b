// SPDX-License-Identifier: Apache-2.0
// A Python with a package from PyPI, for slow tests that compare with other programs.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace ridge {

// The stdout of a command; empty if it fails.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> part;
  while (size_t size = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), size);
  return ::pclose(pipe) == 0 ? text : "";
}

// RIDGE_PEER_PYTHON if it can import `module`; otherwise pip fetches `package` into an environment
// in `folder`. Empty if neither works, for example without a network.
inline std::string python_with(const std::string& module,
                               const std::string& package,
                               const std::filesystem::path& folder) {
  const char* given = std::getenv("RIDGE_PEER_PYTHON");
  if (given != nullptr &&
      !output_of(fmt::format("'{}' -c 'import {}; print(1)'", given, module)).empty())
    return given;
  const std::string venv = folder / "venv", made = venv + "/bin/python";
  const std::string make =
      fmt::format("python3 -m venv '{}' >&2 && '{}' -m pip install --quiet {} >&2 && echo 1", venv,
                  made, package);
  return output_of(make).empty() ? "" : made;
}

}  // namespace ridge
