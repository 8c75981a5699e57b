// SPDX-License-Identifier: Apache-2.0
// Shared by the passes that change the types of stored weights or of activations.
#pragma once

#include "passes/pass.h"

namespace ridge::passes {

// Changes the parameter's type to `dtype`; the load graph converts the file's tensor.
void store_as(DType dtype, Value& parameter, PassContext& context);

// Stores all matrices of a model in one plain type, whatever type the file has.
Graph store_matrices_as(DType dtype, const Graph& graph, PassContext& context);

// Fixes the output type of each embedding lookup at what it is now. By default it is the table's
// type, which store_as changes.
void keep_lookups(Graph& graph);

// Activations, GEMMs and KV caches in the 16-bit type.
Graph autocast(DType narrow, const Graph& graph, PassContext& context);

}  // namespace ridge::passes
