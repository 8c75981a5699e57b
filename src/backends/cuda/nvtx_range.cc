// SPDX-License-Identifier: Apache-2.0
// Pushes and pops NVTX ranges. NVTX is header-only: it looks for a tool when the first range opens.
#include "backends/cuda/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

#include <utility>

namespace ridge::backends::cuda {
namespace {

// Closes the range even if the launch throws.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
};

}  // namespace

Launch in_nvtx_range(Launch launch, const Node& node) {
  std::string name = node.scope.empty() ? node.op->name : node.scope + "/" + node.op->name;
  return [launch = std::move(launch), name = std::move(name)] {
    NvtxRange range(name);
    launch();
  };
}

}  // namespace ridge::backends::cuda
