// SPDX-License-Identifier: Apache-2.0
// Kernels as shared bindings see them: a launcher takes a kernel's arguments (backends/kernels/)
// and returns the launch that runs the kernel with them. The backend decides what a launch runs on.
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "backends/kernel.h"
#include "backends/kernels/kv_cache.h"
#include "base/float16.h"

namespace ridge::backends {

// `op` is the op's name for error messages.
template <typename Given>
using Launcher = std::function<Launch(const Given&, const char* op)>;

// Launchers of a kernel that is compiled for several types; the type of the arguments selects the
// one that runs.
template <typename... Given>
class Launchers {
 public:
  // Each part is a Launcher, or Launchers, of some of the types. A backend has none for the others.
  template <typename... Part>
  // NOLINTNEXTLINE(google-explicit-constructor): fewer types pass as all.
  Launchers(Part... parts) {
    (set(std::move(parts)), ...);
  }
  template <typename One>
  Launch operator()(const One& call, const char* op) const {
    return of<One>()(call, op);
  }
  template <typename One>
  const Launcher<One>& of() const {
    return std::get<Launcher<One>>(each_);
  }

 private:
  template <typename One>
  void set(Launcher<One> launcher) {
    std::get<Launcher<One>>(each_) = std::move(launcher);
  }
  template <typename... Some>
  void set(const Launchers<Some...>& some) {
    (set(some.template of<Some>()), ...);
  }

  std::tuple<Launcher<Given>...> each_;
};

template <template <typename> typename Given>
using TypedLaunchers = Launchers<Given<float>, Given<uint16_t>, Given<Float16>>;

// A kernel with two element types has these.
template <template <typename, typename> typename Given>
using PairLaunchers = Launchers<Given<float, float>,
                                Given<float, uint16_t>,
                                Given<float, Float16>,
                                Given<uint16_t, float>,
                                Given<uint16_t, uint16_t>,
                                Given<uint16_t, Float16>,
                                Given<Float16, float>,
                                Given<Float16, uint16_t>,
                                Given<Float16, Float16>>;

// A kernel on a KV cache has these, by the types of tokens and cache. A backend may have none for
// some caches narrower than the tokens.
template <template <typename, typename> typename Given>
using CacheLaunchers = Launchers<Given<float, float>,
                                 Given<uint16_t, uint16_t>,
                                 Given<float, uint16_t>,
                                 Given<float, int8_t>,
                                 Given<uint16_t, int8_t>,
                                 Given<uint16_t, F8E4M3>>;

// Calls make(float{}), make(uint16_t{}) for bf16 or make(Float16{}), to bind the kernel of that
// element type.
template <typename Make>
Launch by_float_dtype(DType dtype, const Make& make) {
  return dtype == DType::kF16 ? make(Float16{}) : by_dtype(dtype, make);
}

inline const char* op_of(const BindCall& call) { return call.node.op->name.c_str(); }

// A kernel that only moves bits treats i32 as any other 4 bytes.
inline DType moved_as(DType dtype) { return dtype == DType::kI32 ? DType::kF32 : dtype; }

inline DType first_input_type(const BindCall& call) { return call.inputs[0].type.dtype; }
inline DType second_input_type(const BindCall& call) { return call.inputs[1].type.dtype; }
inline DType first_output_type(const BindCall& call) { return call.outputs[0].type.dtype; }

// Binds to the kernel of an operand's type; fill<T>(call) builds the kernel's arguments.
template <typename... Given, typename Fill>
Bind bind_typed(Launchers<Given...> launchers,
                const Fill& fill,
                DType (*type_of)(const BindCall&) = first_input_type) {
  return [launchers = std::move(launchers), fill, type_of](const BindCall& call) {
    return by_float_dtype(type_of(call), [&](auto element) {
      return launchers(fill.template operator()<decltype(element)>(call), op_of(call));
    });
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
