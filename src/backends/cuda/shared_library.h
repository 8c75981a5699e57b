// SPDX-License-Identifier: Apache-2.0
// A library that is opened at run time, so that the program starts without it. Searches the
// loader's paths, then CUDA's usual folder.
#pragma once

#include <span>
#include <string>

namespace ridge::backends::cuda {

class SharedLibrary {
 public:
  // Opens the first of the file names that can be opened, "libcublasLt.so.13" for instance. If none
  // can, is_open() is false.
  explicit SharedLibrary(std::span<const char* const> names);
  bool is_open() const { return handle_ != nullptr; }
  const std::string& failure() const { return failure_; }  // the loader's error message

  // Sets the function pointer `function` to the symbol, or to null if the library does not have it.
  template <typename Function>
  bool find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(address_of(symbol));
    return function != nullptr;
  }

 private:
  void* address_of(const char* symbol) const;

  void* handle_ = nullptr;  // never closed, because CUDA's libraries do not handle that well
  std::string failure_;
};

}  // namespace ridge::backends::cuda
