// SPDX-License-Identifier: Apache-2.0
// Propagates layouts through views and aliases, and places the inputs of concats.
#include "plan/places.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::plan {
namespace {

class Placer {
 public:
  Placer(const Graph& graph, const Target* target)
      : graph_(graph),
        target_(target),
        users_(graph.users()),
        concat_places_of_(graph.values.size(), nullptr) {}

  std::vector<Place> run() {
    places_.resize(graph_.values.size());
    concat_places_.reserve(graph_.values.size());
    // Outer concats come first, so that the place of a nested concat is known before those of its
    // parts.
    if (target_ != nullptr)
      for (size_t i = graph_.nodes.size(); i-- > 0;)
        if (graph_.nodes[i].op->joins) place_parts(graph_.nodes[i]);
    for (size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].producer == kNoNode) places_[i] = own(static_cast<ValueId>(i));
    for (const Node& node : graph_.nodes) place_outputs(node);
    return std::move(places_);
  }

 private:
  Place own(ValueId value) const { return {value, {0, dense_strides(graph_.shape(value))}, false}; }

  void place_outputs(const Node& node) {
    for (ValueId output : node.outputs) {
      const Place* in_concat = concat_places_of_[static_cast<size_t>(output)];
      places_[static_cast<size_t>(output)] = in_concat != nullptr ? *in_concat : own(output);
    }
    if (node.op->kind == OpKind::kView) place_view(node);
    for (const Alias& alias : aliases(graph_, node))
      places_[static_cast<size_t>(node.outputs[static_cast<size_t>(alias.output)])] =
          at(places_, node.inputs[static_cast<size_t>(alias.input)]);
  }

  void place_view(const Node& node) {
    const Place& input = at(places_, node.inputs[0]);
    Place& output = places_[static_cast<size_t>(node.outputs[0])];
    auto layout = node.op->view(CallTypes(graph_, node).call(), input.layout);
    if (layout)
      output = {input.root, *layout, input.inexpressible};
    else
      output.inexpressible = true;
  }

  // Gives each part of a concat a place inside the output if its producer can write there.
  void place_parts(const Node& concat) {
    ValueId output = concat.outputs[0];
    const Place* in_concat = concat_places_of_[static_cast<size_t>(output)];
    Place whole = in_concat != nullptr ? *in_concat : own(output);
    int axis = static_cast<int>(concat.attrs.integer("axis"));
    int64_t begin = 0;
    for (ValueId part : concat.inputs) {
      Layout layout{whole.layout.offset + begin * whole.layout.strides[axis], whole.layout.strides};
      // A part that occurs twice lies in one place and must be copied to the other, so the concat
      // runs a kernel.
      if (std::count(concat.inputs.begin(), concat.inputs.end(), part) == 1)
        place_inside(part, layout, whole.root);
      begin += graph_.shape(part)[axis];
    }
  }

  // The part itself, or the value that it is a reshape of, must be a temporary that only the concat
  // reads.
  void place_inside(ValueId value, Layout layout, ValueId root) {
    while (true) {
      const Value& info = graph_.value(value);
      if (info.storage != Storage::kTemporary || info.producer == kNoNode) return;
      if (users_[static_cast<size_t>(value)].size() != 1 || is_output(value)) return;
      const Node& producer = graph_.node(info.producer);
      if (producer.op->name != "reshape") break;
      // Undo the reshape: find the input layout that yields the required output layout.
      ValueId input = producer.inputs[0];
      Type from = graph_.type(value), to = graph_.type(input);
      auto undone = producer.op->view({{&from, 1}, {&to, 1}, producer.attrs}, layout);
      if (!undone) return;
      layout = *undone;
      value = input;
    }
    const Node& producer = graph_.node(graph_.value(value).producer);
    if (producer.op->kind == OpKind::kView ||
        concat_places_of_[static_cast<size_t>(value)] != nullptr)
      return;
    for (size_t o = 0; o < producer.outputs.size(); ++o)
      if (producer.outputs[o] == value &&
          !target_->takes_output(graph_, producer, static_cast<int>(o), layout))
        return;
    concat_places_.push_back({root, layout, false});
    concat_places_of_[static_cast<size_t>(value)] = &concat_places_.back();
  }

  bool is_output(ValueId value) const {
    for (ValueId output : graph_.outputs)
      if (output == value) return true;
    return false;
  }

  const Graph& graph_;
  const Target* target_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<Place> places_;
  std::vector<Place> concat_places_;
  std::vector<const Place*> concat_places_of_;  // per value, its place inside a concat
};

}  // namespace

std::vector<Place> places(const Graph& graph, const Target* target) {
  return Placer(graph, target).run();
}

int64_t distinct_elements(const Shape& shape, const Layout& layout) {
  int64_t elements = 1;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (layout.strides[axis] != 0 || shape[axis] == 0) elements *= shape[axis];
  return elements;
}

}  // namespace ridge::plan
