// SPDX-License-Identifier: Apache-2.0
// Prints graphs; the parser is in text_parse.cc.
#include "graph/text_form.h"

#include <bit>

#include "base/error.h"

namespace ridge::inline graph {
namespace {

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// Prints a real so that it is not read as an integer: 1.0, 1e-06, inf.
std::string print_real(double value) {
  std::string text = fmt::format("{}", value);
  bool marked = text.find_first_of(".einf") != std::string::npos;
  return marked ? text : text + ".0";
}

std::string print_attr(const AttrValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return print_real(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return quote(v); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return fmt::format("[{}]", fmt::join(v, ","));
    }
    std::string operator()(const NestedGraph& v) const {
      return v == nullptr ? "graph {}" : "graph {\n" + print(*v, {.origins = false}) + "}";
    }
  };
  return std::visit(Visitor{}, value);
}

// Compares reals bit by bit: -0.0 differs from 0.0.
bool is_same(const AttrValue& a, const AttrValue& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x != nullptr && y != nullptr)
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
  return a == b;
}

bool is_default(const Op& op, std::string_view name, const AttrValue& value) {
  for (const AttrSpec& spec : op.attrs)
    if (spec.name == name) return !spec.required && is_same(spec.value, value);
  return false;
}

// Omits defaults, so that an op's new attribute changes only texts that use it.
std::string print_attrs(const Node& node) {
  std::string text;
  for (const auto& [name, value] : node.attrs)
    if (!is_default(*node.op, name, value))
      text += (text.empty() ? "" : ", ") + name + "=" + print_attr(value);
  return text.empty() ? "" : " {" + text + "}";
}

std::string print_values(const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += fmt::format("{}%{}", text.empty() ? "" : ", ", value);
  return text;
}

std::string print_origins(const std::vector<Origin>& from) {
  std::string text;
  for (const Origin& origin : from)
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", origin.id, name(origin.phase)[0]);
  return " <" + text + ">";
}

std::string print_work(const Work& work) {
  return fmt::format("({},{},{})", work.macs, work.flops, work.transcendentals);
}

}  // namespace

std::string print(const Graph& graph, const Node& node, const PrintOptions& options) {
  std::string text;
  for (ValueId output : node.outputs)
    text += fmt::format("{}%{} : {}", text.empty() ? "" : ", ", output, graph.type(output).str());
  text += fmt::format(" = {}({}){}", node.op->name, print_values(node.inputs), print_attrs(node));
  if (options.scopes) text += fmt::format(" @ {}", quote(node.scope));
  text += fmt::format(" #{}", name(node.phase));
  if (options.origins && !node.from.empty()) text += print_origins(node.from);
  return text + "\n";
}

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string text;
  for (size_t i = 0; options.origins && i < graph.origins.size(); ++i) {
    const OriginRecord& record = graph.origins[i];
    text += fmt::format("origin {} {} {} #{} {} {}\n", i, record.op, quote(record.scope),
                        name(record.phase), print_work(record.work.forward),
                        print_work(record.work.backward));
  }
  // Values are printed in the order of their ids, so that parsing the text assigns the same ids.
  size_t next = 0;
  auto print_named_until = [&](size_t end) {
    for (; next < end; ++next) {
      const Value& value = graph.values[next];
      if (value.producer != kNoNode) continue;
      text += fmt::format("%{} = {} {} {}\n", next, value.frozen ? "frozen" : name(value.storage),
                          value.type.str(), quote(value.name));
    }
  };
  for (const Node& node : graph.nodes) {
    // Operands come first, whatever their ids: a graph under construction may have them in any
    // order.
    for (ValueId input : node.inputs)
      if (graph.value(input).producer == kNoNode) print_named_until(static_cast<size_t>(input) + 1);
    if (!node.outputs.empty()) print_named_until(static_cast<size_t>(node.outputs[0]));
    text += print(graph, node, options);
  }
  print_named_until(graph.values.size());
  return text + fmt::format("return {}\n", print_values(graph.outputs));
}

}  // namespace ridge::inline graph
