// SPDX-License-Identifier: Apache-2.0
// Tests of the CPU's bindings of collectives: each rank is a thread here.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "backends/collectives/add_parts.h"
#include "backends/collectives/tcp.h"
#include "backends/cpu/kernel_table.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "runtime/rank_launcher.h"

namespace ridge::backends {
namespace {

constexpr int kRanks = 3;

// Returns the tensor that a rank gets from an op over all ranks, given its own.
std::vector<float> run_op(const char* op,
                          const Shape& shape,
                          int64_t axis,
                          const Groups& groups,
                          std::vector<float> input) {
  Graph graph;
  Builder b(graph, ops::table());
  const ValueId out = b.call(op, {b.state("x", {DType::kF32, shape})},
                             {{"group", "data"}, {"ranks", int64_t{kRanks}}, {"axis", axis}});
  std::vector<float> output(static_cast<size_t>(b.shape(out).elements()));
  for (const Kernel& kernel : cpu::collective_kernels(&groups)) {
    if (kernel.op != op) continue;
    const CallTypes types(graph, graph.nodes[0]);
    std::vector<std::byte> workspace(static_cast<size_t>(kernel.workspace_bytes(types.call())));
    const auto operand = [&](std::vector<float>& data, const Shape& of) {
      return Operand{
          reinterpret_cast<std::byte*>(data.data()), {DType::kF32, of}, dense_strides(of)};
    };
    kernel.bind({.graph = graph,
                 .node = graph.nodes[0],
                 .inputs = {operand(input, shape)},
                 .outputs = {operand(output, b.shape(out))},
                 .workspace = workspace.data(),
                 .types = types})();
  }
  return output;
}

template <typename Body>
void on_each_rank(const Body& body) {
  const int port = runtime::free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      Groups groups;
      groups["data"] = join_tcp({"127.0.0.1", port, rank, kRanks, 20});
      body(groups, rank);
    });
  for (std::thread& each : threads) each.join();
}

// Sums are made in fp32 in the order of the ranks, and rounded once: 1 + 2^-8 + 2^-8 is more than 1
// in bf16, where either half alone is lost.
TEST(CpuCollectives, SumsAreRoundedOnce) {
  constexpr int64_t kElements = 3000;  // several blocks, the last one in part
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto narrow = [&](float x) {
      return dtype == DType::kBF16 ? float_to_bf16(x) : float_to_f16(x);
    };
    const float small = dtype == DType::kBF16 ? 0x1p-8F : 0x1p-11F;
    std::vector<std::vector<uint16_t>> ranks(3, std::vector<uint16_t>(kElements, narrow(small)));
    ranks[0].assign(kElements, narrow(1));
    std::vector<const std::byte*> parts;
    for (const auto& each : ranks) parts.push_back(reinterpret_cast<const std::byte*>(each.data()));
    std::vector<uint16_t> average(kElements);
    add_parts({reinterpret_cast<std::byte*>(average.data()), kElements, dtype}, parts, true);
    EXPECT_EQ(average, std::vector<uint16_t>(kElements, narrow((1 + 2 * small) / 3)));
    add_parts({reinterpret_cast<std::byte*>(ranks[0].data()), kElements, dtype}, parts, false);
    EXPECT_EQ(ranks[0], std::vector<uint16_t>(kElements, narrow(1 + 2 * small)));
    EXPECT_NE(ranks[0][0], narrow(1));
  }
}

// Element (o, a, i) of the whole tensor [2, 3 * kRanks, 5] has its number.
TEST(CpuCollectives, CutAndJoinAnyAxis) {
  for (const int64_t axis : {0, 1, 2}) {
    Shape part{2, 3, 5};
    const Shape whole = part.with(static_cast<int>(axis), part[static_cast<int>(axis)] * kRanks);
    const int64_t run = part[static_cast<int>(axis)] * (axis == 0 ? 15 : axis == 1 ? 5 : 1);
    std::vector<float> numbers(static_cast<size_t>(whole.elements()));
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    on_each_rank([&](const Groups& groups, int rank) {
      std::vector<float> own(static_cast<size_t>(part.elements()));
      for (int64_t i = 0; i < part.elements(); ++i)
        own[static_cast<size_t>(i)] =
            numbers[static_cast<size_t>((i / run * kRanks + rank) * run + i % run)];
      EXPECT_EQ(run_op("all_gather", part, axis, groups, own), numbers) << "axis " << axis;
      std::vector<float> sum = own;
      for (float& each : sum) each *= kRanks;
      EXPECT_EQ(run_op("reduce_scatter", whole, axis, groups, numbers), sum) << "axis " << axis;
    });
  }
}

}  // namespace
}  // namespace ridge::backends
