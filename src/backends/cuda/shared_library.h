// SPDX-License-Identifier: Apache-2.0
// A library that is opened at run time, so that the program starts without it. Searches the
// loader's paths, then CUDA's usual folders.
#pragma once

#include <string>

// For a list of functions, FUNCTION(member, symbol) each: the members of a struct that point to
// them, and how `library`, a SharedLibrary, finds them for the struct `functions`.
#define RIDGE_LIBRARY_MEMBER(member, symbol) decltype(&symbol) member;
#define RIDGE_LIBRARY_FIND(member, symbol) library.find(functions.member, #symbol);

namespace ridge::backends::cuda {

class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name);  // a file name, "libcublasLt.so.13" for instance
  bool is_open() const { return handle_ != nullptr; }
  const std::string& failure() const { return failure_; }  // the loader's error message

  // Sets the function pointer `function` to the symbol, or to null if the library does not have it.
  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(address_of(symbol));
    if (function == nullptr) missing_ = symbol;
  }
  const std::string& missing() const { return missing_; }  // the last symbol that was not found

 private:
  void* address_of(const char* symbol) const;

  void* handle_ = nullptr;  // never closed, because CUDA's libraries do not handle that well
  std::string failure_, missing_;
};

}  // namespace ridge::backends::cuda
