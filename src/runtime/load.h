// SPDX-License-Identifier: Apache-2.0
// Runs a load graph on the host: tensors by file name in,
// stored parameters out; and its inverse for checkpoints.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/load_graph.h"
#include "runtime/store.h"

namespace ridge::runtime {

// The data of a tensor by its file name, dense, as floats.
using TensorSource = std::function<std::vector<float>(const std::string& name, const Type& type)>;
using TensorSink =
    std::function<void(const std::string& name, const Type& type, std::vector<float> data)>;

// Fills every stored parameter. A tensor that several
// stored values need (a bf16 copy) is asked for again.
void load_parameters(const LoadGraph& load, const TensorSource& source, Store& store);

// Where stored parameters come from.
struct StoredSource {
  // The bytes of a tensor by its file name, as the file has them; they must outlive the store
  // unless it copies.
  std::function<std::span<const std::byte>(const std::string& name)> bytes;
  // Hears of parts of a tensor that are not read again, from several threads at once.
  std::function<void(std::span<const std::byte> part)> release = [](std::span<const std::byte>) {};
  // Whether what is stored as the file has it is copied all the same; only for a backend whose
  // memory the host writes.
  bool copies = false;
};
// Fills every stored parameter in the type that the load graph gives it. What is stored as the file
// has it lies where the source has it or is copied; what joins rows is copied, what changes type is
// computed in fp32; blocks are put into panels and copies made a few MiB at a time.
void load_stored(const LoadGraph& load, const StoredSource& source, Store& store);

// Fills every stored parameter with numbers that mean nothing: ones where it is a vector, else
// normal ones of standard deviation 0.02, which repeat.
void load_made_up(const LoadGraph& load, Store& store);

// Calls `sink` once for each input of the load graph
// with the data that would load to the stored values.
void save_parameters(const LoadGraph& load, const Store& store, const TensorSink& sink);

}  // namespace ridge::runtime
