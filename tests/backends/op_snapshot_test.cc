// SPDX-License-Identifier: Apache-2.0
// Results of another implementation (tests/data/snapshots) against graphs, passes and kernels:
// attention from primitives, as a composite and as flash attention, and RoPE expanded and whole.
// tests/train/optimizer_test.cc has AdamW.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/npz_array.h"
#include "backends/op_check.h"
#include "backends/op_samples.h"
#include "test_paths.h"

namespace ridge::backends {
namespace {

constexpr int64_t kBatch = 4, kQueries = 12, kKeys = 16, kHeadSize = 64;
constexpr double kScale = 0.125;  // 1 / sqrt(64)
// The snapshots are fp32 and within 1e-6 of exact arithmetic; our kernels may differ by as much in
// the other direction.
constexpr double kSnapshotError = 1e-6;

std::filesystem::path snapshot(const std::string& name) { return test_data("snapshots/" + name); }

// PyTorch's randn for a size that is a multiple of 16.
std::vector<double> randn(uint32_t seed, int64_t elements) {
  std::vector<float> data(static_cast<size_t>(elements));
  Random(seed).fill_normal(data, 1);
  return {data.begin(), data.end()};
}

struct Inputs {
  std::vector<double> q = randn(1, kBatch* kQueries* kHeadSize);
  std::vector<double> k = randn(2, kBatch* kKeys* kHeadSize);
  std::vector<double> v = randn(3, kBatch* kKeys* kHeadSize);
  std::vector<double> mask = randn(5, kBatch* kQueries* kKeys);
  bool sees(int64_t b, int64_t query, int64_t key) const {
    return mask[static_cast<size_t>((b * kQueries + query) * kKeys + key)] > 0.5;
  }
};

Tensor64 f32(const Shape& shape, std::vector<double> data) {
  return {{DType::kF32, shape}, std::move(data)};
}

// Returns the kernels' result, after comparing it with the result of the double references.
std::vector<double> run(const Graph& graph, const ops::NamedTensors& named) {
  GraphRun made(tested_backend(), lower(graph, ops::table(), tested_backend()));
  made.write(named);
  made.run();
  std::vector<double> got = made.outputs()[0].data,
                      exact = ops::ReferenceRun(graph, named).outputs()[0].data;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact[i], kSnapshotError) << i;
  return got;
}

void expect_snapshot(const std::vector<float>& want, const std::vector<double>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2 * kSnapshotError) << i;
}

// softmax(scale q k^T + mask) v with these leading axes.
std::vector<double> attention_of_primitives(const Inputs& in,
                                            const std::vector<int64_t>& leading,
                                            const std::string& letters) {
  auto shape = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dims = leading;
    dims.insert(dims.end(), {rows, columns});
    return Shape(dims);
  };
  std::vector<double> bias;
  for (double each : in.mask) bias.push_back(each > 0.5 ? 0 : -INFINITY);
  ops::NamedTensors named{{"q", f32(shape(kQueries, kHeadSize), in.q)},
                          {"k", f32(shape(kKeys, kHeadSize), in.k)},
                          {"v", f32(shape(kKeys, kHeadSize), in.v)},
                          {"bias", f32(shape(kQueries, kKeys), bias)}};
  Graph graph;
  Builder b(graph, ops::table());
  auto input = [&](const char* name) { return b.input(name, named.at(name).type); };
  ValueId scores =
      ops::matmul(b, letters + "te," + letters + "se->" + letters + "ts", input("q"), input("k"));
  ValueId masked = ops::add(b, ops::scale(b, scores, kScale), input("bias"));
  ValueId mixed = b.call("softmax", {masked});
  graph.outputs = {
      ops::matmul(b, letters + "ts," + letters + "se->" + letters + "te", mixed, input("v"))};
  return run(graph, named);
}

TEST(Snapshots, AttentionOfPrimitives) {
  expect_snapshot(read_npz_array(snapshot("test_scaled_dot_product_attention.npz")),
                  attention_of_primitives(Inputs(), {kBatch}, "b"));
  expect_snapshot(read_npz_array(snapshot("test_4d_scaled_dot_product_attention.npz")),
                  attention_of_primitives(Inputs(), {2, 2}, "bh"));
}

// The op has no arbitrary masks. But a query that attends to some of the keys is the same as a
// query over the sequence of just those keys. So each row of the snapshot becomes one such
// sequence, and its last position is compared.
std::vector<double> attention_by_rows(const Inputs& in, const char* op) {
  std::vector<double> all;
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t query = 0; query < kQueries; ++query) {
      std::vector<double> q, k, v;
      for (int64_t key = 0; key < kKeys; ++key) {
        if (!in.sees(b, query, key)) continue;
        auto append = [&](std::vector<double>& to, const std::vector<double>& from, int64_t row) {
          to.insert(to.end(), from.begin() + row * kHeadSize, from.begin() + (row + 1) * kHeadSize);
        };
        append(q, in.q, b * kQueries + query);
        append(k, in.k, b * kKeys + key);
        append(v, in.v, b * kKeys + key);
      }
      int64_t t = static_cast<int64_t>(k.size()) / kHeadSize;
      Shape shape{t, 1, kHeadSize};
      Graph graph;
      Builder builder(graph, ops::table());
      std::vector<ValueId> inputs;
      for (const char* name : {"q", "k", "v"})
        inputs.push_back(builder.input(name, {DType::kF32, shape}));
      graph.outputs = {
          builder.call_all(op, inputs, {{"sequence", t}, {"causal", false}, {"scale", kScale}})[0]};
      std::vector<double> rows =
          run(graph, {{"q", f32(shape, q)}, {"k", f32(shape, k)}, {"v", f32(shape, v)}});
      all.insert(all.end(), rows.end() - kHeadSize, rows.end());
    }
  return all;
}

TEST(Snapshots, AttentionAsComposite) {
  expect_snapshot(read_npz_array(snapshot("test_scaled_dot_product_attention.npz")),
                  attention_by_rows(Inputs(), "attention"));
}

TEST(Snapshots, FlashAttention) {
  expect_snapshot(read_npz_array(snapshot("test_scaled_dot_product_attention.npz")),
                  attention_by_rows(Inputs(), "flash_attention"));
}

TEST(Snapshots, RopeExpandedAndWhole) {
  std::vector<double> positions;
  for (int64_t n = 0; n < kBatch * kQueries; ++n)
    positions.push_back(static_cast<double>(n % kQueries));
  ops::NamedTensors named{
      {"x", f32({kBatch * kQueries, 1, kHeadSize}, randn(4, kBatch * kQueries * kHeadSize))},
      {"positions", {{DType::kI32, {kBatch * kQueries}}, positions}}};
  for (bool fused : {false, true}) {
    Graph graph;
    Builder b(graph, ops::table());
    ValueId x = b.input("x", named.at("x").type);
    std::vector<ValueId> table =
        b.call_all("rope_table", {b.input("positions", named.at("positions").type)},
                   {{"head_size", kHeadSize}, {"theta", 1e4}});
    graph.outputs = {
        b.call("rope", {x, table[0], table[1]}, {{"interleaved", true}, {"fused", fused}})};
    expect_snapshot(read_npz_array(snapshot("test_rope.npz")), run(graph, named));
  }
}

}  // namespace
}  // namespace ridge::backends
