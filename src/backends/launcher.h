// SPDX-License-Identifier: Apache-2.0
// Kernels as shared bindings see them: a launcher takes a kernel's arguments (backends/kernels/)
// and returns the launch that runs the kernel with them. The backend decides what a launch runs on.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "backends/kernel.h"
#include "base/float16.h"

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

// Launchers of a kernel for fp32, bf16 and fp16. That for fp16 is empty in a backend that has none.
template <typename F32, typename BF16, typename F16>
struct FloatLaunchers {
  Launchers<F32, BF16> wide;
  Launcher<F16> f16;
  FloatLaunchers(Launchers<F32, BF16> of_wide, Launcher<F16> of_f16 = {})
      : wide(std::move(of_wide)), f16(std::move(of_f16)) {}
  Launch operator()(const F32& call, const char* op) const { return wide(call, op); }
  Launch operator()(const BF16& call, const char* op) const { return wide(call, op); }
  Launch operator()(const F16& call, const char* op) const { return f16(call, op); }
};
template <template <typename> typename Given>
using TypedLaunchers = FloatLaunchers<Given<float>, Given<uint16_t>, Given<Float16>>;

// Launchers of a kernel with two element types, each of the three, grouped by the first.
template <template <typename, typename> typename Given>
struct PairLaunchers {
  template <typename First>
  using Seconds =
      FloatLaunchers<Given<First, float>, Given<First, uint16_t>, Given<First, Float16>>;
  Seconds<float> f32;
  Seconds<uint16_t> bf16;
  Seconds<Float16> f16 = Launchers<Given<Float16, float>, Given<Float16, uint16_t>>();
  template <typename Second>
  Launch operator()(const Given<float, Second>& call, const char* op) const {
    return f32(call, op);
  }
  template <typename Second>
  Launch operator()(const Given<uint16_t, Second>& call, const char* op) const {
    return bf16(call, op);
  }
  template <typename Second>
  Launch operator()(const Given<Float16, Second>& call, const char* op) const {
    return f16(call, op);
  }
};

// Calls make(float{}), make(uint16_t{}) for bf16 or make(Float16{}), to bind the kernel of that
// element type.
template <typename Make>
Launch by_float_dtype(DType dtype, const Make& make) {
  return dtype == DType::kF16 ? make(Float16{}) : by_dtype(dtype, make);
}

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

// Binds to the kernel of an operand's type; `f32`, `bf16` and `f16` build the kernel's arguments.
template <typename F32, typename BF16, typename F16>
Bind bind_typed(FloatLaunchers<F32, BF16, F16> launchers,
                F32 (*f32)(const BindCall&),
                BF16 (*bf16)(const BindCall&),
                F16 (*f16)(const BindCall&),
                DType (*type_of)(const BindCall&) = first_input_type) {
  return [launchers = std::move(launchers), f32, bf16, f16, type_of](const BindCall& call) {
    const DType type = type_of(call);
    return type == DType::kF32   ? launchers(f32(call), op_of(call))
           : type == DType::kF16 ? launchers(f16(call), op_of(call))
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
