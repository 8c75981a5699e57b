// SPDX-License-Identifier: Apache-2.0
// Binds the copy kernel for each pair of element types.
#include "backends/cuda/strided_copy.h"

#include "backends/bind/bindings.h"
#include "backends/cuda/kernels/copy/copy.h"

namespace ridge::backends::cuda {
namespace {

template <typename From, typename To>
Launcher<Copy<From, To>> copies(Device& device) {
  return [&device](const Copy<From, To>& call, const char* op) {
    return launch_on(device, op, launch_copy<From, To>, call);
  };
}

}  // namespace

Launch bind_copy(const Operand& from,
                 const Operand& to,
                 bool accumulate,
                 const char* op,
                 Device& device) {
  using FromF32 = Launchers<Copy<float, float>, Copy<float, uint16_t>>;
  using FromBF16 = Launchers<Copy<uint16_t, float>, Copy<uint16_t, uint16_t>>;
  return bind::strided_copy(
      {FromF32{copies<float, float>(device), copies<float, uint16_t>(device)},
       FromBF16{copies<uint16_t, float>(device), copies<uint16_t, uint16_t>(device)}},
      op, from, to, accumulate);
}

}  // namespace ridge::backends::cuda
