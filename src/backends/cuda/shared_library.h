// SPDX-License-Identifier: Apache-2.0
// A library opened at run time, so that the program starts without it. Not a search of the whole
// disk: the loader's own places, then CUDA's usual folder.
#pragma once

#include <span>
#include <string>

namespace ridge::backends::cuda {

class SharedLibrary {
 public:
  // The first of the file names that opens, "libcublasLt.so.13"
  // for instance. Not open where none does.
  explicit SharedLibrary(std::span<const char* const> names);
  bool is_open() const { return handle_ != nullptr; }
  const std::string& failure() const { return failure_; }  // the loader's words

  // Sets `function`, a pointer to one, to null where the library has none of that name.
  template <typename Function>
  bool find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(address_of(symbol));
    return function != nullptr;
  }

 private:
  void* address_of(const char* symbol) const;

  void* handle_ = nullptr;  // never closed: libraries of CUDA don't take that well
  std::string failure_;
};

}  // namespace ridge::backends::cuda
