// SPDX-License-Identifier: Apache-2.0
// Error handling. A fault of the user or the environment is an `Error` with an exit code; a bug in
// Ridge fails a RIDGE_CHECK. Libraries throw and never print or exit; the program's `main` maps an
// Error to its exit code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ridge {
inline namespace base {

// The exit codes of the process.
enum class ExitCode {
  kFine = 0,
  kRuntime = 1,
  kUsage = 2,
  kBadFile = 3,
  kOutOfMemory = 4,
  kDevice = 5
};

// A fault outside Ridge. The message states what was expected and what was found.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kRuntime)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Shorthands that format: throw usage_error("[rope] expected an even head size, got {}", n).
template <typename... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...), ExitCode::kUsage);
}
template <typename... Args>
Error file_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...), ExitCode::kBadFile);
}
template <typename... Args>
Error runtime_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...), ExitCode::kRuntime);
}
template <typename... Args>
Error memory_error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...), ExitCode::kOutOfMemory);
}

// A violated invariant of Ridge itself. No input may cause it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               const std::string& message);

}  // namespace base
}  // namespace ridge

// RIDGE_CHECK(condition, "format", args...): throws InternalError with file and line if it is
// false.
#define RIDGE_CHECK(condition, ...)                                                          \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::ridge::base::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
