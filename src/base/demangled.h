// SPDX-License-Identifier: Apache-2.0
// Names of C++ functions as people write them, from the names that compilers give them.
#pragma once

#include <string>
#include <string_view>

namespace ridge {

// "_ZN5aiter6kernelIDF16bEEvPT_" -> "void aiter::kernel<bf16>(bf16*)". Of a name that the library
// cannot read, or that could become very long, the function's own name is written out:
// "_ZN3sgl3actI..." -> "sgl::act<...>". Other names stay as they are.
std::string demangled(std::string_view name);

}  // namespace ridge
