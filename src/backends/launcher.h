// SPDX-License-Identifier: Apache-2.0
// Kernels as shared bindings see them: a launcher takes a kernel's arguments (backends/kernels/)
// and returns the launch that runs the kernel with them. The backend decides what a launch runs on.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "backends/kernel.h"

namespace ridge::backends {

// `op` is the op's name for error messages.
template <typename Given>
using Launcher = std::function<Launch(const Given&, const char* op)>;

// Launchers of a kernel that is compiled for two types; the type of the arguments selects the one
// that runs.
template <typename First, typename Second>
struct Launchers {
  Launcher<First> first;
  Launcher<Second> second;
  Launch operator()(const First& call, const char* op) const { return first(call, op); }
  Launch operator()(const Second& call, const char* op) const { return second(call, op); }
};

// Launchers of a kernel for fp32 and bf16.
template <template <typename> typename Given>
using TypedLaunchers = Launchers<Given<float>, Given<uint16_t>>;

// Launchers of a kernel with two element types, each fp32 or bf16, grouped by the first.
template <template <typename, typename> typename Given>
struct PairLaunchers {
  Launchers<Given<float, float>, Given<float, uint16_t>> f32;
  Launchers<Given<uint16_t, float>, Given<uint16_t, uint16_t>> bf16;
  template <typename Second>
  Launch operator()(const Given<float, Second>& call, const char* op) const {
    return f32(call, op);
  }
  template <typename Second>
  Launch operator()(const Given<uint16_t, Second>& call, const char* op) const {
    return bf16(call, op);
  }
};

// Launchers of a kernel on a KV cache, by the types of tokens and cache. Those of caches narrower
// than the tokens are empty in a backend that has none.
template <template <typename, typename> typename Given>
struct CacheLaunchers {
  Launchers<Given<float, float>, Given<uint16_t, uint16_t>> same;
  Launcher<Given<float, uint16_t>> bf16 = {};
  Launcher<Given<float, int8_t>> i8 = {};
};

inline const char* op_of(const BindCall& call) { return call.node.op->name.c_str(); }

// A kernel that only moves bits treats i32 as any other 4 bytes.
inline DType moved_as(DType dtype) { return dtype == DType::kI32 ? DType::kF32 : dtype; }

inline DType first_input_type(const BindCall& call) { return call.inputs[0].type.dtype; }
inline DType second_input_type(const BindCall& call) { return call.inputs[1].type.dtype; }
inline DType first_output_type(const BindCall& call) { return call.outputs[0].type.dtype; }

// Binds to the fp32 or the bf16 kernel depending on an operand's type; `f32` and `bf16` build the
// kernel's arguments.
template <typename F32, typename BF16>
Bind bind_typed(Launchers<F32, BF16> launchers,
                F32 (*f32)(const BindCall&),
                BF16 (*bf16)(const BindCall&),
                DType (*type_of)(const BindCall&) = first_input_type) {
  return [launchers = std::move(launchers), f32, bf16, type_of](const BindCall& call) {
    return type_of(call) == DType::kF32 ? launchers(f32(call), op_of(call))
                                        : launchers(bf16(call), op_of(call));
  };
}

// Binds to a kernel that exists for one type only.
template <typename Given>
Bind bind_one(Launcher<Given> launcher, Given (*fill)(const BindCall&)) {
  return [launcher = std::move(launcher), fill](const BindCall& call) {
    return launcher(fill(call), op_of(call));
  };
}

}  // namespace ridge::backends
