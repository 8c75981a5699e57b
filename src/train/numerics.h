// SPDX-License-Identifier: Apache-2.0
// Collects the ranges of all numbers of one step while its nodes run one by one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "record/numerics_record.h"
#include "runtime/program.h"

namespace ridge::train {

class Numerics {
 public:
  // Around each node of a graph of the step: the gradients that an update reads, and the results of
  // the forward and the backward pass.
  void before(const runtime::Program& program, int graph, NodeId node);
  void after(const runtime::Program& program, int graph, NodeId node);
  // With the weights and moments in the store after the step.
  record::NumericsRecord finish(const runtime::Store& store, int64_t step, double loss_scale);

 private:
  using Key = std::tuple<int, std::string, DType>;  // index of the kind, scope, type
  void add(int kind, const std::string& scope, DType type, std::span<const float> values);
  void add_stored(const runtime::Store& store, const std::string& name);
  // Values that are gradients of parameters, in each graph of the program.
  const std::set<ValueId>& gradients_in(const runtime::Program& program, int graph);

  std::map<Key, record::NumericsRow> rows_;
  std::map<int, std::set<ValueId>> gradients_;
};

}  // namespace ridge::train
