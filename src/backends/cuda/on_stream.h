// SPDX-License-Identifier: Apache-2.0
// Launchers of kernels on the device's stream, made from the functions in cuda/kernels/:
// on_stream(RIDGE_LAUNCHES(glu)). The additional arguments of a GPU kernel,
// tickets and fault words, are allocated when a node is bound.
#pragma once

#include <type_traits>

#include "backends/cuda/bind_context.h"
#include "backends/cuda/kernels/watched.h"
#include "backends/index_names.h"
#include "backends/launcher.h"

namespace ridge::backends::cuda {

// A kernel's functions for fp32 and bf16.
#define RIDGE_LAUNCHES(kernel) launch_##kernel<float>, launch_##kernel<uint16_t>

// A kernel's arguments without those that only a GPU needs.
template <typename Given>
struct PlainCall {
  using Type = Given;
};
template <typename Given>
struct PlainCall<Watched<Given>> : PlainCall<Given> {};
template <typename Given>
struct PlainCall<Ticketed<Given>> : PlainCall<Given> {};

template <typename Given>
using KernelFunction = cudaError_t (*)(const Given&, cudaStream_t);
template <typename Given>
using StreamLauncher = Launcher<typename PlainCall<Given>::Type>;
template <typename First, typename Second>
using StreamLaunchers =
    Launchers<typename PlainCall<First>::Type, typename PlainCall<Second>::Type>;

class OnStream {
 public:
  explicit OnStream(BindContext& context) : context_(context) {}

  // `indices` names the indices that the kernel checks, if it checks any.
  template <typename Given>
  StreamLauncher<Given> operator()(KernelFunction<Given> function, IndexNames indices = {}) const {
    return [on_stream = *this, function, indices](const typename PlainCall<Given>::Type& call,
                                                  const char* op) {
      return launch_on(on_stream.context_.device, op, function,
                       on_stream.given(Wanted<Given>(), call, indices));
    };
  }
  template <typename First, typename Second>
  StreamLaunchers<First, Second> operator()(KernelFunction<First> first,
                                            KernelFunction<Second> second,
                                            IndexNames indices = {}) const {
    return {(*this)(first, indices), (*this)(second, indices)};
  }

  // For kernels on a cache, whose cells are checked.
  template <typename Given>
  Launcher<Given> on_cells(KernelFunction<Given> function) const {
    return [&context = context_, function](const Given& call, const char* op) {
      Given given = call;
      given.cells = context.faults.watch_cells(op, call.cells);
      return launch_on(context.device, op, function, given);
    };
  }
  template <typename First, typename Second>
  Launchers<First, Second> on_cells(KernelFunction<First> first,
                                    KernelFunction<Second> second) const {
    return {on_cells(first), on_cells(second)};
  }

 private:
  template <typename Given>
  struct Wanted {};

  template <typename Given>
  Given given(Wanted<Given>, const Given& call, const IndexNames&) const {
    return call;
  }
  template <typename Given, typename Plain>
  Watched<Given> given(Wanted<Watched<Given>>, const Plain& call, const IndexNames& indices) const {
    return {given(Wanted<Given>(), call, indices), context_.faults.watch(indices, call.vocabulary)};
  }
  template <typename Given, typename Plain>
  Ticketed<Given> given(Wanted<Ticketed<Given>>,
                        const Plain& call,
                        const IndexNames& indices) const {
    return {given(Wanted<Given>(), call, indices), context_.tickets.take()};
  }

  BindContext& context_;
};

}  // namespace ridge::backends::cuda
