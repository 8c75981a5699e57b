// SPDX-License-Identifier: Apache-2.0
// Calls of libraries beside PyTorch are counted, on traces written here.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "record/trace_text.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;
using Values = std::vector<std::string>;

constexpr const char* kHalf = "c10::BFloat16";

Json arguments(const Json& dims, const Values& values, const std::string& type) {
  Values types;
  for (const Json& each : dims) types.push_back(each.empty() ? "" : type);
  return {{"Input Dims", dims}, {"Input type", types}, {"Concrete Inputs", values}};
}

NodeRecord node_of(const std::string& name,
                   const Json& dims,
                   const Values& values = {},
                   const std::string& type = kHalf) {
  const Imported imported =
      import_text(TraceText().event("cpu_op", name, 0, 10, arguments(dims, values, type)).str());
  EXPECT_EQ(imported.run.step.nodes.size(), 1u);
  return imported.run.step.nodes.at(0);
}

TEST(LibraryCounts, ProductsWithFlags) {
  const Json none = Json::array();
  // A [k,m] and B [k,n] by row: A is turned.
  NodeRecord node = node_of("primus_turbo_cpp_extension::hipblaslt_gemm_fp8",
                            {{8, 10}, none, {8, 24}, none, none, none, none, none, none},
                            {"", "", "", "", "15", "True", "False", "False", ""});
  EXPECT_EQ(node.op, "matmul");
  EXPECT_EQ(node.work.macs, 10 * 8 * 24);
  EXPECT_EQ(node.shape, "bf16[10,24]");
  // The same by column, as BLAS has it: [m,k] is turned.
  node = node_of("tex_ts::te_gemm_ts",
                 {{24, 8}, none, none, none, none, {10, 8}, none, none, none, none},
                 {"", "", "", "", "1", "", "", "", "", "0"});
  EXPECT_EQ(node.work.macs, 10 * 8 * 24);
  // Extents that do not fit are no product.
  EXPECT_EQ(node_of("tex_ts::te_gemm_ts",
                    {{24, 8}, none, none, none, none, {10, 9}, none, none, none, none},
                    {"", "", "", "", "1", "", "", "", "", "0"})
                .work,
            Work());
  // Weights of groups by row and by column, and groups that cut the depth.
  EXPECT_EQ(node_of("primus_turbo::grouped_gemm_impl", {{40, 8}, {4, 8, 6}}).work.macs, 40 * 8 * 6);
  EXPECT_EQ(node_of("primus_turbo::grouped_gemm_impl", {{40, 8}, {4, 6, 8}}).work.macs, 40 * 8 * 6);
  node = node_of("primus_turbo::grouped_gemm_variable_k", {{40, 8}, {40, 6}, {4}});
  EXPECT_EQ(node.work.macs, 40 * 8 * 6);
  EXPECT_EQ(node.shape, "bf16[4,8,6]");
}

TEST(LibraryCounts, OneProductOfExperts) {
  const Json none = Json::array();
  const Json dims = {{64, 2048}, {128, 1536, 2048}, none, none, none, none, none, none, {64, 8}};
  const Imported imported = import_text(
      TraceText()
          .event("cpu_op", "sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel_12",
                 0, 10,
                 Json{{"Input Dims", dims},
                      {"Input type",
                       {"c10::Half", "c10::Float8_e4m3fn", "", "", "", "", "", "", "int"}}})
          .str());
  EXPECT_EQ(imported.run.step.nodes.at(0).op, "experts");
  const NodeRecord& node = imported.run.step.nodes.at(0);
  EXPECT_EQ(node.work.macs, int64_t{64} * 8 * 1536 * 2048);
  // The weights may have another type, of which the product is not.
  EXPECT_EQ(node.shape, "f16[512,1536]");
  EXPECT_EQ(node.read_bytes, 64 * 2048 * 2 + int64_t{128} * 1536 * 2048);
}

// Three sequences of 10 tokens; then one of 20 and two that are as long as one another.
TEST(LibraryCounts, AttentionOverPackedSequences) {
  const Json none = Json::array();
  const Json dims = {{30, 4, 16}, {30, 2, 16}, {30, 2, 16}, {4}, {4}, none, none};
  auto macs = [&](const std::string& longest) {
    return node_of("flash_attn::_flash_attn_varlen_forward", dims,
                   {"", "", "", "", "", longest, longest})
        .work.macs;
  };
  EXPECT_EQ(macs("10"), 3 * 10 * 10 * 4 * 32);
  EXPECT_EQ(macs("20"), (20 * 20 + 2 * 5 * 5) * 4 * 32);
  // Without the longest, or with one that is longer than all, there is no claim.
  EXPECT_EQ(macs(""), 0);
  EXPECT_EQ(macs("31"), 0);
  const Json backward = {{30, 4, 16}, {30, 4, 16}, {30, 2, 16}, {30, 2, 16}, {30, 4, 16},
                         none,        none,        none,        none,        {4},
                         {4},         none,        none};
  EXPECT_EQ(node_of("flash_attn::_flash_attn_varlen_backward", backward,
                    {"", "", "", "", "", "", "", "", "", "", "", "10", "10"})
                .work.macs,
            5 * 3 * 10 * 10 * 4 * 16);
}

// The batch of a server has the pairs of all sequences, also where one is longer than the others.
TEST(LibraryCounts, PackedAttentionOfAServer) {
  const Json none = Json::array();
  TraceText trace;
  trace
      .event("user_annotation",
             "execute_30_context_3(sq30sk30sqsq500sqsk500)_generation_0(sq0sk0sqsq0sqsk0)", 0, 100)
      .event("cpu_op", "aiter::mha_varlen_fwd", 10, 10,
             arguments({{30, 4, 16}, {30, 2, 16}, {30, 2, 16}, {4}, {4}, none, none},
                       {"", "", "", "", "", "20", "20"}, kHalf));
  EXPECT_EQ(import_text(trace.str()).run.step.nodes.at(0).work.macs, 500 * 4 * 32);
}

// A function in Python and its gradient, which launch their kernels themselves.
TEST(LibraryCounts, GradientsOfFunctions) {
  const Json none = Json::array(), q = {2, 64, 4, 16};
  Json forward = arguments({q, q, q}, {}, kHalf),
       linear = arguments({{24, 8}, {5, 2, 8}}, {}, kHalf);
  forward["Sequence number"] = 5;
  linear["Sequence number"] = 6;
  auto gradient = [](const Json& dims, int sequence) {
    Json args = arguments(dims, {}, kHalf);
    args["Sequence number"] = sequence;
    args["Fwd thread id"] = 1;
    return args;
  };
  TraceText trace;
  trace.event("cpu_op", "FlashAttnFunc", 0, 10, forward)
      .event("cuda_runtime", "cudaLaunchKernel", 2, 2, {{"correlation", 1}})
      .event("cpu_op", "_Linear", 10, 10, linear)
      .event("cuda_runtime", "cudaLaunchKernel", 12, 2, {{"correlation", 2}})
      .event("cpu_op", "_LinearBackward", 20, 10, gradient({{5, 2, 24}}, 6))
      .event("cuda_runtime", "cudaLaunchKernel", 22, 2, {{"correlation", 3}})
      .event("cpu_op", "FlashAttnFuncBackward", 30, 10, gradient({q}, 5))
      .event("cuda_runtime", "cudaLaunchKernel", 32, 2, {{"correlation", 4}})
      .event("kernel", "flash_fwd_kernel", 50, 5, {{"correlation", 1}}, 9)
      .event("kernel", "nvjet_tst_128x256", 55, 5, {{"correlation", 2}}, 9)
      .event("kernel", "nvjet_tst_256x128", 60, 5, {{"correlation", 3}}, 9)
      .event("kernel", "flash_bwd_dq_dk_dv_loop", 65, 5, {{"correlation", 4}}, 9);
  const Imported imported = import_text(trace.str());
  ASSERT_EQ(imported.run.step.nodes.size(), 4u);
  constexpr int64_t kScores = 2 * 4 * 64 * 64, kLinear = 10 * 8 * 24;
  const std::vector<std::pair<std::string, int64_t>> expected = {
      {"flash_attention", 2 * kScores * 16},
      {"matmul", kLinear},
      {"matmul", 2 * kLinear},
      {"flash_attention_backward", 5 * kScores * 16}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(imported.run.step.nodes[i].op, expected[i].first);
    EXPECT_EQ(imported.run.step.nodes[i].work.macs, expected[i].second);
  }
  EXPECT_EQ(imported.run.model.backward.macs, 2 * kLinear + 4 * kScores * 16);
  EXPECT_EQ(imported.steps.attribution.uncounted_ns, 0);
}

// TorchInductor fuses a lookup with what follows it; only the rows of 32 tokens are read.
TEST(LibraryCounts, GeneratedKernelsReadRowsOfTables) {
  const Imported imported =
      import_text(TraceText()
                      .event("cpu_op", "triton_red_fused_embedding_mean_0", 0, 10,
                             {{"Input Dims", {{4, 8}, {201088, 2880}, {4, 8, 2880}}},
                              {"Input type", {"long int", kHalf, kHalf}}})
                      .str());
  const NodeRecord& node = imported.run.step.nodes.at(0);
  EXPECT_EQ(node.read_bytes, 32 * 8 + 2 * 32 * 2880 * 2);
  EXPECT_EQ(node.shape, "bf16[4,8,2880]");
}

// Older versions of PyTorch wrote the extents under another key.
TEST(LibraryCounts, ExtentsOfOldTraces) {
  const Imported imported =
      import_text(TraceText()
                      .event("Operator", "aten::mm", 0, 10,
                             {{"Input dims", {{3, 4}, {4, 5}}}, {"Input type", {"float", "float"}}})
                      .str());
  EXPECT_EQ(imported.run.step.nodes.at(0).work.macs, 3 * 4 * 5);
}

}  // namespace
}  // namespace ridge::record
