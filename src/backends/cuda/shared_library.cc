// SPDX-License-Identifier: Apache-2.0
// Opens libraries with dlopen.
#include "backends/cuda/shared_library.h"

#include <dlfcn.h>

namespace ridge::backends::cuda {

SharedLibrary::SharedLibrary(const char* name) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/"}) {
    handle_ = ::dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    if (failure_.empty()) failure_ = ::dlerror();
  }
}

void* SharedLibrary::address_of(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

}  // namespace ridge::backends::cuda
