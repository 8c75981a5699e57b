// SPDX-License-Identifier: Apache-2.0
// NVRTC, the compiler of CUDA C++ in a library, which is opened at run time.
#pragma once

#include <span>
#include <string>

namespace ridge::backends::cuda {

// A compilation. `code` is machine code, empty if the source does not compile; `log` has the
// compiler's messages.
struct NvrtcResult {
  std::string code, log;
};
// `file` names the source in messages; `architecture` is "sm_90". Throws a device Error if NVRTC is
// missing.
NvrtcResult compile_cuda(const std::string& source,
                         const std::string& file,
                         const std::string& architecture,
                         std::span<const std::string> options);

}  // namespace ridge::backends::cuda
