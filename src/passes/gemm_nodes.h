// SPDX-License-Identifier: Apache-2.0
// Shared by the passes on GEMMs: recognizes GEMMs of activations and a weight, and allows native
// kernels to compute them.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace ridge::passes {

// Whether the node is y[N,out] = x[N,in] W[out,in]^T without accumulation, where W is a parameter
// itself (of any type), not a value computed from one.
bool is_projection(const Graph& graph, const Node& node);

// Whether the node is a projection of x in fp32 by a W of another type, which stays as the file
// stores it, in fp32.
bool is_quantized_gemm(const Graph& graph, const Node& node);

// Returns the graph with the attribute `native` set on each matmul that a native kernel supports;
// it allows that kernel to compute it, and the binding makes the final choice. Each backend's pass
// native_gemm calls it with a predicate for its kernels.
Graph allow_native_gemms(const Graph& graph,
                         const std::function<bool(const Call& matmul)>& has_kernel);

}  // namespace ridge::passes
