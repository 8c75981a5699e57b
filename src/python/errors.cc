// SPDX-License-Identifier: Apache-2.0
// Maps Error to the exceptions of ridge/errors.py by its exit code. Not the exceptions themselves.
#include "python/errors.h"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <exception>

#include "base/error.h"
#include "python/binding.h"

namespace ridge::python {
namespace {

const char* exception_name(ExitCode code) {
  switch (code) {
    case ExitCode::kUsage:
      return "UsageError";
    case ExitCode::kBadFile:
      return "ModelError";
    case ExitCode::kOutOfMemory:
      return "MemoryError";
    case ExitCode::kDevice:
      return "DeviceError";
    default:
      return "Error";
  }
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    namespace nb = nanobind;
    const nb::object type = nb::module_::import_("ridge.errors").attr(exception_name(error.code()));
    // A message may quote the bytes of a file.
    const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
        error.what(), static_cast<Py_ssize_t>(std::char_traits<char>::length(error.what())),
        "replace"));
    PyErr_SetObject(type.ptr(), text.ptr());
  }
}

}  // namespace

void bind_errors(nanobind::module_&) { nanobind::register_exception_translator(translate); }

void throw_if_interrupted() {
  const nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

bool Interrupts::is_set() {
  if (error_) return true;
  try {
    throw_if_interrupted();
  } catch (nanobind::python_error& error) {
    error_.emplace(std::move(error));
  }
  return error_.has_value();
}

OwnProcess::OwnProcess() : process_(::getpid()) {}

bool OwnProcess::is_this() const { return ::getpid() == process_; }

void OwnProcess::expect() const {
  if (!is_this())
    throw runtime_error(
        "[fork] expected the process that made this object: its threads are not in a forked one; "
        "make it after the fork, or start processes by spawn");
}

}  // namespace ridge::python
