// SPDX-License-Identifier: Apache-2.0
// Binds graphs: a method for each op of the registry, the gradient, the passes, and runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "bench/graph_file.h"
#include "bench/graph_run.h"
#include "bench/own_pass.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "passes/differentiate.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/errors.h"
#include "python/graph.h"
#include "python/graph_cost.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/type_names.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
using SharedGraph = std::shared_ptr<PythonGraph>;

Type type_of(nb::handle dtype, nb::handle shape) {
  const DType element = dtype_of(dtype);
  std::vector<int64_t> extents;
  if (!nb::try_cast(shape, extents))
    throw usage_error("[shape] expected a list of ints, got {}", type_name_of(shape));
  if (extents.size() > static_cast<size_t>(kMaxRank))
    throw usage_error("[shape] expected at most {} axes, got {}", kMaxRank, extents.size());
  const Type type{element, Shape(std::span<const int64_t>(extents))};
  static_cast<void>(storage_bytes(type.dtype, type.shape.elements()));
  return type;
}

namespace {

std::string attributes_of(const Op& op) {
  std::string names;
  for (const AttrSpec& each : op.attrs) names += (names.empty() ? "" : ", ") + each.name;
  return names.empty() ? "no attribute" : "an attribute of " + names;
}

const char* kind_of(const AttrValue& value) {
  constexpr const char* kKinds[] = {"an int", "a number",       "True or False",
                                    "a text", "a list of ints", "a Graph"};
  return kKinds[value.index()];
}

AttrValue attr_of(const Op& op, const AttrSpec& spec, nb::handle given) {
  AttrValue value = spec.value;
  if (spec.name == "dtype" && std::holds_alternative<std::string>(value))
    return std::string(name(dtype_of(given)));
  const bool fits = std::visit(
      [&](auto& typed) {
        using T = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<T, NestedGraph>) {
          SharedGraph nested;
          if (!nb::try_cast(given, nested) || nested == nullptr) return false;
          typed = std::make_shared<const Graph>(nested->graph);
          return true;
        } else {
          return nb::try_cast(given, typed,
                              std::is_same_v<T, double> || std::is_same_v<T, std::vector<int64_t>>);
        }
      },
      value);
  if (!fits)
    throw usage_error("[{}] expected {} for {}, got {}", op.name, kind_of(spec.value), spec.name,
                      type_name_of(given));
  return value;
}

}  // namespace

Attrs attrs_of(const Op& op, const nb::kwargs& given) {
  Attrs attrs;
  for (auto [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const auto spec =
        std::ranges::find_if(op.attrs, [&](const AttrSpec& each) { return each.name == name; });
    if (spec == op.attrs.end())
      throw usage_error("[{}] expected {}, got {}", op.name, attributes_of(op), printable(name));
    attrs.set(name, attr_of(op, *spec, value));
  }
  return attrs;
}

namespace {

template <ValueId (Builder::*kDeclare)(std::string, Type)>
PythonValue declare(const SharedGraph& self, std::string name, nb::handle shape, nb::handle dtype) {
  if (name.empty()) throw usage_error("[name] expected a name, got none");
  return {self, (self->builder.*kDeclare)(std::move(name), type_of(dtype, shape))};
}

ValueId id_in(const SharedGraph& graph, nb::handle value) {
  PythonValue given;
  if (!nb::try_cast(value, given))
    throw usage_error("[graph] expected a value of a graph, got {}", type_name_of(value));
  if (given.graph != graph) throw usage_error("[graph] expected values of this graph");
  return given.id;
}

// A value, or a tuple of the op's values if it has several.
nb::object call(const Op& op,
                const SharedGraph& self,
                const nb::args& inputs,
                const nb::kwargs& given) {
  std::vector<ValueId> ids;
  for (nb::handle each : inputs) ids.push_back(id_in(self, each));
  const std::vector<ValueId> outputs = self->builder.call_all(op.name, ids, attrs_of(op, given));
  nb::list values;
  for (const ValueId each : outputs) values.append(nb::cast(PythonValue{self, each}));
  return outputs.size() == 1 ? nb::object(values[0]) : nb::object(nb::tuple(values));
}

void output(const SharedGraph& self, const nb::args& values) {
  std::vector<ValueId> ids;
  for (nb::handle each : values) ids.push_back(id_in(self, each));
  self->graph.outputs = std::move(ids);
}

std::string kind_of_operands(const Op& op) {
  const auto [least, most] = op.operands;
  if (most == kAnyNumber) return fmt::format("{} values or more", least);
  if (least != most) return fmt::format("{} to {} values", least, most);
  return fmt::format("{} value{}", least, least == 1 ? "" : "s");
}

// "Takes 2 values. Attributes: einsum (required), accumulate = false. Cost: ..."
std::string doc_of(const Op& op) {
  std::string doc =
      fmt::format("The op {}: {}; takes {}.", op.name, name(op.category), kind_of_operands(op));
  std::string attrs;
  for (const AttrSpec& each : op.attrs)
    attrs += fmt::format("{}{}{}", attrs.empty() ? "" : ", ", each.name,
                         each.required ? " (required)" : "");
  if (!attrs.empty()) doc += fmt::format(" Attributes: {}.", attrs);
  if (!op.formula.empty()) doc += fmt::format(" Cost: {}.", op.formula);
  return doc;
}

bool is_trainable(const Value& value) {
  return value.producer == kNoNode && is_float(value.type.dtype) &&
         (value.storage == Storage::kParameter || value.storage == Storage::kInput);
}

std::vector<PythonValue> differentiate(const SharedGraph& self, nb::handle loss, nb::handle wrt) {
  const ValueId scalar = id_in(self, loss);
  Graph& graph = self->graph;
  if (graph.shape(scalar).elements() != 1 || !is_float(graph.type(scalar).dtype))
    throw usage_error("[differentiate] expected a loss of one float, got {}",
                      graph.type(scalar).str());
  std::vector<ValueId> wanted;
  if (wrt.is_none()) {
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (is_trainable(graph.values[i])) wanted.push_back(static_cast<ValueId>(i));
  } else {
    if (!nb::isinstance<nb::sequence>(wrt))
      throw usage_error("[wrt] expected a list of values, got {}", type_name_of(wrt));
    for (nb::handle each : nb::borrow<nb::sequence>(wrt)) wanted.push_back(id_in(self, each));
  }
  Graph copy = graph;  // stays as it is if an op has no gradient
  std::vector<PythonValue> gradients;
  std::vector<ValueId> ids;
  try {
    ids = passes::differentiate(copy, ops::table(), scalar, wanted);
  } catch (const InternalError& error) {
    throw usage_error("[differentiate] {}", error.what());
  }
  graph = std::move(copy);
  for (const ValueId each : ids) gradients.push_back({self, each});
  return gradients;
}

bench::OperandBytes operands(const Graph& graph, nb::dict given, const nb::dict& named) {
  for (auto [name, value] : named) given[name] = value;
  bench::OperandBytes bytes;
  for (const Value& each : bench::operands_of(graph)) {
    if (!given.contains(each.name.c_str())) continue;
    const nb::object value = given[each.name.c_str()];
    const auto check = [&](const Shape& shape) {
      if (shape != each.type.shape)
        throw usage_error("[{}] expected {}, got {}", printable(each.name), each.type.str(),
                          shape.str());
    };
    if (is_float(each.type.dtype) || is_block(each.type.dtype)) {
      const Numbers numbers = numbers_of(value, each.name);
      check(numbers.shape);
      bytes[each.name] = bench::stored(each, numbers.values);
    } else {
      const Integers integers = integers_of(value, each.name);
      check(integers.shape);
      bytes[each.name] = bench::stored(each, integers.values);
    }
  }
  for (auto [name, value] : given)
    if (const std::string text = nb::cast<std::string>(name); !bytes.contains(text)) bytes[text];
  return bytes;
}

nb::object run(const SharedGraph& self, const nb::object& values, const nb::kwargs& given) {
  Keywords keywords(given);
  bool as_float32 = true;
  keywords.take("float32", as_float32);
  const Place place(keywords);
  const bench::TrialGraph trial = bench::trial_of_outputs(self->graph);
  nb::dict by_name;
  if (!values.is_none() && !nb::try_cast(values, by_name))
    throw usage_error("[run] expected a dict of arrays by name, got {}", type_name_of(values));
  const bench::OperandBytes bytes =
      operands(trial.graph, nb::steal<nb::dict>(PyDict_Copy(by_name.ptr())), keywords.left());
  std::vector<std::vector<float>> outputs;
  {
    const nb::gil_scoped_release release;
    outputs = bench::run_graph(trial, place.selection, *place.backend, bytes);
  }
  nb::list arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [dtype, shape] = trial.graph.type(trial.graph.outputs[i]);
    arrays.append(
        array_of(std::move(outputs[i]), shape.to_vector(), as_float32 ? DType::kF32 : dtype));
  }
  return outputs.size() == 1 ? nb::object(arrays[0]) : nb::object(nb::tuple(arrays));
}

SharedGraph apply_own(const SharedGraph& self, const PythonPass& pass) {
  const Graph graph = bench::trial_of_outputs(self->graph).graph;
  return std::make_shared<PythonGraph>(bench::apply_rule(graph, pass.rule));
}

SharedGraph apply(const SharedGraph& self, nb::handle what, const nb::kwargs& given) {
  Keywords keywords(given);
  const Place place(keywords);
  keywords.expect_none_left();
  if (std::shared_ptr<PythonPass> own; nb::try_cast(what, own) && own != nullptr)
    return apply_own(self, *own);
  std::string names;
  if (!nb::try_cast(what, names))
    throw usage_error("[apply] expected the names of passes or a Pass, got {}", type_name_of(what));
  LoadGraph load;
  passes::PassContext context{ops::table(), *place.backend, load, nullptr, place.backend->passes()};
  Graph graph = bench::trial_of_outputs(self->graph).graph;
  const std::vector<passes::Switch> switches = passes::parse_switches(names);
  if (switches.empty()) throw usage_error("[apply] expected the name of a pass, got none");
  for (const passes::Switch& each : switches) {
    const auto pipeline = passes::pipeline(place.backend->passes());
    const auto found = std::ranges::find_if(
        pipeline, [&](const passes::Pass* pass) { return pass->name == each.name; });
    if (found == pipeline.end() || !each.is_on)
      throw usage_error("[apply] expected a pass of {}, got {}", place.backend->name(), each.name);
    context.number = each.number;
    Graph next = (*found)->run(graph, context);
    verify(next);
    verify_origins(graph, next);
    graph = std::move(next);
  }
  return std::make_shared<PythonGraph>(std::move(graph));
}

SharedGraph optimize(const SharedGraph& self, const nb::kwargs& given) {
  Keywords keywords(given);
  const Place place(keywords);
  keywords.expect_none_left();
  bench::TrialSetting setting;
  setting.selection = place.selection;
  return std::make_shared<PythonGraph>(
      bench::prepare(bench::trial_of_outputs(self->graph), setting, *place.backend).graph);
}

GraphCost cost(const SharedGraph& self, const nb::kwargs& given) {
  Keywords keywords(given);
  const bool rewrites = given.contains("level") || given.contains("passes");
  const Place place(keywords);
  keywords.expect_none_left();
  const std::optional<cost::Ceilings> ceilings = place.ceilings();
  Graph graph = bench::trial_of_outputs(self->graph).graph;
  if (rewrites) {
    bench::TrialSetting setting;
    setting.selection = place.selection;
    graph = bench::prepare({graph}, setting, *place.backend).graph;
  }
  const nb::gil_scoped_release release;
  return cost_of(std::move(graph), *place.backend, ceilings ? &*ceilings : nullptr);
}

Report plan(const SharedGraph& self, const nb::kwargs& given) {
  return plan_report(cost(self, given));
}

record::BenchPoint profile(const SharedGraph& self, const nb::kwargs& given) {
  Keywords keywords(given);
  bench::TrialSetting setting;
  double seconds = 0.5;
  bool is_cold = false;
  keywords.take("seconds", seconds), keywords.take("cold", is_cold);
  keywords.take("backward", setting.is_backward);
  const Place place(keywords);
  keywords.expect_none_left();
  Interrupts interrupts;
  setting.selection = place.selection;
  setting.budget_ns = budget_ns(seconds);
  setting.caches = is_cold ? bench::Caches::kCold : bench::Caches::kWarm;
  setting.is_stopped = [&] { return interrupts.is_set(); };
  const bench::TrialGraph trial = bench::trial_of_outputs(self->graph);
  const std::optional<cost::Ceilings> ceilings = place.ceilings();
  record::BenchPoint point;
  {
    const nb::gil_scoped_release release;
    point = bench::run_trial(trial, setting, *place.backend, ceilings ? &*ceilings : nullptr);
  }
  interrupts.rethrow();
  if (!point.refused.empty()) throw runtime_error("[profile] {}", point.refused);
  return point;
}

constexpr const char* kRun =
    "Runs the graph once and returns its outputs as float32 arrays: one array, or a tuple in the "
    "order of `output`. `values` or keywords give each input and parameter by name, an array or "
    "nested lists of its shape; states begin with zeros unless they are given. float32=False: the "
    "outputs in the graph's types, f16 as float16, bf16 as ml_dtypes.bfloat16 if that is installed, "
    "else as an object that torch.from_dlpack reads. level, passes, device, threads: as the options "
    "of the command line (default: baseline).\n\n"
    "Raises UsageError for values that are missing, unknown or of another shape.";

// "<ridge.Graph: 3 nodes, x f32[4,8], w f32[3,8]>", with the first operands.
std::string summary(const PythonGraph& self) {
  constexpr size_t kMostOperands = 6;
  const std::vector<Value> operands = bench::operands_of(self.graph);
  std::string text = "<ridge.Graph: " + counted(std::ssize(self.graph.nodes), "node");
  for (size_t i = 0; i < std::min(operands.size(), kMostOperands); ++i)
    text += ", " + terminal_safe(operands[i].name) + " " + operands[i].type.str();
  return text + (operands.size() > kMostOperands ? ", ...>" : ">");
}

// A method for each op, with its formula.
void bind_ops(nb::class_<PythonGraph>& graph) {
  for (const Op* op : ops::table().all()) {
    const std::string signature = fmt::format(
        "def {}(self, *values: Value, **attributes: typing.Any) -> typing.Any", op->name);
    const std::string doc = doc_of(*op);
    graph.def(
        op->name.c_str(),
        [op](const SharedGraph& self, const nb::args& inputs, const nb::kwargs& given) {
          return call(*op, self, inputs, given);
        },
        doc.c_str(), nb::sig(signature.c_str()));
  }
}

}  // namespace

void bind_graph(nb::module_& m) {
  bind_value(m);
  bind_graph_cost(m);
  nb::class_<PythonGraph> graph(
      m, "Graph",
      "A graph of values and nodes, in the order in which they run. Each op of `ridge explain` is a "
      "method: it takes values and the op's attributes and returns a value, or a tuple of values.");
  graph.def(nb::new_([] { return std::make_shared<PythonGraph>(); }))
      .def(
          "input", &declare<&Builder::input>, "name"_a, "shape"_a, "dtype"_a = "f32",
          "A value that each run is given.",
          nb::sig(
              "def input(self, name: str, shape: collections.abc.Sequence[int], dtype: typing.Any = 'f32') -> Value"))
      .def(
          "parameter", &declare<&Builder::parameter>, "name"_a, "shape"_a, "dtype"_a = "f32",
          "A value that runs share, such as a weight.",
          nb::sig(
              "def parameter(self, name: str, shape: collections.abc.Sequence[int], dtype: typing.Any = 'f32') "
              "-> Value"))
      .def(
          "state", &declare<&Builder::state>, "name"_a, "shape"_a, "dtype"_a = "f32",
          "A value that one run leaves for the next.",
          nb::sig(
              "def state(self, name: str, shape: collections.abc.Sequence[int], dtype: typing.Any = 'f32') -> Value"))
      .def("output", &output, "values"_a,
           "Sets the outputs. Without it, the values that nothing reads are the outputs.",
           nb::sig("def output(self, *values: Value) -> None"))
      .def(
          "differentiate", &differentiate, "loss"_a, "wrt"_a = nb::none(),
          "Appends the gradient of a scalar loss and returns the gradients of `wrt` (default: all "
          "parameters and inputs of floats, in the order of the graph). Raises UsageError for a "
          "loss that is no scalar, or an op without a gradient.",
          nb::sig(
              "def differentiate(self, loss: Value, wrt: collections.abc.Sequence[Value] | None = None) -> "
              "list[Value]"))
      .def("apply", &apply, "passes"_a, "options"_a,
           "The graph after a pass, or several: 'generate_pointwise', or a Pass of your own. It is "
           "verified. device as in `run`.",
           nb::sig("def apply(self, passes: str | Pass, **options: typing.Any) -> Graph"))
      .def("optimize", &optimize, "options"_a,
           "The graph after all passes of a level: level='compiled', passes='-legalize'.",
           nb::sig("def optimize(self, **options: typing.Any) -> Graph"))
      .def("cost", &cost, "options"_a,
           "What the graph costs: exact FLOPs and bytes, in all and per node, and times that the "
           "ceilings of this machine predict if they are known. With level= or passes= the cost "
           "after these.",
           nb::sig("def cost(self, **options: typing.Any) -> Cost"))
      .def(
          "plan", &plan, "options"_a,
          "The cost as a report, with the memory: what is live while each node runs, by class, and "
          "the ranges of the arena. Options as those of `cost`; `.data` has the figures.",
          nb::sig("def plan(self, **options: typing.Any) -> Report"))
      .def(
          "run", &run, "values"_a = nb::none(), "options"_a, kRun,
          nb::sig(
              "def run(self, values: dict[str, typing.Any] | None = None, **options: typing.Any) -> typing.Any"))
      .def("profile", &profile, "options"_a,
           "Times the graph on random data: level, passes, device, seconds (0.5), backward, cold.",
           nb::sig("def profile(self, **options: typing.Any) -> Measurement"))
      .def(
          "text",
          [](const PythonGraph& self, bool origins) {
            return print(self.graph, {.origins = origins});
          },
          "origins"_a = false, "The text form, which `ridge.parse` reads.")
      .def_prop_ro(
          "inputs",
          [](const SharedGraph& self) {
            std::vector<std::string> names;
            for (const Value& each : bench::operands_of(self->graph)) names.push_back(each.name);
            return names;
          },
          "The names of inputs, parameters and states.")
      .def_prop_ro("outputs",
                   [](const SharedGraph& self) {
                     std::vector<PythonValue> values;
                     for (const ValueId each : self->graph.outputs) values.push_back({self, each});
                     return values;
                   })
      .def("__len__", [](const PythonGraph& self) { return self.graph.nodes.size(); })
      .def("__str__", [](const PythonGraph& self) { return print(self.graph, {.origins = false}); })
      .def("_repr_html_",
           [](const PythonGraph& self) { return html_text(print(self.graph, {.origins = false})); })
      .def("__repr__", &summary);
  bind_ops(graph);
  m.def(
      "parse",
      [](const std::string& text) {
        return std::make_shared<PythonGraph>(parse_graph(text, ops::table()));
      },
      "text"_a, "A graph from its text form. Raises UsageError with line and column.");
}

}  // namespace ridge::python
