// SPDX-License-Identifier: Apache-2.0
// quantized_matmul on the CPU with block-quantized weights, in all modes, against the op's double
// reference. The op's cases cover plain weights; cpu_quantized_test.cc tests the kernels alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "base/block_formats.h"
#include "base/random.h"
#include "base/repacked_tiles.h"
#include "files/quantize.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "runtime/program.h"

namespace ridge::backends::cpu {
namespace {

constexpr int64_t kIn = 512;
using Weights = std::vector<std::pair<DType, int64_t>>;
const Weights& weights() {
  static const Weights weights = {{DType::kQ4_1, 40},
                                  {DType::kQ8_0, 7},
                                  {DType::kQ4_K, 33},
                                  {DType::kBF16, 9},
                                  {DType::kQ6_K, 16}};
  return weights;
}

class GroupRun {
 public:
  // Repacks the weights before the last `in_blocks` ones, if they have repacked tiles.
  GroupRun(int64_t tokens,
           const std::string& activations,
           const Weights& group = weights(),
           const std::string& glu = "",
           size_t in_blocks = std::numeric_limits<size_t>::max())
      : backend_(make_cpu_backend({})), store_(*backend_), program_(*backend_, store_) {
    Graph graph;
    Builder b(graph, ops::table());
    std::vector<ValueId> operands{b.input("x", {DType::kF32, {tokens, kIn}})};
    for (size_t i = 0; i < group.size(); ++i) {
      const Shape shape{group[i].second, kIn};
      const bool repacks = group.size() > in_blocks && i < group.size() - in_blocks;
      operands.push_back(
          b.parameter(std::to_string(i),
                      {repacks ? repacked_dtype(group[i].first, shape) : group[i].first, shape}));
      stored_.push_back(group[i].first);
    }
    graph.outputs =
        b.call_all("quantized_matmul", operands, {{"activations", activations}, {"glu", glu}});
    node_ = graph.nodes[0];
    program_.add("group", std::move(graph));
    program_.bind();
    fill();
  }

  // The largest difference of an output from the reference, relative to the output's root mean
  // square.
  double distance() {
    program_.run(0);
    const Graph& graph = program_.graph(0).graph();
    CallTypes types(graph, node_);
    std::vector<const Tensor64*> inputs;
    for (const Tensor64& each : operands_) inputs.push_back(&each);
    std::vector<Tensor64> want;
    for (const Type& type : types.outputs)
      want.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
    node_.op->reference(types.call(), inputs, want);
    double most = 0;
    for (size_t o = 0; o < want.size(); ++o) {
      std::vector<float> got = program_.read(0, graph.outputs[o]);
      double squares = 0, off = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        squares += want[o].data[i] * want[o].data[i];
        off = std::max(off, std::abs(static_cast<double>(got[i]) - want[o].data[i]));
      }
      most = std::max(most, off / std::sqrt(squares / static_cast<double>(got.size())));
    }
    return most;
  }

 private:
  void fill() {
    Random random(11);
    const Graph& graph = program_.graph(0).graph();
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const Value& value = graph.value(node_.inputs[i]);
      const DType stored = i == 0 ? value.type.dtype : stored_[i - 1];
      std::vector<float> floats(static_cast<size_t>(value.type.shape.elements()));
      random.fill_normal(floats, 1.0f);
      std::vector<std::byte> bytes(
          static_cast<size_t>(storage_bytes(value.type.dtype, value.type.shape.elements())));
      files::quantize(stored, floats, bytes);
      dequantize(stored, bytes, floats);
      if (is_repacked(value.type.dtype)) {
        const std::vector<std::byte> rows = bytes;
        repack_rows(value.type.dtype, kIn, rows, bytes);
      }
      store_.write(value.name, bytes.data(), static_cast<int64_t>(bytes.size()));
      operands_.push_back({value.type, {floats.begin(), floats.end()}});
    }
  }

  std::unique_ptr<Backend> backend_;
  runtime::Store store_;
  runtime::Program program_;
  Node node_;
  std::vector<DType> stored_;  // the types of the weights before they were repacked
  std::vector<Tensor64> operands_;
};

// Sums of 512 products in fp32.
constexpr double kRounding = 1e-5;
// Occasionally a quotient lies so close to the middle of two quants that fp32 and double round it
// differently. The sum then differs by a step (1/127 of about 3) times a weight of about 3; its
// root mean square is the root of 512.
constexpr double kQuant = 3.0 / 127 * 4 / 22.6;

// A weight near the middle of two bf16 numbers, which fp32 and double round differently, differs
// by 2^-8 of itself.
constexpr double kHalf = 3.0 * 0x1p-8 * 4 / 22.6;

TEST(QuantizedMatmul, KeepsActivationsInExactMode) {
  for (int64_t tokens : {1, 3, 70})
    EXPECT_LT(GroupRun(tokens, "f32").distance(), kRounding) << tokens << " tokens";
}

TEST(QuantizedMatmul, RoundsToEightBitsAsTheReferenceDoes) {
  Weights group = weights();
  // AVX2 multiplies quants of up to 6 bits by int8.
  if (quantized_isa() == QuantizedIsa::kAvx2)
    std::erase_if(group, [](const auto& weight) { return weight.first == DType::kQ8_0; });
  for (int64_t tokens : {1, 3})
    EXPECT_LT(GroupRun(tokens, "i8", group).distance(), kQuant) << tokens << " tokens";
}

// The same with steps 254 times smaller; some elements in a hundred differ by one step.
TEST(QuantizedMatmul, RoundsToSixteenBitsAsTheReferenceDoes) {
  for (int64_t tokens : {1, 3, 70})
    EXPECT_LT(GroupRun(tokens, "i16").distance(), kRounding + 2 * kQuant / 254)
        << tokens << " tokens";
}

// Repacked weights next to plain ones, and next to blocks in the file's order.
TEST(QuantizedMatmul, MultipliesWeightsOfSeveralLayoutsInOneLaunch) {
  if (!takes_repacked(quantized_isa())) GTEST_SKIP() << "no repacked weights here";
  const Weights group = {
      {DType::kQ4_1, 48}, {DType::kQ6_K, 16}, {DType::kBF16, 9}, {DType::kQ5_1, 32}};
  const Weights without_blocks(group.begin(), group.end() - 1);
  for (int64_t tokens : {1, 4, 5, 8, 9, 16, 17, 33, 70})
    for (const char* activations : {"i16", "i8"}) {
      const double slack = activations == std::string("i8") ? kQuant : kRounding + 2 * kQuant / 254;
      EXPECT_LT(GroupRun(tokens, activations, group, "", 1).distance(), slack) << tokens;
      EXPECT_LT(GroupRun(tokens, activations, without_blocks, "", 0).distance(), slack) << tokens;
    }
}

TEST(QuantizedMatmul, RoundsToBf16AsTheReferenceDoes) {
  if (!has_bf16_tiles()) GTEST_SKIP() << "this machine has no AMX";
  for (int64_t tokens : {1, 3, 70})
    EXPECT_LT(GroupRun(tokens, "bf16").distance(), kHalf) << tokens << " tokens";
}

// A GLU multiplies two such products. Their errors add up in each other's size, which is up to
// about 4 root mean squares, and the slope of an activation is up to 1.13.
TEST(QuantizedMatmul, GluOfTwoProducts) {
  constexpr double kFactor = 2 * 4 * 1.13;
  for (const char* glu : {"silu", "gelu_tanh"})
    for (DType dtype : {DType::kQ4_1, DType::kQ5_1, DType::kQ6_K})
      for (int64_t out : {33, 48})
        for (int64_t tokens : {1, 3, 30, 70, 300}) {
          SCOPED_TRACE(fmt::format("{} of {} [{}], {} tokens", glu, name(dtype), out, tokens));
          const Weights two = {{dtype, out}, {dtype, out}};
          EXPECT_LT(GroupRun(tokens, "i8", two, glu).distance(), kFactor * kQuant);
          EXPECT_LT(GroupRun(tokens, "i16", two, glu).distance(),
                    kFactor * (kRounding + 2 * kQuant / 254));
          if (has_bf16_tiles()) {
            EXPECT_LT(GroupRun(tokens, "bf16", two, glu).distance(), kFactor * kHalf);
          }
        }
}

TEST(QuantizedMatmul, GluNeedsTwoWeightsOfOneTypeAndRoundedActivations) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({});
  const auto reason = [&](DType up, const char* activations) {
    Graph graph;
    Builder b(graph, ops::table());
    const std::vector<ValueId> operands = {b.input("x", {DType::kF32, {3, kIn}}),
                                           b.parameter("gate", {DType::kQ4_1, {32, kIn}}),
                                           b.parameter("up", {up, {32, kIn}})};
    b.call_all("quantized_matmul", operands,
               {{"activations", std::string(activations)}, {"glu", std::string("silu")}});
    return backend->unsupported(graph, graph.nodes[0]);
  };
  EXPECT_EQ(reason(DType::kQ4_1, "i16"), "");
  for (const std::string& refused : {reason(DType::kQ8_0, "i16"), reason(DType::kQ4_1, "f32")})
    EXPECT_NE(refused.find("one type of blocks"), std::string::npos) << refused;
}

}  // namespace
}  // namespace ridge::backends::cpu
