// SPDX-License-Identifier: Apache-2.0
// The table of ops with letters, and how each builds its graph.
#include "bench/op_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/pointwise.h"
#include "base/printable.h"
#include "base/split.h"
#include "files/quantize.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

const Fill kInert{Fill::kNormal, 1, false};

// Builds the graph of one call.
class CallGraph {
 public:
  explicit CallGraph(const OpRequest& request) : request_(request), b_(made_.graph, ops::table()) {}

  Builder& builder() { return b_; }
  ValueId input(const char* name, DType dtype, const Shape& shape, const Fill& fill = {}) {
    made_.fills[name] = fill;
    return b_.input(name, {dtype, shape});
  }
  // In the type of activations.
  ValueId input(const char* name, const Shape& shape, const Fill& fill = {}) {
    return input(name, request_.type.activations, shape, fill);
  }
  ValueId state(const char* name, DType dtype, const Shape& shape, const Fill& fill = kInert) {
    made_.fills[name] = fill;
    return b_.state(name, {dtype, shape});
  }
  ValueId ids(const char* name, int64_t count, int64_t bound) {
    return input(name, DType::kI32, {count}, {Fill::kIds, static_cast<double>(bound), false});
  }
  TrialGraph call(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return returns({b_.call_all(op, std::move(inputs), std::move(attrs))[0]});
  }
  TrialGraph returns(std::vector<ValueId> outputs) {
    made_.graph.outputs = std::move(outputs);
    return std::move(made_);
  }

 private:
  const OpRequest& request_;
  TrialGraph made_;
  Builder b_;
};

// Rows are whole blocks, because kernels read rows.
void expect_whole_blocks(const OpRequest& r, const char* letter) {
  const int64_t block = base::info(r.type.weights).elements_per_block;
  if (r[letter] % block != 0)
    throw usage_error("[dtype] expected {} as a multiple of {}, the block of {}, got {}", letter,
                      block, r.type.name, r[letter]);
}

// [n,k] times [m,k] transposed, in the storage order of the layout.
TrialGraph build_matmul(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const bool a_t = r.layout.starts_with('t'), b_t = !r.layout.ends_with('n');
  const int64_t n = r["n"], k = r["k"], m = r["m"];
  ValueId a = a_t ? g.input("a", {k, n}) : g.input("a", {n, k});
  const bool is_quantized = r.type.weights != r.type.activations;
  if (is_quantized && (a_t || !b_t))
    throw usage_error("[layout] expected nt for weights in {}, got {}", r.type.name, r.layout);
  if (is_quantized) expect_whole_blocks(r, "k");
  const Shape weight = b_t ? Shape{m, k} : Shape{k, m};
  ValueId b = is_quantized ? g.input("b", r.type.weights, weight, {Fill::kNormal, 0.03, false})
                           : g.input("b", weight);
  if (is_quantized && is_block(r.type.weights))
    return g.call("quantized_matmul", {a, b}, {{"activations", r.implementation.activations}});
  return g.call("matmul", {a, b},
                {{"einsum", std::string(a_t ? "kn," : "nk,") + (b_t ? "mk->nm" : "km->nm")}});
}

TrialGraph build_gemv(const OpShape& shape, const OpRequest& r) {
  OpRequest one = r;
  one.extents.emplace_back("n", 1);
  one.layout = "nt";
  return build_matmul(shape, one);
}

// Queries of a chunk with the keys up to its end: the scores of a chunk alone are in memory.
constexpr int64_t kChunk = 256;
constexpr const char* kMemoryEfficient = "memory-efficient";
TrialGraph build_chunked_attention(const OpRequest& r,
                                   CallGraph& g,
                                   ValueId q,
                                   ValueId k,
                                   ValueId v) {
  Builder& b = g.builder();
  const int64_t batch = r["b"], t = r["t"], heads = r["h"], kv = r["k"], e = r["e"],
                group = heads / kv;
  const double scale = 1 / std::sqrt(static_cast<double>(e));
  q = ops::reshape(b, q, {batch, t, kv, group, e});
  k = ops::reshape(b, k, {batch, t, kv, e});
  v = ops::reshape(b, v, {batch, t, kv, e});
  std::vector<ValueId> rows;
  for (int64_t begin = 0; begin < t; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, t), seen = r.is_causal ? end : t;
    ValueId queries = ops::slice(b, q, 1, begin, end);
    auto scores_of = [&](int64_t from, int64_t to) {
      return ops::scale(
          b, ops::matmul(b, "btkge,bske->bkgts", queries, ops::slice(b, k, 1, from, to)), scale);
    };
    ValueId scores;
    if (!r.is_causal) {
      scores = scores_of(0, t);
    } else {
      ValueId diagonal = b.call("causal_mask", {scores_of(begin, end)}, {{"window", int64_t{0}}});
      scores = begin == 0 ? diagonal : ops::concat(b, {scores_of(0, begin), diagonal}, 4);
    }
    rows.push_back(ops::matmul(b, "bkgts,bske->btkge", b.call("softmax", {scores}),
                               ops::slice(b, v, 1, 0, seen)));
  }
  ValueId mixed = rows.size() == 1 ? rows[0] : ops::concat(b, rows, 1);
  return g.returns({ops::reshape(b, mixed, {batch * t, heads, e})});
}

TrialGraph build_attention(const OpShape& shape, const OpRequest& r) {
  CallGraph g(r);
  const int64_t rows = checked_product(r["b"], r["t"], "b x t"),
                window = r["w"] >= r["t"] ? 0 : r["w"];
  ValueId q = g.input("q", {rows, r["h"], r["e"]}), k = g.input("k", {rows, r["k"], r["e"]}),
          v = g.input("v", {rows, r["k"], r["e"]});
  const Attrs attrs{{"sequence", r["t"]},
                    {"causal", r.is_causal},
                    {"window", r.is_causal ? window : int64_t{0}},
                    {"scale", 1 / std::sqrt(static_cast<double>(r["e"]))}};
  if (r.implementation.name != kMemoryEfficient) return g.call("attention", {q, k, v}, attrs);
  // The op checks extents.
  OpRequest checked = r;
  checked.implementation = {};
  build_attention(shape, checked);
  if (window != 0 && r.is_causal)
    throw usage_error("[implementation] expected no window for {}, got {}", kMemoryEfficient,
                      window);
  return build_chunked_attention(r, g, q, k, v);
}

// One token of each of b sequences, after c - 1 others that are in the cache.
TrialGraph build_cached_attention(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const int64_t b = r["b"], c = r["c"], blocks = ceil_div(c, r["p"]);
  const Shape cells{checked_product(b, blocks, "blocks"), r["p"], r["k"], r["e"]};
  ValueId q = g.input("q", {b, r["h"], r["e"]}, kInert);
  ValueId keys = g.state("keys", r.type.activations, cells),
          values = g.state("values", r.type.activations, cells);
  ValueId positions =
      g.input("positions", DType::kI32, {b}, {Fill::kConstant, static_cast<double>(c - 1), false});
  ValueId slots =
      g.input("slots", DType::kI32, {b}, {Fill::kPositions, static_cast<double>(b), false});
  ValueId table = g.input("table", DType::kI32, {b, blocks},
                          {Fill::kPositions, static_cast<double>(cells[0]), false});
  return g.call("cached_attention", {q, keys, values, positions, slots, table},
                {{"window", int64_t{0}},
                 {"scale", 1 / std::sqrt(static_cast<double>(r["e"]))},
                 {"context", c}});
}

TrialGraph build_rms_norm(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  ValueId x = g.input("x", {r["n"], r["d"]}), weight = g.input("weight", DType::kF32, {r["d"]});
  return g.call("rms_norm", {x, weight}, {{"eps", 1e-6}});
}

// The ops whose only operand is a matrix.
TrialGraph build_rows(const OpShape& shape, const OpRequest& r) {
  CallGraph g(r);
  return g.call(shape.op, {g.input("x", {r["n"], r["d"]})});
}

TrialGraph build_reduce_sum(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const int64_t axis = r.layout == "columns" ? 0 : 1;
  return g.call("reduce_sum", {g.input("x", {r["n"], r["d"]})},
                {{"axes", std::vector<int64_t>{axis}}});
}

TrialGraph build_loss(const OpShape& shape, const OpRequest& r) {
  CallGraph g(r);
  ValueId x = g.input("x", {r["n"], r["v"]}), labels = g.ids("labels", r["n"], r["v"]);
  return g.call(shape.op, {x, labels});
}

TrialGraph build_glu(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  ValueId gate = g.input("gate", {r["n"], r["f"]}), up = g.input("up", {r["n"], r["f"]});
  return g.call("glu", {gate, up}, {{"activation", r.layout}});
}

TrialGraph build_rope(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const Shape angles{r["n"], r["e"] / 2};
  ValueId x = g.input("x", {r["n"], r["h"], r["e"]});
  return g.call(
      "rope",
      {x, g.input("cos", DType::kF32, angles, kInert), g.input("sin", DType::kF32, angles, kInert)},
      {{"interleaved", r.layout == "interleaved"}});
}

TrialGraph build_embedding(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const bool is_quantized = r.type.weights != r.type.activations;
  if (is_quantized) expect_whole_blocks(r, "d");
  ValueId table = is_quantized ? g.input("table", r.type.weights, {r["v"], r["d"]},
                                         {Fill::kNormal, 0.03, false})
                               : g.input("table", {r["v"], r["d"]});
  Attrs attrs;
  if (is_quantized) attrs.set("dtype", std::string("f32"));
  return g.call("embedding", {table, g.ids("ids", r["n"], r["v"])}, attrs);
}

TrialGraph build_adamw(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  const Shape shape{r["n"]};
  std::vector<ValueId> inputs{
      g.input("learning_rate", DType::kF32, {}, {Fill::kConstant, 1e-3, false}),
      g.input("step", DType::kF32, {}, {Fill::kConstant, 3, false}),
      g.state("parameter", DType::kF32, shape),
      g.input("gradient", shape, kInert),
      g.state("first_moment", DType::kF32, shape),
      g.state("second_moment", DType::kF32, shape, {Fill::kPositive, 1, false})};
  return g.call("adamw", inputs, {{"weight_decay", 0.1}});
}

TrialGraph build_copy(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  ValueId x = g.input("x", {r["n"], r["d"]}, kInert);
  if (r.layout == "transposed") x = ops::transpose(g.builder(), x, {1, 0});
  return g.call("copy", {x});
}

TrialGraph build_fill(const OpShape&, const OpRequest& r) {
  CallGraph g(r);
  return g.call("fill", {},
                {{"shape", std::vector<int64_t>{r["n"]}},
                 {"value", 1.0},
                 {"dtype", std::string(name(r.type.activations))}});
}

TrialGraph build_pointwise(const OpShape& shape, const OpRequest& r) {
  CallGraph g(r);
  const PointwiseInfo& row = base::info(*parse_pointwise(shape.op));
  const Fill fill{Fill::kPositive};  // logarithms, roots and divisors need it
  std::vector<ValueId> operands;
  for (const char* operand : {"x", "y"})
    if (std::ssize(operands) < row.arity) operands.push_back(g.input(operand, {r["n"]}, fill));
  Attrs attrs;
  if (row.has_parameter) attrs.set("parameter", 0.75);
  if (row.function == Pointwise::kCast)
    attrs.set("dtype",
              std::string(name(r.type.activations == DType::kBF16 ? DType::kF32 : DType::kBF16)));
  return g.call(std::string(row.name), operands, attrs);
}

const std::vector<Implementation> kOne{{"kernel", "the only one", ""}};
std::vector<Implementation> fused_or_expanded(const char* pass) {
  return {{"fused", "one kernel", std::string("+") + pass},
          {"expanded", "one kernel per primitive, as an eager framework runs it", ""}};
}

const std::vector<Implementation> kProducts{
    {"library", "oneDNN on CPUs, cuBLASLt on GPUs", ""},
    {"native", "Ridge's own GEMM kernel, where the machine has one", "+native_gemm"},
    {"tuned", "the library's algorithm that was fastest here", "+tune_gemm"},
    {"exact", "weights in blocks: activations stay in fp32", "", "f32"},
    {"i16", "weights in blocks: activations are rounded to 16 bits", "", "i16"},
    {"i8", "weights in blocks: activations are rounded to 8 bits", "", "i8"},
    {"rounded_bf16", "weights in blocks: activations are rounded to bf16", "", "bf16"}};
const std::vector<Implementation> kAttention{
    {"flash", "in tiles, without the T x T matrix", "+flash_attention"},
    {"standard", "with the T x T matrix in memory, as an eager framework runs it", ""},
    {kMemoryEfficient, "256 queries at a time, by the kernels of the standard form", ""}};
const std::vector<Implementation> kCached{
    {"paged", "one kernel over the cache in blocks", "+flash_attention"},
    {"standard", "with the matrix of scores in memory, as an eager framework runs it", ""}};

std::vector<OpShape> make_shapes() {
  const Letter n{"n", 1024, "rows"}, d{"d", 1024, "columns"}, v{"v", 32000, "vocabulary"},
      f{"f", 4096, "columns"}, b{"b", 1, "sequences"}, heads{"h", 16, "heads"},
      kv{"k", 16, "KV heads"}, e{"e", 64, "head size"}, t{"t", 1024, "tokens of a sequence"},
      w{"w", kMostExtent, "window, of causal attention alone"}, c{"c", 1024, "context"},
      p{"p", 16, "positions of a block"}, elements{"n", 1 << 20, "elements"};
  const std::vector<std::string> orders = {"nt", "nn", "tn", "tt"};
  std::vector<OpShape> shapes = {
      {"matmul",
       "matmul",
       {n, {"k", 1024, "summed"}, {"m", 1024, "columns"}},
       kProducts,
       build_matmul,
       orders,
       true},
      {"gemv",
       "matmul",
       {{"k", 4096, "summed"}, {"m", 4096, "rows of the weight"}},
       kProducts,
       build_gemv,
       {},
       true},
      {"attention",
       "attention",
       {b, heads, kv, t, e, w},
       kAttention,
       build_attention,
       {},
       false,
       true},
      {"cached_attention",
       "cached_attention",
       {b, heads, kv, c, e, p},
       kCached,
       build_cached_attention},
      {"rms_norm", "rms_norm", {n, d}, fused_or_expanded("fuse_rms_norm"), build_rms_norm},
      {"softmax", "softmax", {n, d}, kOne, build_rows},
      {"log_softmax", "log_softmax", {n, d}, kOne, build_rows},
      {"reduce_sum", "reduce_sum", {n, d}, kOne, build_reduce_sum, {"rows", "columns"}},
      {"softmax_cross_entropy",
       "softmax_cross_entropy",
       {n, v},
       fused_or_expanded("fuse_softmax_cross_entropy"),
       build_loss},
      {"nll_loss", "nll_loss", {n, v}, kOne, build_loss},
      {"glu", "glu", {n, f}, fused_or_expanded("fuse_glu"), build_glu, {"silu", "gelu_tanh"}},
      {"rope",
       "rope",
       {n, heads, e},
       fused_or_expanded("fuse_rope"),
       build_rope,
       {"halves", "interleaved"}},
      {"embedding", "embedding", {n, v, d}, kOne, build_embedding, {}, true},
      {"gather", "embedding", {n, v, d}, kOne, build_embedding, {}, true},
      {"adamw", "adamw", {{"n", 1 << 20, "parameters"}}, kOne, build_adamw},
      {"copy", "copy", {n, d}, kOne, build_copy, {"rows", "transposed"}},
      {"fill", "fill", {elements}, kOne, build_fill}};
  for (const PointwiseInfo& row : pointwise_table())
    shapes.push_back(
        {std::string(row.name), std::string(row.name), {elements}, kOne, build_pointwise});
  return shapes;
}

bool is_for_blocks(const Implementation& each) { return !each.activations.empty(); }

}  // namespace

TrialType parse_trial_type(const std::string& text, bool is_gpu_sheet) {
  if (text == "fp32" || text == "f32") return {};
  if (text == "tf32") return {text, DType::kF32, DType::kF32, true};
  if (text == "bf16") return {text, DType::kBF16, DType::kBF16};
  if (text == "fp16" && is_gpu_sheet) return {text, DType::kBF16, DType::kBF16};
  if (text == "fp16") return {text, DType::kF16, DType::kF16};
  if (text == "f16") return {text, DType::kF32, DType::kF16};
  const std::optional<DType> stored = parse_dtype(text);
  if (!stored || !is_block(*stored) || !files::can_quantize(*stored))
    throw usage_error(
        "[dtype] expected fp32, tf32, bf16, fp16, or a type of weights of files such as f16, q8_0 or q4_k, got {}",
        printable(text));
  return {text, DType::kF32, *stored};
}

int64_t OpRequest::operator[](std::string_view letter) const {
  const int64_t* extent = record::find(extents, letter);
  RIDGE_CHECK(extent != nullptr, "no letter {}", letter);
  return *extent;
}

std::span<const OpShape> op_shapes() {
  static const std::vector<OpShape> shapes = make_shapes();
  return shapes;
}

const OpShape* find_op_shape(std::string_view name) {
  for (const OpShape& each : op_shapes())
    if (each.name == name) return &each;
  return nullptr;
}

std::string op_shape_names() {
  std::string names;
  for (const OpShape& each : op_shapes()) names += (names.empty() ? "" : ", ") + each.name;
  return names;
}

std::vector<std::string> letter_lines() {
  std::vector<std::string> lines;
  for (const OpShape& each : op_shapes()) {
    if (each.name == "add") {
      lines.emplace_back(
          "add, mul, exp, silu, gelu_tanh and all other pointwise ops: n (elements, 1048576)");
      break;
    }
    std::vector<Letter> letters = each.letters;
    std::erase_if(letters, [](const Letter& l) { return l.usual == kMostExtent; });
    lines.push_back(fmt::format("{}: {}{}", each.name, describe(letters),
                                letters.size() < each.letters.size() ? ", w (window)" : ""));
  }
  return lines;
}

std::vector<Implementation> choose_implementations(const OpShape& shape,
                                                   const TrialType& type,
                                                   const std::string& names) {
  if (type.weights != type.activations && !shape.has_quantized_weights)
    throw usage_error("[dtype] {} has no weights that are stored in {}", shape.name, type.name);
  std::vector<Implementation> offered;
  const bool has_products = shape.op == "matmul", is_in_blocks = is_block(type.weights);
  for (const Implementation& each : shape.implementations)
    if (!has_products || is_for_blocks(each) == is_in_blocks) offered.push_back(each);
  // Products with weights of 16 bits run on one kernel of Ridge's own.
  if (has_products && type.weights == DType::kF16) offered.resize(1);
  if (names.empty()) return {offered.front()};
  if (names == "all") return offered;
  std::string known;
  for (const Implementation& each : offered) known += (known.empty() ? "" : ", ") + each.name;
  std::vector<Implementation> chosen;
  for (const std::string& name : split(names)) {
    auto found = std::find_if(offered.begin(), offered.end(),
                              [&](const Implementation& each) { return each.name == name; });
    if (found == offered.end())
      throw usage_error("[implementation] expected all or some of {} for {} in {}, got {}", known,
                        shape.name, type.name, printable(name));
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace ridge::bench
