// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while C++ computes, and processes that were forked from one with threads. Errors become
// exceptions in errors.cc.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <optional>
#include <utility>

namespace ridge::python {

// Throws nanobind::python_error if Ctrl-C was pressed. Takes the GIL.
void throw_if_interrupted();

// Ctrl-C as a question, for loops that end by themselves. `rethrow` throws it after them.
class Interrupts {
 public:
  bool is_set();
  void rethrow() {
    if (error_) throw nanobind::python_error(std::move(*error_));
  }

 private:
  std::optional<nanobind::python_error> error_;
};

// Remembers the process that made an object whose threads a fork does not copy.
class OwnProcess {
 public:
  OwnProcess();
  bool is_this() const;
  // Throws a run-time Error in another process.
  void expect() const;

 private:
  pid_t process_;
};

}  // namespace ridge::python
