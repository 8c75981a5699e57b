// SPDX-License-Identifier: Apache-2.0
// Finds the layers of nodes by their scopes, and the one value that passes from layer to layer.
#include "passes/pipeline_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "passes/nodes.h"
#include "plan/rank_layout.h"

namespace ridge::passes {
namespace {

constexpr int64_t kBeforeLayers = -1, kBehindLayers = std::numeric_limits<int64_t>::max();

// The number in "layer.3/attention".
int64_t layer_of(std::string_view scope) {
  constexpr std::string_view kLayer = "layer.";
  if (scope.starts_with("embedding")) return kBeforeLayers;
  if (!scope.starts_with(kLayer)) return kBehindLayers;
  int64_t layer = 0;
  std::from_chars(scope.data() + kLayer.size(), scope.data() + scope.size(), layer);
  return layer;
}

// For each value, whether it is made from the tokens' rows of the embedding table.
std::vector<bool> values_of_tokens(const Graph& graph) {
  return made_from(graph, std::vector<bool>(graph.values.size(), false), [](const Node& node) {
    return is_a(node, ops::embedding_op()) && layer_of(node.scope) == kBeforeLayers;
  });
}

// Work of the embedding, of each layer and of the head, in FLOPs of a device that moves a byte in
// the time of 100 FLOPs: GPUs have ridge points of 60 to 300 in 16 bits, CPUs of 10 to 100.
std::vector<double> work_by_layer(const Graph& graph) {
  constexpr double kFlopsOfAByte = 100;
  int64_t layers = 0;
  for (const Node& node : graph.nodes)
    if (const int64_t layer = layer_of(node.scope); layer != kBehindLayers)
      layers = std::max(layers, layer + 1);
  std::vector<double> work(static_cast<size_t>(layers) + 2, 0);
  for (const Node& node : graph.nodes) {
    const int64_t layer = std::min(layer_of(node.scope), layers);
    double flops = 0, bytes = 0;
    for (const Origin& origin : node.from) {
      const ModelWork& of = graph.origins[static_cast<size_t>(origin.id)].work;
      flops += static_cast<double>(of.forward.flops + of.backward.flops);
    }
    if (node.op->kind != OpKind::kView)
      for (const ValueId output : node.outputs)
        bytes += static_cast<double>(
            storage_bytes(graph.type(output).dtype, graph.shape(output).elements()));
    constexpr double kPasses = 3;  // written, read by the next node, and again by the backward pass
    work[static_cast<size_t>(layer + 1)] += std::max(flops, kPasses * kFlopsOfAByte * bytes);
  }
  return work;
}

Attrs pair_of(std::string group) { return {{"group", std::move(group)}, {"ranks", int64_t{2}}}; }

ValueId receive(Builder& b, std::string group, const Type& type) {
  Attrs attrs = pair_of(std::move(group));
  attrs.set("shape", type.shape.to_vector());
  attrs.set("dtype", std::string(name(type.dtype)));
  return b.call("receive", {}, attrs);
}

class Cutter {
 public:
  Cutter(const Graph& forward, const PipelinePart& part, std::span<const int64_t> first_layers)
      : own_(forward),
        part_(part),
        begin_(part.index == 0 ? kBeforeLayers : first_layers[static_cast<size_t>(part.index)]),
        end_(part.is_last() ? kBehindLayers : first_layers[static_cast<size_t>(part.index + 1)]),
        of_tokens_(values_of_tokens(forward)) {
    if (!part.is_last()) own_.outputs.clear();
    find_kept();
  }

  Graph run(const OpTable& ops) {
    Rewriter rewriter(own_, ops);
    for (size_t i = 0; i < own_.values.size(); ++i)
      if (own_.values[i].producer == kNoNode && !is_read_[i])
        rewriter.drop(static_cast<ValueId>(i));
    if (received_ != kNoValue) {
      Builder& b = rewriter.builder();
      const auto scope = b.scope(scope_of(begin_));
      rewriter.replace(received_,
                       receive_from_previous(b, own_.type(received_), part_.stage(), part_.stages));
    }
    return rewriter.run([&](Rewriter& made, NodeId id) {
      if (!keeps_[static_cast<size_t>(id)]) return true;
      const Node& node = own_.node(id);
      made.replace_all(node.outputs, made.copy(node));
      if (std::ranges::count(node.outputs, sent_) > 0) send(made);
      return true;
    });
  }

 private:
  static std::string scope_of(int64_t layer) { return fmt::format("pipeline/layer.{}", layer); }

  bool is_inside(const Node& node) const {
    const int64_t layer = layer_of(node.scope);
    return layer >= begin_ && (layer < end_ || part_.is_last());
  }
  bool is_of_tokens(const Node& node) const {
    return of_tokens_[static_cast<size_t>(node.outputs[0])];
  }

  // Each part that reads values of positions alone makes them again.
  void find_kept() {
    keeps_.assign(own_.nodes.size(), false);
    is_read_.assign(own_.values.size(), false);
    std::set<ValueId> received, sent;
    for (size_t i = own_.nodes.size(); i-- > 0;) {
      const Node& node = own_.nodes[i];
      const bool is_read = std::ranges::any_of(
          node.outputs, [&](ValueId each) { return is_read_[static_cast<size_t>(each)]; });
      const bool keeps = is_of_tokens(node) ? is_inside(node) : is_read;
      keeps_[i] = keeps;
      for (const ValueId input : node.inputs) {
        const Node* producer = own_.producer(input);
        const bool passes = producer != nullptr && is_of_tokens(*producer);
        if (keeps && passes && !is_inside(*producer))
          received.insert(input);
        else if (keeps)
          is_read_[static_cast<size_t>(input)] = true;
        else if (passes && is_inside(*producer) && is_of_tokens(node))
          sent.insert(input);
      }
    }
    RIDGE_CHECK(std::ssize(received) == (part_.index > 0 ? 1 : 0) &&
                    std::ssize(sent) == (part_.is_last() ? 0 : 1),
                "part {} receives {} values and sends {}", part_.index, received.size(),
                sent.size());
    if (!received.empty()) received_ = *received.begin();
    if (!sent.empty()) sent_ = *sent.begin();
  }

  void send(Rewriter& made) const {
    Builder& b = made.builder();
    const auto scope = b.scope(scope_of(end_));
    send_to_next(b, made.map(sent_), part_.stage(), part_.stages);
  }

  Graph own_;
  PipelinePart part_;
  int64_t begin_, end_;  // layers
  std::vector<bool> of_tokens_, keeps_, is_read_;
  ValueId received_ = kNoValue, sent_ = kNoValue;
};

}  // namespace

std::vector<int64_t> cut_layers(const Graph& forward, int64_t parts) {
  const std::vector<double> work = work_by_layer(forward);
  const int64_t layers = std::ssize(work) - 2;
  if (layers < parts)
    throw usage_error("[pipeline-parallel] expected at most {} parts, one for each layer, got {}",
                      layers, parts);
  std::vector<double> before{0};  // the work of the layers before each
  for (int64_t i = 0; i < layers; ++i)
    before.push_back(before.back() + work[static_cast<size_t>(i + 1)]);
  const auto time_of = [&](int64_t part, int64_t begin, int64_t end) {
    return before[static_cast<size_t>(end)] - before[static_cast<size_t>(begin)] +
           (part == 0 ? work.front() : 0) + (part + 1 == parts ? work.back() : 0);
  };
  // By part and its end: the time of the slowest part so far, then the sum of squares, and where
  // the part begins.
  struct Best {
    double slowest = std::numeric_limits<double>::infinity(), squares = slowest;
    int64_t begin = 0;
  };
  std::vector<std::vector<Best>> best(static_cast<size_t>(parts) + 1,
                                      std::vector<Best>(static_cast<size_t>(layers) + 1));
  best[0][0] = {0, 0, 0};
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t end = part + 1; end <= layers; ++end)
      for (int64_t begin = part; begin < end; ++begin) {
        const Best& so_far = best[static_cast<size_t>(part)][static_cast<size_t>(begin)];
        const double own = time_of(part, begin, end);
        const Best found{std::max(so_far.slowest, own), so_far.squares + own * own, begin};
        Best& known = best[static_cast<size_t>(part) + 1][static_cast<size_t>(end)];
        if (std::pair(found.slowest, found.squares) < std::pair(known.slowest, known.squares))
          known = found;
      }
  std::vector<int64_t> cuts{layers};
  for (int64_t part = parts; part > 0; --part)
    cuts.push_back(best[static_cast<size_t>(part)][static_cast<size_t>(cuts.back())].begin);
  std::ranges::reverse(cuts);
  return cuts;
}

void send_to_next(Builder& b, ValueId value, int64_t stage, int64_t stages) {
  b.call("send", {value}, pair_of(plan::stage_pair(stage, (stage + 1) % stages, stages)));
}

ValueId receive_from_previous(Builder& b,
                              const Type& type,
                              int64_t stage,
                              int64_t stages,
                              ValueId state) {
  std::string group = plan::stage_pair((stage + stages - 1) % stages, stage, stages);
  return state == kNoValue ? receive(b, std::move(group), type)
                           : b.call("receive", {state}, pair_of(std::move(group)));
}

Graph cut_part(const Graph& forward,
               const OpTable& ops,
               const PipelinePart& part,
               std::span<const int64_t> first_layers) {
  return Cutter(forward, part, first_layers).run(ops);
}

void keep_parameters(LoadGraph& load, std::span<const Graph> parts) {
  std::erase_if(load.stored, [&](const auto& each) {
    return std::ranges::none_of(
        parts, [&](const Graph& part) { return part.find(each.first) != kNoValue; });
  });
}

std::vector<ValueId> differentiate_part(Graph& graph,
                                        const OpTable& ops,
                                        std::span<const ValueId> parameters,
                                        const std::function<ValueId(Builder&)>& seed) {
  std::vector<ValueId> wanted(parameters.begin(), parameters.end()), gradients;
  const Node *first = first_of(graph, ops::receive_op()), *last = first_of(graph, ops::send_op());
  Builder b(graph, ops);
  b.set_phase(Phase::kBackward);
  // Copies: nodes move when others are appended.
  const std::optional<Node> receives = first == nullptr ? std::nullopt : std::optional(*first),
                            sends = last == nullptr ? std::nullopt : std::optional(*last);
  if (receives) wanted.push_back(receives->outputs[0]);
  if (sends) {
    const auto scope = b.scope(sends->scope);
    const ValueId hidden = sends->inputs[0],
                  gradient = receive(b, sends->attrs.text("group"), graph.type(hidden));
    gradients = pull_back(graph, ops, std::array{hidden}, std::array{gradient}, wanted);
  } else {
    gradients = differentiate(graph, ops, graph.outputs[0], wanted, seed);
  }
  if (receives) {
    const auto scope = b.scope(receives->scope);
    RIDGE_CHECK(gradients.back() != kNoValue, "hidden states without a gradient");
    b.call("send", {gradients.back()}, pair_of(receives->attrs.text("group")));
    gradients.pop_back();
  }
  return gradients;
}

}  // namespace ridge::passes
