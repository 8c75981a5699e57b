// SPDX-License-Identifier: Apache-2.0
// Runs a load graph on the host, from tensors by file name to stored parameters, and its inverse
// for saving.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/load_graph.h"
#include "runtime/store.h"

namespace ridge::runtime {

// Returns the data of a tensor by its file name, dense, as floats.
using TensorSource = std::function<std::vector<float>(const std::string& name, const Type& type)>;
using TensorSink =
    std::function<void(const std::string& name, const Type& type, std::vector<float> data)>;

// Fills every stored parameter. A tensor that several stored values need (a bf16 copy) is requested
// once for each.
void load_parameters(const LoadGraph& load, const TensorSource& source, Store& store);

// The source of stored parameters.
struct StoredSource {
  // Returns the bytes of a tensor by its file name, as stored in the file. They must outlive the
  // store unless `copies` is set.
  std::function<std::span<const std::byte>(const std::string& name)> bytes;
  // Called with parts of tensors that are read soon, in order.
  std::function<void(std::span<const std::byte> part)> expect = [](std::span<const std::byte>) {};
  // Called with parts of a tensor that are not read again, from several threads at once.
  std::function<void(std::span<const std::byte> part)> release = [](std::span<const std::byte>) {};
  // Called with tensors that are used in place.
  std::function<void(std::span<const std::byte> bytes)> keep = [](std::span<const std::byte>) {};
  // Whether values that are stored as in the file are copied too. Only for backends with
  // host-writable memory.
  bool copies = false;
};
// Fills every stored parameter in its type in the load graph, in the order of the file. Values that
// are stored as in the file are used in place or copied. Joined rows are copied, and other types
// are converted through fp32. Blocks are repacked into tiles, and copies are made, a few MiB at a
// time. All that is not used in place is released.
void load_stored(const LoadGraph& load, const StoredSource& source, Store& store);

// Fills every stored parameter with meaningless numbers: ones in vectors, otherwise normally
// distributed numbers with standard deviation 0.02, which repeat. An element of a file's tensor is
// the same number however passes cut and join tensors.
void load_random_weights(const LoadGraph& load, Store& store);

// Return the parts of all ranks, in their order, for this rank's part of a parameter.
using JoinParts = std::function<std::vector<float>(const std::vector<float>& part)>;
struct RankParts {
  // Among the ranks that share a model, which have rows or columns of a file's tensor; several of
  // them may have the same.
  JoinParts of_model = {};
  // Among the ranks that have the same part of the model, and a part of its elements each.
  JoinParts of_states = {};
};

// Calls `sink` once for each input of the load graph of an fp32 parameter, with the data from which
// loading would restore the stored values. Every rank calls it, with a `join` where parameters are
// in parts; without one, `sink` gets a rank's part under the first name from which it is made.
void save_parameters(const LoadGraph& load,
                     const Store& store,
                     const TensorSink& sink,
                     const RankParts& join = {});

// The same for a state of each fp32 parameter, "<parameter><suffix>", which has the parameter's
// shape: under the names and in the parts from which the parameter is loaded. Parameters without
// that state are left out.
void save_states(const LoadGraph& load,
                 const Store& store,
                 std::string_view suffix,
                 const TensorSink& sink,
                 const RankParts& join = {});
// The inverse of save_states.
void load_states(const LoadGraph& load,
                 const TensorSource& source,
                 std::string_view suffix,
                 Store& store);

}  // namespace ridge::runtime
