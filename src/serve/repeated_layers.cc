// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of each layer, and copies those of a layer with a window and of one without.
#include "serve/repeated_layers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace ridge::serve {
namespace {

// The number of a layer in "layer.3/mlp", "model.layers.3.mlp.up_proj.weight" or "cache.3.keys":
// the first part that has only digits. -1 if there is none.
struct LayerDigits {
  size_t begin = 0, end = 0;
  int64_t layer = -1;
};

LayerDigits layer_digits(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    bool has_only_digits = true;
    for (; end < name.size() && name[end] != '.' && name[end] != '/'; ++end)
      has_only_digits = has_only_digits && is_digit(name[end]);
    LayerDigits found{begin, end};
    if (has_only_digits &&
        std::from_chars(name.data() + begin, name.data() + end, found.layer).ec == std::errc())
      return found;
    begin = end + 1;
  }
  return {};
}

// The same name so many layers later.
std::string later(std::string name, int64_t layers) {
  const LayerDigits digits = layer_digits(name);
  if (layers != 0 && digits.layer >= 0)
    name.replace(digits.begin, digits.end - digits.begin, std::to_string(digits.layer + layers));
  return name;
}

// Inputs have no layer; the digits in their names are extents.
int64_t layer_of(const Value& value) {
  const bool is_stored =
      value.storage == Storage::kParameter || value.storage == Storage::kState;
  return is_stored ? layer_digits(value.name).layer : -1;
}

// Where each layer begins in a list of nodes or of origins. All layers but the first and the last
// have as many.
class LayerBegins {
 public:
  template <typename Scoped>
  LayerBegins(const std::vector<Scoped>& all, int64_t layers)
      : begins_(static_cast<size_t>(layers), std::ssize(all)) {
    for (int64_t i = std::ssize(all); i-- > 0;) {
      const int64_t layer = layer_digits(all[static_cast<size_t>(i)].scope).layer;
      if (layer >= 0 && layer < layers) begins_[static_cast<size_t>(layer)] = i;
    }
  }

  int64_t operator[](int64_t layer) const { return begins_[static_cast<size_t>(layer)]; }
  int64_t last() const { return begins_.back(); }
  int64_t length() const { return begins_[2] - begins_[1]; }
  bool are_even() const {
    for (size_t i = 1; i + 1 < begins_.size(); ++i)
      if (begins_[i + 1] - begins_[i] != length()) return false;
    return length() > 0;
  }

 private:
  std::vector<int64_t> begins_;
};

// The first two layers are as they are. Those between them and the last one are copies of the
// layers that follow the first two in the graph of few.
constexpr int64_t kFront = 2;

// The layer of `few` of which a layer is a copy.
int64_t template_of(const models::ModelConfig& few, bool is_window) {
  int64_t layer = kFront;
  while (layer + 2 < few.layers && few.is_window(layer) != is_window) ++layer;
  return layer;
}

class Repetition {
 public:
  Repetition(const Graph& graph, const models::ModelConfig& few, const models::ModelConfig& all)
      : graph_(graph),
        few_(few),
        config_(all),
        nodes_(graph.nodes, few.layers),
        origins_(graph.origins, few.layers),
        series_(graph.values.size()) {}

  std::optional<Graph> run() {
    const int64_t more = config_.layers - few_.layers;
    if (!nodes_.are_even() || !origins_.are_even() || !are_alike() ||
        std::ssize(graph_.nodes) + more * nodes_.length() > kMostNodes)
      return std::nullopt;
    all_.nodes.reserve(graph_.nodes.size() + static_cast<size_t>(more * nodes_.length()));
    all_.origins.reserve(graph_.origins.size() + static_cast<size_t>(more * origins_.length()));
    add_named_values();
    add(0, nodes_[kFront], 0);
    add_origins(0, origins_[kFront], 0);
    for (int64_t layer = kFront; layer + 1 < config_.layers; ++layer) {
      const int64_t from = template_of(few_, config_.is_window(layer));
      add(nodes_[from], nodes_[from + 1], layer - from);
      add_origins(origins_[from], origins_[from + 1], layer - from);
    }
    add(nodes_.last(), std::ssize(graph_.nodes), more);
    add_origins(origins_.last(), std::ssize(graph_.origins), more);
    for (ValueId output : graph_.outputs) all_.outputs.push_back(moved(output, more));
    return std::move(all_);
  }

 private:
  int64_t producer(ValueId value) const { return graph_.value(value).producer; }

  // Whether the nodes of layers read only what was made before all of them, and what is of their
  // own layer or of the one before; and whether layer 1 is like one of the layers that are copied.
  bool are_alike() const {
    for (int64_t layer = kFront; layer < few_.layers; ++layer) {
      const int64_t end = layer + 1 < few_.layers ? nodes_[layer + 1] : std::ssize(graph_.nodes);
      for (int64_t i = nodes_[layer]; i < end; ++i) {
        const Node& node = graph_.nodes[static_cast<size_t>(i)];
        for (ValueId input : node.inputs)
          if (!is_near(producer(input), nodes_, layer)) return false;
        for (const Origin& origin : node.from)
          if (!is_near(origin.id, origins_, layer)) return false;
      }
    }
    const int64_t from = template_of(few_, few_.is_window(1));
    if (few_.is_window(from) != few_.is_window(1)) return true;
    for (int64_t i = nodes_[1]; i < nodes_[kFront]; ++i)
      if (!is_alike(i, i + (from - 1) * nodes_.length(), from - 1)) return false;
    return true;
  }

  static bool is_near(int64_t at, const LayerBegins& begins, int64_t layer) {
    return at < begins[1] || at >= begins[layer - 1];
  }

  // Whether the second node is the first some layers later.
  bool is_alike(int64_t first, int64_t second, int64_t layers) const {
    const Node &node = graph_.nodes[static_cast<size_t>(first)],
               &next = graph_.nodes[static_cast<size_t>(second)];
    const auto is_later = [&](ValueId a, ValueId b) {
      const Value &value = graph_.value(a), &other = graph_.value(b);
      if (value.type != other.type || value.storage != other.storage) return false;
      if (value.producer == kNoNode)
        return other.producer == kNoNode && moved_name(value, layers) == other.name;
      return a == b ? producer(a) < nodes_[1]
                    : producer(b) == producer(a) + layers * nodes_.length() && index(a) == index(b);
    };
    return node.op == next.op && node.phase == next.phase && node.attrs == next.attrs &&
           later(node.scope, layers) == next.scope && node.from.size() == next.from.size() &&
           std::ranges::equal(node.inputs, next.inputs, is_later);
  }

  // Among the outputs of its node.
  size_t index(ValueId value) const {
    const std::vector<ValueId>& outputs = graph_.node(graph_.value(value).producer).outputs;
    return static_cast<size_t>(std::ranges::find(outputs, value) - outputs.begin());
  }

  static std::string moved_name(const Value& value, int64_t layers) {
    return layer_of(value) < 0 ? value.name : later(value.name, layers);
  }

  void add_named_values() {
    std::map<std::string, size_t> known;  // series by the name in layer 0
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.producer != kNoNode) continue;
      const int64_t layer = layer_of(value);
      series_[i] = known.try_emplace(moved_name(value, -layer), known.size()).first->second;
      named_.resize(known.size());
      if (layer < kFront)
        add_named(i, 0);
      else if (layer + 1 >= few_.layers)
        add_named(i, config_.layers - few_.layers);
      else
        for (int64_t to = kFront; to + 1 < config_.layers; ++to)
          if (template_of(few_, config_.is_window(to)) == layer) add_named(i, to - layer);
    }
  }

  void add_named(size_t value, int64_t layers) {
    const Value& old = graph_.values[value];
    named_[series_[value]][layer_of(old) + layers] = static_cast<ValueId>(all_.values.size());
    all_.values.push_back(old);
    all_.values.back().name = moved_name(old, layers);
  }

  void add_origins(int64_t begin, int64_t end, int64_t layers) {
    for (int64_t i = begin; i < end; ++i) {
      all_.origins.push_back(graph_.origins[static_cast<size_t>(i)]);
      std::string& scope = all_.origins.back().scope;
      scope = later(std::move(scope), layers);
    }
  }

  // Appends nodes as they are so many layers later.
  void add(int64_t begin, int64_t end, int64_t layers) {
    for (int64_t i = begin; i < end; ++i) {
      Node node = graph_.nodes[static_cast<size_t>(i)];
      for (ValueId& input : node.inputs) input = moved(input, layers);
      for (ValueId& output : node.outputs) {
        all_.values.push_back(graph_.value(output));
        all_.values.back().producer = static_cast<NodeId>(all_.nodes.size());
        output = static_cast<ValueId>(all_.values.size() - 1);
      }
      node.scope = later(std::move(node.scope), layers);
      for (Origin& origin : node.from)
        if (origin.id >= origins_[1])
          origin.id += static_cast<int32_t>(layers * origins_.length());
      all_.nodes.push_back(std::move(node));
    }
  }

  // An operand as it is so many layers later. What was made before the layers stays.
  ValueId moved(ValueId value, int64_t layers) const {
    const Value& old = graph_.value(value);
    if (old.producer == kNoNode) {
      const int64_t layer = layer_of(old);
      return named_[series_[static_cast<size_t>(value)]].at(layer < 0 ? layer : layer + layers);
    }
    const int64_t at = old.producer < nodes_[1] ? old.producer
                                                : old.producer + layers * nodes_.length();
    return all_.nodes[static_cast<size_t>(at)].outputs[index(value)];
  }

  const Graph& graph_;
  const models::ModelConfig &few_, &config_;
  const LayerBegins nodes_, origins_;
  Graph all_;
  // Per named value of graph_: the series of values whose names differ only in their layer.
  std::vector<size_t> series_;
  std::vector<std::map<int64_t, ValueId>> named_;  // per series: the values of all_ by layer
};

}  // namespace

std::optional<models::ModelConfig> with_few_layers(const models::ModelConfig& config) {
  if (config.layers <= kFront + 2) return std::nullopt;
  std::vector<bool> windows = {config.is_window(0), config.is_window(1)};
  for (const bool is_window : {true, false})
    for (int64_t layer = kFront; layer + 1 < config.layers; ++layer)
      if (config.is_window(layer) == is_window) {
        windows.push_back(is_window);
        break;
      }
  windows.push_back(config.is_window(config.layers - 1));
  models::ModelConfig few = config;
  few.layers = std::ssize(windows);
  if (few.layers >= config.layers) return std::nullopt;
  if (!few.is_window_layer.empty()) few.is_window_layer = std::move(windows);
  return few;
}

std::optional<Graph> with_all_layers(const Graph& graph,
                                     const models::ModelConfig& few,
                                     const models::ModelConfig& config) {
  return Repetition(graph, few, config).run();
}

}  // namespace ridge::serve
