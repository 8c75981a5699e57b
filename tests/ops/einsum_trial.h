// SPDX-License-Identifier: Apache-2.0
// Random einsums, their values by plain loops, and graphs that expand composites.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/build.h"
#include "ops/case_data.h"
#include "ops/reference_run.h"
#include "ops/registry.h"

namespace ridge::ops {

using Extents = std::map<char, int64_t>;

// A random sum of products and its operands.
struct Trial {
  std::vector<std::string> terms;
  std::string out;
  Extents extents;
  std::vector<Tensor64> operands;

  std::string notation() const { return fmt::format("{}->{}", fmt::join(terms, ","), out); }
  Shape shape(const std::string& letters) const {
    std::vector<int64_t> dims;
    for (char letter : letters) dims.push_back(extents.at(letter));
    return Shape(dims);
  }
};

inline std::string pick(Random& random, const std::string& from, uint32_t most) {
  std::string letters = from;
  for (size_t i = letters.size(); i > 1; --i)
    std::swap(letters[i - 1], letters[random.below(static_cast<uint32_t>(i))]);
  return letters.substr(0, random.below(most + 1));
}

inline Trial draw_trial(Random& random, uint32_t most_operands) {
  Trial trial;
  for (char letter : std::string("iJkaZ")) trial.extents[letter] = 1 + random.below(4);
  std::string seen;
  const uint32_t count = 1 + random.below(most_operands);
  for (uint32_t i = 0; i < count; ++i) {
    trial.terms.push_back(pick(random, "iJkaZ", 3));
    for (char letter : trial.terms.back())
      if (seen.find(letter) == std::string::npos) seen += letter;
    trial.operands.push_back(draw({DType::kF32, trial.shape(trial.terms.back())}, {}, random));
  }
  trial.out = pick(random, seen, static_cast<uint32_t>(seen.size()));
  return trial;
}

// Every combination of all letters, one after the other.
inline std::vector<double> by_loops(const Trial& trial) {
  std::string all;
  for (const auto& [letter, extent] : trial.extents) all += letter;
  std::set<char> used(trial.out.begin(), trial.out.end());
  for (const std::string& term : trial.terms) used.insert(term.begin(), term.end());
  std::vector<double> sums(static_cast<size_t>(trial.shape(trial.out).elements()));
  Extents at;
  auto place = [&](const std::string& letters) {
    int64_t flat = 0;
    for (char letter : letters) flat = flat * trial.extents.at(letter) + at[letter];
    return static_cast<size_t>(flat);
  };
  std::function<void(size_t)> loop = [&](size_t depth) {
    if (depth == all.size()) {
      double product = 1;
      for (size_t i = 0; i < trial.terms.size(); ++i)
        product *= trial.operands[i].data[place(trial.terms[i])];
      sums[place(trial.out)] += product;
      return;
    }
    const int64_t extent = used.contains(all[depth]) ? trial.extents.at(all[depth]) : 1;
    for (at[all[depth]] = 0; at[all[depth]] < extent; ++at[all[depth]]) loop(depth + 1);
  };
  loop(0);
  return sums;
}

struct Built {
  Graph graph;
  NamedTensors named;
  std::vector<ValueId> operands;
  Builder b{graph, table()};

  ValueId add(const Tensor64& tensor) {
    const std::string name = fmt::format("x{}", operands.size());
    operands.push_back(b.parameter(name, tensor.type));
    named[name] = tensor;
    return operands.back();
  }
  // The composite's primitives.
  ValueId expanded(const char* op, Attrs attrs) {
    Node node;
    node.op = table().find(op);
    node.inputs = operands;
    node.attrs = complete_attrs(*node.op, std::move(attrs));
    return node.op->expand(b, node)[0];
  }
  int count(std::string_view op) const {
    int found = 0;
    for (const Node& node : graph.nodes) found += node.op->name == op ? 1 : 0;
    return found;
  }
};

}  // namespace ridge::ops
