// SPDX-License-Identifier: Apache-2.0
// A graph that reads one stored matrix twice, for the passes that change how matrices are stored.
#pragma once

#include <gtest/gtest.h>

#include "passes/pass_trial.h"

namespace ridge::passes {

// A quantized table that a lookup and a GEMM read, and a norm's weight in fp32.
struct TiedHead {
  Graph graph;
  LoadGraph load;
  TiedHead() {
    Builder b(graph, ops::table());
    Builder loading(load.graph, ops::table());
    loading.set_phase(Phase::kLoad);
    auto parameter = [&](const std::string& name, const Type& type) {
      load.stored[name] = loading.input("file." + name, type);
      return b.parameter(name, type);
    };
    ValueId table = parameter("table", {DType::kQ8_0, {6, 32}});
    ValueId x = b.call("embedding", {table, b.input("ids", {DType::kI32, {3}})},
                       {{"dtype", std::string("f32")}});
    ValueId normed = b.call_all("rms_norm", {x, parameter("norm", {DType::kF32, {32}})},
                                {{"eps", 1e-5}, {"offset", 0.0}})[0];
    graph.outputs = {ops::matmul(b, "nd,vd->nv", normed, table)};
  }
  Graph run(const Pass& pass) {
    PassContext context{ops::table(), target(), load};
    Graph made = pass.run(graph, context);
    verify(made);
    verify_origins(graph, made);
    return made;
  }
};

// Checks that the matrix is unpacked to `dtype` at load time, that the vector stays as the file has
// it, and that no other type in the graph changes.
inline void expect_stored_as(DType dtype, const Pass& pass) {
  TiedHead tied;
  expect_golden(fmt::format("{}.before.txt", pass.name), print(tied.graph));
  Graph made = tied.run(pass);
  expect_golden(fmt::format("{}.after.txt", pass.name), print(made));
  EXPECT_EQ(made.type(made.find("table")).dtype, dtype);
  EXPECT_EQ(tied.load.graph.type(tied.load.stored.at("table")).dtype, dtype);
  EXPECT_EQ(made.type(made.find("norm")).dtype, DType::kF32);
  EXPECT_EQ(tied.load.graph.producer(tied.load.stored.at("norm")), nullptr);
  for (const Node& node : made.nodes)
    EXPECT_EQ(made.type(node.outputs[0]).dtype, DType::kF32) << node.op->name;
}

}  // namespace ridge::passes
