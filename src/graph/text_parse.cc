// SPDX-License-Identifier: Apache-2.0
// Parses the text form: a reader of tokens and one function per construct. Line breaks have no
// meaning.
#include <charconv>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/text_form.h"

namespace ridge::inline graph {
namespace {

constexpr int kMaxNesting = 8;  // graphs inside attributes inside graphs

// Reads the words, numbers and lists that the text consists of.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(std::string_view expected) {
    size_t line = 1, column = 1;
    for (char c : text_.substr(0, at_)) {
      column = c == '\n' ? 1 : column + 1;
      line += c == '\n' ? 1 : 0;
    }
    std::string found = at_ < text_.size() ? std::string(text_.substr(at_, 12)) : "the end";
    throw usage_error("[graph text] {}:{}: expected {}, found '{}'", line, column, expected, found);
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }

  std::string word() {
    skip_space();
    size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (begin == at_) fail("a word");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string string() {
    expect("\"");
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
      }
      value += c;
    }
    expect("\"");
    return value;
  }
  template <typename T>
  T number(std::string_view what) {
    skip_space();
    T value{};
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(what);
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  int64_t integer() { return number<int64_t>("an integer"); }

  std::vector<int64_t> integers() {
    std::vector<int64_t> values;
    expect("[");
    while (!accept("]")) {
      values.push_back(integer());
      if (!peek(']')) expect(",");
    }
    return values;
  }

  // A number is an integer unless it has a point, an exponent or is inf or nan.
  AttrValue number_of_its_kind() {
    skip_space();
    size_t end = text_.find_first_of(",}] \n", at_);
    std::string_view token = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
    if (token.find_first_of(".einf") != std::string_view::npos) return number<double>("a number");
    return integer();
  }

  void expect_end() {
    skip_space();
    if (at_ != text_.size()) fail("the end of the text");
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Parser : private Tokens {
 public:
  Parser(std::string_view text, const OpTable& ops) : Tokens(text), ops_(ops) {}

  Graph parse_all() {
    Graph graph = parse_graph_body(0);
    expect_end();
    return graph;
  }

 private:
  Type type() {
    std::string dtype_name = word();
    std::optional<DType> dtype = parse_dtype(dtype_name);
    if (!dtype) fail("an element type before this");
    return {*dtype, Shape(integers())};
  }

  AttrValue attr(int nesting) {
    if (peek('"')) return string();
    if (peek('[')) return integers();
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (accept("graph")) {
      expect("{");
      if (accept("}")) return NestedGraph();
      auto nested = std::make_shared<const Graph>(parse_graph_body(nesting + 1));
      expect("}");
      return NestedGraph(nested);
    }
    return number_of_its_kind();
  }

  Attrs attrs(int nesting) {
    Attrs attrs;
    if (!accept("{")) return attrs;
    while (!accept("}")) {
      std::string key = word();
      expect("=");
      attrs.set(key, attr(nesting));
      if (!peek('}')) expect(",");
    }
    return attrs;
  }

  Phase phase() {
    expect("#");
    std::string text = word();
    for (Phase each : {Phase::kLoad, Phase::kForward, Phase::kBackward, Phase::kOptimizer})
      if (name(each) == text) return each;
    fail("a phase before this");
  }

  // Origins in ascending order; their ids must be below `known`.
  std::vector<Origin> origins(size_t known) {
    std::vector<Origin> from;
    if (!accept("<")) return from;
    while (!accept(">")) {
      int32_t id = number<int32_t>("an origin id");
      Phase found = Phase::kLoad;
      if (accept("f"))
        found = Phase::kForward;
      else if (accept("b"))
        found = Phase::kBackward;
      else if (accept("o"))
        found = Phase::kOptimizer;
      else
        expect("l");
      if (id < 0 || static_cast<size_t>(id) >= known)
        fail("the id of an origin above, before this");
      if (!from.empty() && !(from.back() < Origin{id, found}))
        fail("ascending origins before this");
      from.push_back({id, found});
      if (!peek('>')) expect(",");
    }
    return from;
  }

  Work work() {
    expect("(");
    Work work;
    work.macs = integer();
    expect(",");
    work.flops = integer();
    expect(",");
    work.transcendentals = integer();
    expect(")");
    return work;
  }

  OriginRecord origin_record() {
    OriginRecord record;
    record.op = word();
    record.scope = string();
    record.phase = phase();
    record.work.forward = work();
    record.work.backward = work();
    return record;
  }

  struct Names {
    std::unordered_map<int64_t, ValueId> values;
    std::unordered_set<std::string> labels;  // Values without a producer have them.
  };
  ValueId value(const Names& names) {
    expect("%");
    auto at = names.values.find(integer());
    if (at == names.values.end()) fail("a value that is defined above, before this");
    return at->second;
  }

  void define(Names& names, int64_t id, ValueId value) {
    if (!names.values.emplace(id, value).second)
      fail(fmt::format("a new value, %{} is defined", id));
  }

  void parse_named(Builder& builder, Names& names, int64_t id) {
    std::string storage = word();
    Type declared = type();
    std::string label = string();
    if (static_cast<int64_t>(names.labels.size()) >= kMostNodes)
      throw memory_error("[graph] expected at most {} named values, got more at {}", kMostNodes,
                         label);
    if (!names.labels.insert(label).second) fail(fmt::format("a new name, '{}' is taken", label));
    if (storage == "parameter" || storage == "frozen") {
      const ValueId value = builder.parameter(label, declared);
      builder.graph().value(value).frozen = storage == "frozen";
      define(names, id, value);
    } else if (storage == "input") {
      define(names, id, builder.input(label, declared));
    } else if (storage == "state") {
      define(names, id, builder.state(label, declared));
    } else {
      fail("parameter, frozen, input or state");
    }
  }

  void parse_node(Builder& builder, Names& names, int64_t first_id, int nesting) {
    std::vector<std::pair<int64_t, Type>> outputs{{first_id, type()}};
    while (accept(",")) {
      expect("%");
      int64_t id = integer();
      expect(":");
      outputs.emplace_back(id, type());
    }
    expect("=");
    std::string op = word();
    std::vector<ValueId> inputs;
    expect("(");
    while (!accept(")")) {
      inputs.push_back(value(names));
      if (!peek(')')) expect(",");
    }
    Attrs node_attrs = attrs(nesting);
    std::string scope = accept("@") ? string() : "";
    Phase node_phase = phase();
    auto derive = builder.derive(origins(builder.graph().origins.size()), scope, node_phase);
    std::vector<ValueId> made = builder.call_all(op, std::move(inputs), std::move(node_attrs));
    if (made.size() != outputs.size()) fail(fmt::format("{} outputs of {} above", made.size(), op));
    for (size_t i = 0; i < made.size(); ++i) {
      if (builder.type(made[i]) != outputs[i].second)
        fail(fmt::format("{} as output {} of {} above", builder.type(made[i]).str(), i, op));
      define(names, outputs[i].first, made[i]);
    }
  }

  Graph parse_graph_body(int nesting) {
    if (nesting > kMaxNesting) fail("less deeply nested graphs");
    Graph graph;
    Builder builder(graph, ops_);
    Names names;
    while (!accept("return")) {
      if (accept("origin")) {
        if (integer() != static_cast<int64_t>(graph.origins.size()))
          fail("origins in order before this");
        graph.origins.push_back(origin_record());
        continue;
      }
      expect("%");
      int64_t id = integer();
      if (accept("=")) {
        parse_named(builder, names, id);
      } else {
        expect(":");
        parse_node(builder, names, id, nesting);
      }
    }
    while (peek('%')) {
      graph.outputs.push_back(value(names));
      if (!accept(",")) break;
    }
    return graph;
  }

  const OpTable& ops_;
};

}  // namespace

Graph parse_graph(std::string_view text, const OpTable& ops) {
  return Parser(text, ops).parse_all();
}

}  // namespace ridge::inline graph
