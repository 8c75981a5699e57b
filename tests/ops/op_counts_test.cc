// SPDX-License-Identifier: Apache-2.0
// The counts of every op against a plain loop that computes the same results and counts what it
// does (ops/counted.h): executed arithmetic, planned and compulsory bytes, and the model's
// arithmetic. Where positions decide what is read, the counts are the most that any can need.
#include <gtest/gtest.h>

#include <map>

#include "cost/cost.h"
#include "graph/builder.h"
#include "ops/case_data.h"
#include "ops/op_from.h"
#include "ops/plain_attention.h"
#include "ops/plain_einsum.h"
#include "ops/plain_products.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::ops {
namespace {

struct PlainLoop {
  void (*run)(const Op&, const Call&, Arrays& in, Arrays& out);
  std::vector<Case> (*cases)() = nullptr;  // instead of the op's
  // The index of the positions, which the slots follow; -1 if the op has none.
  int positions = -1;
};

// Vocabularies are larger than the number of ids, so that rows are read once. In repacked tiles, 16
// rows share their cache lines, so ids are 16 apart.
constexpr int64_t kIdStep = 16;

std::vector<Case> embedding_cases() {
  Attrs narrow{{"dtype", std::string("bf16")}};
  return {{"rows", {{f32({160, 17})}, ids({10}, 160)}, {}},
          {"narrow", {{f32({160, 17})}, ids({10}, 160)}, narrow},
          {"blocks",
           {fixed({DType::kQ8_0, {160, 64}}), ids({10}, 160)},
           {{"dtype", std::string("f32")}}},
          {"tiles",
           {fixed({DType::kQ4_0x16, {160, 64}}), ids({10}, 160)},
           {{"dtype", std::string("f32")}}}};
}

std::vector<Case> embedding_backward_cases() {
  Attrs attrs{{"vocabulary", int64_t{160}}};
  CaseInput gradient{f32({10, 17})}, table{f32({160, 17}), {}, false};
  return {{"rows", {ids({10}, 160), gradient}, attrs},
          {"accumulate", {ids({10}, 160), gradient, table}, attrs}};
}

// Four ranks share what the backends' cases give to one.
std::vector<Case> all_reduce_cases() {
  return {{"four_ranks",
           {{f32({8, 17}), {}, false}, {f32({12}), {}, false}},
           {{"group", "data"}, {"ranks", int64_t{4}}}}};
}
std::vector<Case> divided_cases() {
  std::vector<Case> cases = all_reduce_cases();
  cases.push_back({"columns",
                   {{f32({3, 8, 5}), {}, false}},
                   {{"group", "data"}, {"ranks", int64_t{4}}, {"axis", int64_t{1}}}});
  return cases;
}

std::vector<Case> normed_sum_cases() {
  return {{"four_ranks",
           {{f32({8, 16})}, {f32({8, 16})}, {f32({16}), {}, false}},
           {{"group", "tensor"}, {"ranks", int64_t{4}}, {"eps", 1e-3}}}};
}

std::vector<Case> transfer_cases() {
  return {
      {"two_ranks", {{f32({8, 17}), {}, false}}, {{"group", "pipeline.0"}, {"ranks", int64_t{2}}}}};
}

std::vector<Case> quantized_weight_cases() {
  std::vector<Case> cases = table().at("quantized_matmul").cases();
  Case each{"quantized", {fixed(f32({3, 256}))}, {}};
  for (DType dtype : {DType::kQ4_0, DType::kQ5_1, DType::kQ8_0, DType::kQ3_K, DType::kQ6_K})
    each.inputs.push_back(fixed({dtype, {16, 256}}));
  cases.push_back(each);
  for (const char* glu : {"silu", "gelu_tanh"})
    cases.push_back(
        {glu,
         {fixed(f32({3, 256})), fixed({DType::kQ4_0, {16, 256}}), fixed({DType::kQ4_0, {16, 256}})},
         {{"glu", std::string(glu)}}});
  return cases;
}

std::vector<Case> greedy_cases() {
  std::vector<Case> cases = table().at("sample").cases();
  std::erase_if(cases, [](const Case& each) { return each.inputs[4].fill.parameter > 0; });
  return cases;
}

// The op's cases, and each with one token, fewer than slots. The first input has a row per token.
std::vector<Case> with_single_tokens(const char* op, size_t positions) {
  std::vector<Case> cases = table().at(op).cases(), all = cases;
  for (Case& each : cases) {
    for (size_t i : {size_t{0}, positions, positions + 1})
      each.inputs[i].type.shape = each.inputs[i].type.shape.with(0, 1);
    each.name += "_single";
    all.push_back(std::move(each));
  }
  return all;
}
std::vector<Case> cached_attention_cases() { return with_single_tokens("cached_attention", 3); }
std::vector<Case> cached_scores_cases() { return with_single_tokens("cached_scores", 2); }
std::vector<Case> cached_mix_cases() { return with_single_tokens("cached_mix", 2); }

// As before the target is known, and with the scores of tiles, more of them in the backward pass.
std::vector<Case> flash_cases(bool backward) {
  std::vector<Case> cases;
  for (Case each : table().at("flash_attention").cases()) {
    const Shape q = each.inputs[0].type.shape, k = each.inputs[1].type.shape;
    if (backward) {
      each.inputs.insert(each.inputs.begin(), each.inputs[0]);
      each.inputs.push_back(each.inputs[0]);
      each.inputs.push_back({f32({q[0], q[1]}), {}, false});
      if (each.inputs.size() == 7)
        std::rotate(each.inputs.begin() + 4, each.inputs.begin() + 5, each.inputs.end());
    }
    cases.push_back(each);
    const Attrs attrs = complete_attrs(table().at("flash_attention"), each.attrs);
    const Heads heads({{}, {}, attrs}, q, k);
    each.name += "tiles";
    each.attrs.set("scores", heads.scores(kForwardTiles));
    each.attrs.set("scores_backward", heads.scores(kBackwardTiles));
    cases.push_back(each);
    each.name += "_twice";
    each.attrs.set("scores_recomputed", heads.scores(kQueryGradientTiles));
    cases.push_back(each);
  }
  return cases;
}
std::vector<Case> forward_cases() { return flash_cases(false); }
std::vector<Case> backward_cases() { return flash_cases(true); }

std::vector<Case> cluster_cases() {
  auto program = std::make_shared<Graph>();
  Builder b(*program, table());
  ValueId x = b.input("0", f32({5, 7})), y = b.input("1", f32({5, 7}));
  ValueId gated = b.call("mul", {b.call("silu", {x}), y});
  ValueId slope = b.call("gelu_tanh_backward", {gated, x});
  program->outputs = {b.call("scale", {slope}, {{"parameter", 0.5}}), gated};
  return {{"two_results",
           {{f32({5, 7}), {}, false}, {f32({5, 7}), {}, false}},
           {{"program", NestedGraph(program)}}}};
}

const std::map<std::string, PlainLoop>& plain_loops() {
  static const std::map<std::string, PlainLoop> loops = {
      {"concat", {plain_concat}},
      {"copy", {plain_copy}},
      {"transpose_multi", {plain_transpose_multi}},
      {"fill", {plain_fill}},
      {"zero", {plain_zero}},
      {"matmul", {plain_matmul}},
      {"einsum", {plain_einsum}},
      {"rearrange", {plain_rearrange}},
      {"quantized_matmul", {plain_quantized_matmul, quantized_weight_cases}},
      {"skinny_gemm", {plain_skinny_gemm}},
      {"reduce_sum", {plain_reduce_sum}},
      {"softmax", {plain_softmax}},
      {"softmax_backward", {plain_softmax_backward}},
      {"log_softmax", {plain_log_softmax}},
      {"log_softmax_backward", {plain_log_softmax_backward}},
      {"nll_loss", {plain_nll_loss}},
      {"nll_loss_backward", {plain_nll_loss_backward}},
      {"softmax_cross_entropy", {plain_softmax_cross_entropy}},
      {"softmax_cross_entropy_backward", {plain_softmax_cross_entropy_backward}},
      {"cross_entropy_part", {plain_cross_entropy_part}},
      {"cross_entropy_of_parts", {plain_cross_entropy_of_parts}},
      {"embedding", {plain_embedding, embedding_cases}},
      {"embedding_backward", {plain_embedding_backward, embedding_backward_cases}},
      {"rope_table", {plain_rope_table}},
      {"rope", {plain_rope}},
      {"rope_qkv", {plain_rope_qkv}},
      {"rope_qkv_backward", {plain_rope_qkv}},
      {"rms_norm", {plain_rms_norm}},
      {"rms_norm_backward", {plain_rms_norm_backward}},
      {"add_rms_norm", {plain_add_rms_norm}},
      {"glu", {plain_glu}},
      {"glu_backward", {plain_glu_backward}},
      {"causal_mask", {plain_causal_mask}},
      {"attention", {plain_attention}},
      {"flash_attention", {plain_attention, forward_cases}},
      {"flash_attention_backward", {plain_flash_attention_backward, backward_cases}},
      {"kv_append", {plain_kv_append, nullptr, 4}},
      {"rope_append", {plain_rope_append, nullptr, 5}},
      {"cached_attention", {plain_cached_attention, cached_attention_cases, 3}},
      {"append_attention", {plain_append_attention, nullptr, 5}},
      {"cached_scores", {plain_cached_product, cached_scores_cases, 2}},
      {"cached_mix", {plain_cached_product, cached_mix_cases, 2}},
      {"cached_mask", {plain_cached_mask}},
      {"cached_softmax", {plain_cached_softmax}},
      {"sample", {plain_sample, greedy_cases}},
      {"accumulate", {plain_accumulate}},
      {"all_reduce", {plain_all_reduce, all_reduce_cases}},
      {"all_reduce_add_rms_norm", {plain_all_reduce_add_rms_norm, normed_sum_cases}},
      {"all_gather", {plain_all_gather, divided_cases}},
      {"reduce_scatter", {plain_reduce_scatter, divided_cases}},
      {"send", {plain_send, transfer_cases}},
      {"receive", {plain_receive}},
      {"sum_squares", {plain_sum_squares}},
      {"clip_coefficient", {plain_clip_coefficient}},
      {"loss_scale", {plain_loss_scale}},
      {"adamw", {plain_adamw}},
      {"adamw_multi", {plain_adamw}},
      {"generated_pointwise", {plain_generated_pointwise, cluster_cases}},
  };
  return loops;
}

PlainLoop loop_of(const Op& op) {
  return op.kind == OpKind::kPointwise ? PlainLoop{plain_pointwise} : plain_loops().at(op.name);
}

// Tokens are in the last positions of their slots, or all in the last one, where each attends to
// the most keys.
enum class Placement { kConsecutive, kLast };

struct Counts {
  Work work;
  std::vector<int64_t> read_bytes, written_bytes;  // by operand

  void raise(const Counts& other) {
    work.macs = std::max(work.macs, other.work.macs);
    work.flops = std::max(work.flops, other.work.flops);
    work.transcendentals = std::max(work.transcendentals, other.work.transcendentals);
    auto raise_all = [](std::vector<int64_t>& to, const std::vector<int64_t>& from) {
      to.resize(from.size());
      for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
    };
    raise_all(read_bytes, other.read_bytes);
    raise_all(written_bytes, other.written_bytes);
  }
};

int64_t bytes_of_marked(const Type& type, const std::vector<bool>& marked) {
  return storage_bytes(type.dtype, std::count(marked.begin(), marked.end(), true));
}

// One case of an op, with its castable operands in `dtype`.
class CountedCase {
 public:
  CountedCase(const Op& op, const Case& sample, DType dtype)
      : op_(op), sample_(sample), loop_(loop_of(op)), attrs_(complete_attrs(op, sample.attrs)) {
    for (const CaseInput& input : sample.inputs) {
      bool casts = input.castable && input.type.dtype == DType::kF32;
      inputs_.push_back({casts ? dtype : input.type.dtype, input.type.shape});
    }
    outputs_ = op.infer({inputs_, {}, attrs_});
    if (op.aliases != nullptr) aliases_ = op.aliases(call());
  }

  Call call() const { return {inputs_, outputs_, attrs_}; }

  // Counts the loop: the most over all placements of tokens. Its results must be the reference's.
  Counts counts() const {
    Counts most;
    for (Placement placement : {Placement::kConsecutive, Placement::kLast})
      if (placement == Placement::kConsecutive || loop_.positions >= 0) most.raise(run(placement));
    return most;
  }

  // The op alone, its operands in the store.
  cost::NodeCost cost(int64_t& compulsory_bytes) const {
    Graph graph;
    Builder b(graph, table());
    std::vector<ValueId> operands;
    for (size_t i = 0; i < inputs_.size(); ++i)
      operands.push_back(is_updated(i) ? b.state(fmt::format("x{}", i), inputs_[i])
                                       : b.input(fmt::format("x{}", i), inputs_[i]));
    graph.outputs = b.call_all(op_.name, operands, sample_.attrs);
    plan::PlannedGraph planned = plan::plan(graph, plan::PlainTarget());
    compulsory_bytes = cost::compulsory_bytes(planned, "");
    return cost::node_costs(planned)[0];
  }

 private:
  bool is_updated(size_t input) const {
    return std::any_of(aliases_.begin(), aliases_.end(),
                       [&](const Alias& a) { return a.input == static_cast<int>(input); });
  }

  std::vector<Tensor64> draw_inputs(Placement placement) const {
    std::vector<Tensor64> drawn;
    Random random(5);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      drawn.push_back(draw(inputs_[i], sample_.inputs[i].fill, random));
      if (sample_.inputs[i].fill.kind != Fill::kIds) continue;
      for (size_t at = 0; at < drawn[i].data.size(); ++at)
        drawn[i].data[at] =
            static_cast<double>(static_cast<int64_t>(at) * kIdStep %
                                static_cast<int64_t>(sample_.inputs[i].fill.parameter));
    }
    if (loop_.positions >= 0) place(drawn, placement);
    if (op_.name == "flash_attention_backward") recompute_forward(drawn);
    return drawn;
  }

  void place(std::vector<Tensor64>& drawn, Placement placement) const {
    std::vector<double>&positions = drawn[static_cast<size_t>(loop_.positions)].data,
    &slots = drawn[static_cast<size_t>(loop_.positions) + 1].data;
    const double last =
        attrs_.has("context")
            ? static_cast<double>(attrs_.integer("context") - 1)
            : sample_.inputs[static_cast<size_t>(loop_.positions)].fill.parameter - 1;
    for (size_t n = 0; n < positions.size(); ++n) {
      double behind = static_cast<double>(
          std::count(slots.begin() + static_cast<std::ptrdiff_t>(n) + 1, slots.end(), slots[n]));
      positions[n] = placement == Placement::kLast ? last : std::max(last - behind, 0.0);
    }
  }

  // Its inputs o and lse must belong to q, k and v.
  void recompute_forward(std::vector<Tensor64>& drawn) const {
    std::vector<Type> types{inputs_[1], inputs_[2], inputs_[3]};
    const std::vector<Type> made{inputs_[4], inputs_[5]};
    std::vector<const Tensor64*> qkv{&drawn[1], &drawn[2], &drawn[3]};
    if (drawn.size() > kBackwardPositions) {
      types.push_back(inputs_[kBackwardPositions]);
      qkv.push_back(&drawn[kBackwardPositions]);
    }
    table().at("flash_attention").reference({types, made, attrs_}, qkv, {&drawn[4], 2});
  }

  Counts run(Placement placement) const {
    const std::vector<Tensor64> drawn = draw_inputs(placement);
    Arrays in, out;
    for (const Tensor64& each : drawn) in.emplace_back(each.type, each.data);
    std::vector<Tensor64> expected;
    for (const Type& type : outputs_)
      expected.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
    for (const Alias& alias : aliases_)
      expected[static_cast<size_t>(alias.output)].data =
          drawn[static_cast<size_t>(alias.input)].data;
    for (const Tensor64& each : expected) out.emplace_back(each.type, each.data);
    counted_work = {};
    loop_.run(op_, call(), in, out);
    Counts counts{counted_work, {}, {}};
    expect_reference(drawn, expected, out);
    std::vector<std::vector<bool>> read;
    for (const CountedArray& each : in) read.push_back(each.read());
    // A kernel may read an operand that it updates after the update.
    for (const Alias& alias : aliases_)
      for (size_t i = 0; i < out[static_cast<size_t>(alias.output)].read().size(); ++i)
        if (out[static_cast<size_t>(alias.output)].read()[i])
          read[static_cast<size_t>(alias.input)][i] = true;
    for (size_t i = 0; i < in.size(); ++i)
      counts.read_bytes.push_back(bytes_of_marked(inputs_[i], read[i]));
    for (size_t o = 0; o < out.size(); ++o)
      counts.written_bytes.push_back(bytes_of_marked(outputs_[o], out[o].written()));
    return counts;
  }

  void expect_reference(const std::vector<Tensor64>& drawn,
                        std::vector<Tensor64>& expected,
                        const Arrays& out) const {
    std::vector<const Tensor64*> operands;
    for (const Tensor64& each : drawn) operands.push_back(&each);
    op_.reference(call(), operands, expected);
    for (size_t o = 0; o < out.size(); ++o)
      for (size_t i = 0; i < expected[o].data.size(); ++i) {
        double want = expected[o].data[i], got = out[o].data()[i];
        ASSERT_TRUE(want == got || std::abs(want - got) <= 1e-9 * std::max(1.0, std::abs(want)))
            << "the loop computes something else: output " << o << " at " << i << " is " << got
            << ", not " << want;
      }
  }

  const Op& op_;
  const Case& sample_;
  PlainLoop loop_;
  Attrs attrs_;
  std::vector<Type> inputs_, outputs_;
  std::vector<Alias> aliases_;
};

std::vector<Case> cases_of(const Op& op) {
  const PlainLoop loop = loop_of(op);
  return loop.cases != nullptr ? loop.cases() : op.cases();
}

// Calls body(op, counted case) for all cases of all ops that have kernels, in fp32 and bf16.
template <typename Body>
void for_each_case(const Body& body) {
  for (const Op* op : table().all()) {
    if (op->kind == OpKind::kView) continue;
    for (const Case& sample : cases_of(*op))
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        SCOPED_TRACE(op->name + " " + sample.name + " " + std::string(name(dtype)));
        body(*op, CountedCase(*op, sample, dtype));
      }
  }
}

void expect_equal(const Work& counted, const Work& work) {
  EXPECT_EQ(counted.macs, work.macs);
  EXPECT_EQ(counted.flops, work.flops);
  EXPECT_EQ(counted.transcendentals, work.transcendentals);
}

// Views have no kernel; every other op has a loop.
TEST(OpCounts, EveryOpHasAPlainLoop) {
  std::set<std::string> without;
  for (const Op* op : table().all())
    if (op->kind != OpKind::kPointwise && !plain_loops().contains(op->name))
      without.insert(op->name);
  EXPECT_EQ(without, (std::set<std::string>{"all_reduce_gradient", "broadcast", "reshape", "slice",
                                            "transpose"}));
  for (const auto& [name, loop] : plain_loops()) EXPECT_NE(table().find(name), nullptr) << name;
}

TEST(OpCounts, ExecutedWorkIsThatOfAPlainLoop) {
  for_each_case([](const Op&, const CountedCase& each) {
    int64_t compulsory = 0;
    expect_equal(each.counts().work, each.cost(compulsory).work);
  });
}

TEST(OpCounts, BytesAreThoseOfAPlainLoop) {
  for_each_case([](const Op& op, const CountedCase& each) {
    const Counts counts = each.counts();
    if (op.traffic != nullptr)
      if (auto traffic = op.traffic(each.call())) {
        EXPECT_EQ(counts.read_bytes, traffic->read_bytes);
        EXPECT_EQ(counts.written_bytes, traffic->written_bytes);
      }
    int64_t read = 0, written = 0, compulsory = 0;
    for (int64_t bytes : counts.read_bytes) read += bytes;
    for (int64_t bytes : counts.written_bytes) written += bytes;
    const cost::NodeCost cost = each.cost(compulsory);
    EXPECT_EQ(cost.read_bytes, read);
    EXPECT_EQ(cost.written_bytes, written);
    EXPECT_EQ(compulsory, read + written) << "an op alone is its own scope";
  });
}

// A model requires what the op executes alone, except of attention in windows.
TEST(OpCounts, ModelWorkIsThatOfAPlainLoop) {
  for_each_case([](const Op& op, const CountedCase& each) {
    if (op.model_work == nullptr || op.name == "attention") return;
    expect_equal(each.counts().work, model_work(op, each.call()).forward);
  });
}

TEST(OpCounts, ModelWorkOfAttentionIsThatOfAPlainLoop) {
  const Op& op = table().at("attention");
  for (const Case& sample : op.cases()) {
    const CountedCase each(op, sample, DType::kF32);
    const Heads heads(each.call(), each.call().inputs[0].shape, each.call().inputs[1].shape);
    const ModelWork work = model_work(op, each.call());
    counted_work = {};
    model_attention(heads);
    expect_equal(counted_work, work.forward);
    counted_work = {};
    model_attention_backward(heads);
    expect_equal(counted_work, work.backward);
  }
}

// The backward work of an op is what a plain loop of its gradient counts. The inputs of the op are
// those inputs of its gradient.
TEST(OpCounts, ModelWorkOfGradientsIsThatOfAPlainLoop) {
  struct Gradient {
    const char *op, *gradient;
    std::vector<size_t> inputs;
  };
  for (const Gradient& each :
       {Gradient{"rms_norm", "rms_norm_backward", {1, 2}}, Gradient{"glu", "glu_backward", {1, 2}},
        Gradient{"rope", "rope", {0, 1, 2}},
        Gradient{"softmax_cross_entropy", "softmax_cross_entropy_backward", {0, 1}},
        Gradient{"embedding", "embedding_backward", {2, 0}}}) {
    const Op &op = table().at(each.op), &gradient = table().at(each.gradient);
    for (const Case& sample : cases_of(gradient)) {
      SCOPED_TRACE(op.name + " " + sample.name);
      // The gradient of a residual that a fused op adds is left out.
      if (op.name == "rms_norm" && sample.inputs.size() == 5) continue;
      if (op.name == "embedding" && sample.inputs.size() == 2) continue;  // has no table
      const CountedCase counted(gradient, sample, DType::kF32);
      std::vector<Type> inputs;
      for (size_t i : each.inputs) inputs.push_back(sample.inputs[i].type);
      Attrs attrs;
      for (const AttrSpec& spec : op.attrs)
        if (const AttrValue* value = sample.attrs.find(spec.name)) attrs.set(spec.name, *value);
      if (op.name == "rms_norm") attrs.set("eps", 1e-3);
      attrs = complete_attrs(op, attrs);
      const std::vector<Type> outputs = op.infer({inputs, {}, attrs});
      expect_equal(counted.counts().work, model_work(op, {inputs, outputs, attrs}).backward);
    }
  }
}

}  // namespace
}  // namespace ridge::ops
