// SPDX-License-Identifier: Apache-2.0
// Appends nodes to a graph: infers types, checks attributes, and records scope, phase and
// provenance.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace ridge::inline graph {

// The most nodes of a graph: enough to train a model of 160 layers without any fusion. Each of the
// plans that a command compares takes tens of microseconds per node.
inline constexpr int64_t kMostNodes = int64_t{1} << 16;

class Builder {
 public:
  Builder(Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}

  Graph& graph() { return graph_; }
  const OpTable& ops() const { return ops_; }
  // Copies, because a reference into the graph dangles once a node is appended.
  Type type(ValueId value) const { return graph_.type(value); }
  Shape shape(ValueId value) const { return graph_.shape(value); }

  // Values without a producer. A name already taken with the same type and storage returns the same
  // value.
  ValueId parameter(std::string name, Type type);
  ValueId input(std::string name, Type type);
  ValueId state(std::string name, Type type);

  // Appends a node; a usage Error names the op, the inputs' types and the scope. Throws an
  // out-of-memory Error if the graph has kMostNodes nodes.
  ValueId call(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> call_all(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});

  // Scopes nest: within scope("attention") inside scope("layer.3") nodes carry "layer.3/attention".
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope() { builder_.scope_ = previous_; }
    Scope(const Scope&) = delete;

   private:
    Builder& builder_;
    std::string previous_;
  };
  Scope scope(std::string_view name) { return Scope(*this, name); }
  void set_phase(Phase phase) { phase_ = phase; }

  // By default each node is a new origin: something that a model built. Inside `derive`, new nodes
  // carry the given origins instead: a pass, an expansion or differentiation made them from these.
  class Derive {
   public:
    Derive(Builder& builder, std::vector<Origin> from, std::string scope, Phase phase);
    ~Derive();
    Derive(const Derive&) = delete;

   private:
    Builder& builder_;
    std::vector<Origin> from_;
    std::string scope_;
    Phase phase_;
    bool derived_;
  };
  Derive derive(std::vector<Origin> from, std::string scope, Phase phase) {
    return Derive(*this, std::move(from), std::move(scope), phase);
  }
  Derive derive(const Node& node) { return Derive(*this, node.from, node.scope, node.phase); }

 private:
  ValueId named(std::string name, Type type, Storage storage);
  ValueId find(const std::string& name);

  Graph& graph_;
  std::unordered_map<std::string, ValueId> named_;  // it has the first `indexed_` values
  size_t indexed_ = 0;
  const OpTable& ops_;
  std::string scope_;
  Phase phase_ = Phase::kForward;
  bool derived_ = false;
  std::vector<Origin> from_;
};

// The attributes completed with defaults; a usage Error names an unknown, missing or mistyped one.
Attrs complete_attrs(const Op& op, Attrs attrs);

// The model work of a node: the op's own closed form, or else its work forward and twice its
// products backward.
ModelWork model_work(const Op& op, const Call& call);

}  // namespace ridge::inline graph
