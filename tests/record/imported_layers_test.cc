// SPDX-License-Identifier: Apache-2.0
// Imported layers of other models, steps of servers, and what lies outside of steps, on traces
// written here.
#include <gtest/gtest.h>

#include <ctime>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "record/import/imported_ranks.h"
#include "record/import/serving_batch.h"
#include "record/trace_text.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;

// A trace of one call, with the values of its scalars.
NodeRecord node_of(const std::string& name,
                   const Json& dims,
                   const std::vector<std::string>& values,
                   const std::string& type = "float") {
  std::vector<std::string> types;
  for (const Json& each : dims)
    types.push_back(each.empty() ? "" : each.front().is_array() ? "TensorList" : type);
  const Imported imported = import_text(
      TraceText()
          .event("cpu_op", name, 0, 10,
                 {{"Input Dims", dims}, {"Input type", types}, {"Concrete Inputs", values}})
          .str());
  EXPECT_EQ(imported.run.step.nodes.size(), 1u);
  return imported.run.step.nodes.at(0);
}

TEST(ImportedLayers, Convolution) {
  const Json none = Json::array();
  const Json forward = {{2, 8, 9, 9}, {16, 4, 3, 3}, none, none, none, none, none, none, none};
  NodeRecord node = node_of("aten::convolution", forward,
                            {"", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"});
  EXPECT_EQ(node.op, "convolution");
  EXPECT_EQ(node.work.macs, 2 * 5 * 5 * 16 * 4 * 3 * 3);
  EXPECT_EQ(node.shape, "f32[2,16,5,5]");
  node = node_of("aten::convolution", {{2, 8, 9}, {8, 6, 4}, none, none, none, none, none, none},
                 {"", "", "", "[3]", "[1]", "[1]", "True", "[1]"});
  EXPECT_EQ(node.work.macs, 2 * 9 * 8 * 6 * 4);
  EXPECT_EQ(node.shape, "f32[2,6,27]");
  // Without recorded strides the output is not known.
  EXPECT_EQ(node_of("aten::convolution", forward, {}).work, Work());
  const Json gradients = {{2, 16, 5, 5}, {2, 8, 9, 9}, {16, 4, 3, 3}, none, none, none,
                          none,          none,         none,          none, none};
  auto backward = [&](const std::string& mask) {
    return node_of("aten::convolution_backward", gradients,
                   {"", "", "", "[16]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2", mask})
        .work.macs;
  };
  constexpr int64_t kOnce = 2 * 5 * 5 * 16 * 4 * 3 * 3;
  EXPECT_EQ(backward("[True, True, True]"), 2 * kOnce);
  EXPECT_EQ(backward("[False, True, True]"), kOnce);
  EXPECT_EQ(backward("[False, False, True]"), 0);
}

TEST(ImportedLayers, RecurrentNetworks) {
  const Json none = Json::array();
  const Json weights = {{64, 8}, {64, 16}, {64}, {64}};
  EXPECT_EQ(node_of("aten::_cudnn_rnn", {{5, 3, 8}, weights}, {"", ""}).work.macs,
            5 * 3 * 64 * (8 + 16));
  const Json layer = {{5, 3, 8}, {64, 8}, {64, 16}, {64}, {64}};
  const std::vector<std::string> no_values(5);
  EXPECT_EQ(node_of("aten::mkldnn_rnn_layer", layer, no_values).work.macs, 5 * 3 * 64 * (8 + 16));
  EXPECT_EQ(node_of("aten::mkldnn_rnn_layer_backward", layer, no_values).work.macs,
            2 * 5 * 3 * 64 * (8 + 16));
}

TEST(ImportedLayers, AttentionOfOtherLibraries) {
  const Json operand = {1, 64, 4, 16};
  const Json forward = {operand, operand, operand};
  const std::vector<std::string> none(3);
  for (const char* name : {"aiter::fmha_v3_fwd", "aiter::_flash_attn_forward"})
    EXPECT_EQ(node_of(name, forward, none, "c10::bfloat16").work.macs, 2 * 64 * 64 * 4 * 16)
        << name;
  EXPECT_EQ(node_of("aiter::fmha_v3_bwd", {operand, operand, operand, operand},
                    std::vector<std::string>(4))
                .work.macs,
            5 * 64 * 64 * 4 * 16);
}

TEST(ImportedLayers, GroupsAndExperts) {
  auto macs = [](const char* name, const Json& dims, const std::string& type = "c10::BFloat16") {
    return node_of(name, dims, std::vector<std::string>(dims.size()), type).work.macs;
  };
  EXPECT_EQ(macs("aten::_grouped_mm", {{40, 8}, {4, 8, 6}, {4}}), 40 * 8 * 6);
  EXPECT_EQ(macs("aten::_grouped_mm", {{8, 40}, {40, 6}, {4}}), 8 * 40 * 6);
  EXPECT_EQ(macs("aten::_grouped_mm", {{4, 5, 8}, {4, 8, 6}}), 4 * 5 * 8 * 6);
  EXPECT_EQ(
      macs("vllm::outplace_fused_experts", {{10, 8}, {4, 24, 8}, {4, 8, 12}, {10, 2}, {10, 2}}),
      10 * 2 * (24 * 8 + 8 * 12));
  EXPECT_EQ(macs("aiter::gemm_a8w8", {{10, 8}, {24, 8}}, "c10::Float8_e4m3fnuz"), 10 * 24 * 8);
  EXPECT_EQ(macs("aiter::gemm_a4w4", {{10, 8}, {24, 8}}, "unsigned char"), 10 * 24 * 16);
  EXPECT_EQ(macs("_C::cutlass_scaled_mm", {{10, 24}, {10, 8}, {8, 24}}), 10 * 24 * 8);
  EXPECT_EQ(macs("aten::_scaled_mm", {{10, 8}, {8, 24}}, "c10::Float8_e4m3fn"), 10 * 24 * 8);
}

// The numbers of experts, and of those chosen, are scalars, and values of 4 bits share bytes.
TEST(ImportedLayers, ExpertsOfPackedWeights) {
  const Json none = Json::array();
  const NodeRecord node = node_of("flashinfer::trtllm_fp4_block_scale_moe",
                                  {{10, 6}, {10, 32}, {6, 48, 32}, {6, 64, 12}, none, none},
                                  {"", "", "", "", "6", "2"}, "unsigned char");
  EXPECT_EQ(node.op, "experts");
  EXPECT_EQ(node.work.macs, 10 * 2 * (64 * 48 + 24 * 64));
  EXPECT_EQ(node.work.flops, 2 * node.work.macs);
}

// The call has the tokens and the router's scores; what is inside shows two weights of four bits
// and the chosen experts.
TEST(ImportedLayers, ExpertsByWhatIsInside) {
  auto call = [](const Json& dims, const std::string& type) {
    return Json{{"Input Dims", dims}, {"Input type", std::vector<std::string>(dims.size(), type)}};
  };
  TraceText trace;
  trace.event("cpu_op", "vllm::moe_forward", 0, 100, call({{32, 3072}, {32, 32}}, "c10::BFloat16"))
      .event(
          "cpu_op", "SortTokens", 10, 5,
          Json{{"Input Dims", {{32, 4}, {32, 4}}}, {"Input type", {"c10::BFloat16", "short int"}}})
      .event("cpu_op", "aten::view", 20, 5, call({{32, 1536, 5888}}, "unsigned char"))
      .event("cuda_runtime", "hipModuleLaunchKernel", 26, 2, {{"correlation", 1}})
      .event("cpu_op", "aten::view", 30, 5, call({{32, 1472, 3072}}, "unsigned char"))
      .event("cuda_runtime", "hipModuleLaunchKernel", 36, 2, {{"correlation", 2}})
      .event("kernel", "_matmul_ogs_NNT_bf16xbf16xmxfp4_swiglu", 50, 20, {{"correlation", 1}}, 9)
      .event("kernel", "_matmul_ogs_NNT_bf16xbf16xmxfp4", 70, 10, {{"correlation", 2}}, 9);
  const Imported imported = import_text(trace.str());
  ASSERT_EQ(imported.run.step.nodes.size(), 1u);
  const NodeRecord& node = imported.run.step.nodes[0];
  EXPECT_EQ(node.op, "experts");
  EXPECT_EQ(node.time_ns, 30'000);
  EXPECT_EQ(node.work.macs, int64_t{32} * 4 * (3072 * 5888 + 2944 * 3072));
  EXPECT_EQ(imported.steps.attribution.uncounted_ns, 0);
}

// FLOPs and bytes of TraceLens 1.0 for SGLang's Qwen3 8B.
TEST(ImportedLayers, WhatServersHaveBesideProducts) {
  const Json none = Json::array();
  NodeRecord node = node_of("sgl_kernel::silu_and_mul", {{15360, 12288}, {15360, 24576}}, {"", ""},
                            "c10::BFloat16");
  EXPECT_EQ(node.work.flops, 943'718'400);
  EXPECT_EQ(node.read_bytes + node.written_bytes, int64_t{1080} << 20);
  const Imported rope = import_text(
      TraceText()
          .event("cpu_op", "sgl_kernel::rotary_embedding", 0, 10,
                 {{"Input Dims", {{15360}, {15360, 4096}, {15360, 1024}, none, {41216, 128}, none}},
                  {"Input type",
                   {"long int", "c10::BFloat16", "c10::BFloat16", "Scalar", "c10::BFloat16", ""}}})
          .str());
  EXPECT_EQ(rope.run.step.nodes.at(0).work.flops, 235'929'600);
  node =
      node_of("sglang::store_cache", {{15360, 1024}, {15360, 1024}, {835874, 1024}, {835874, 1024}},
              {"", "", "", ""}, "c10::BFloat16");
  EXPECT_EQ(node.read_bytes + node.written_bytes, int64_t{120} << 20);
}

TEST(ImportedLayers, PoolsNormsBagsAndTransforms) {
  const Json none = Json::array();
  NodeRecord node =
      node_of("aten::max_pool2d_with_indices", {{2, 3, 8, 8}, none, none, none, none, none},
              {"", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"});
  EXPECT_EQ(node.shape, "f32[2,3,4,4]");
  EXPECT_EQ(node.work.flops, 2 * 3 * 4 * 4 * 9);
  node = node_of("aten::_adaptive_avg_pool2d", {{2, 3, 8, 8}, none}, {"", "[1, 1]"});
  EXPECT_EQ(node.shape, "f32[2,3,1,1]");
  EXPECT_EQ(node.work.flops, 2 * 3 * 8 * 8);
  node = node_of("aten::native_batch_norm", {{2, 3, 8, 8}, {3}, {3}}, {"", "", ""});
  EXPECT_EQ(node.work.flops, 7 * 2 * 3 * 8 * 8 + 4 * 3);
  node = node_of("aten::_embedding_bag", {{100, 8}, {20}, {5}}, {"", "", ""});
  EXPECT_EQ(node.shape, "f32[5,8]");
  EXPECT_EQ(node.work.flops, 20 * 8);
  node = node_of("aten::_fft_r2c", {{2, 16}, none}, {"", "[1]"});
  EXPECT_EQ(node.work.flops, 5 * 2 * 16 * 4 / 2);
  node = node_of("aten::_fft_c2c", {{2, 16}, none}, {"", "[1]"}, "c10::complex<float>");
  EXPECT_EQ(node.work.flops, 5 * 2 * 16 * 4);
}

Json paged(int id = 1) {
  return {{"Input Dims", {{4, 8, 64}, {4, 2, 64}, {4, 2, 64}, {4, 8, 64}}},
          {"Input type", std::vector<std::string>(4, "c10::BFloat16")},
          {"External id", id}};
}

TEST(ImportedServer, AttentionHasTheKeysOfItsBatch) {
  const char* name = "execute_4_context_1(sq2sk2sqsq4sqsk4)_generation_2(sq2sk30sqsq2sqsk30)";
  const Imported imported =
      import_text(TraceText()
                      .event("user_annotation", name, 0, 100)
                      .event("cpu_op", "vllm::unified_attention_with_output", 10, 20, paged())
                      .event("cpu_op", "vllm::unified_attention_with_output", 200, 20, paged())
                      .str());
  ASSERT_EQ(imported.run.step.nodes.size(), 1u);
  EXPECT_EQ(imported.run.step.nodes[0].work.macs, 2 * 8 * 64 * 34);
  EXPECT_EQ(imported.run.step.nodes[0].read_bytes, 2 * 4 * 8 * 64 + 2 * 2 * 64 * 2 * 32);
  EXPECT_EQ(imported.run.setting.task, "mixed");
  EXPECT_EQ(imported.run.step.wall_ns, 100'000);
}

TEST(ServingBatch, HasPairsIfBothPartsHaveThem) {
  const auto pairs = [](const char* annotation) { return serving_batch(annotation)->pairs; };
  EXPECT_EQ(pairs("execute_3_context_1(sq2sk2sqsq4sqsk4)_generation_1(sq1sk9sqsq1sqsk9)"), 13);
  EXPECT_EQ(pairs("execute_3_context_1(sq2sk2sqsq4sqsk4)_generation_1(1)"), -1);
  EXPECT_EQ(pairs("execute_3_context_1(2)_generation_1(sq1sk9sqsq1sqsk9)"), -1);
}

TEST(ImportedServer, WithoutKeysAttentionHasNoCount) {
  const Imported imported =
      import_text(TraceText()
                      .event("user_annotation", "step[DECODE bs=4]", 0, 100)
                      .event("cpu_op", "vllm::unified_attention_with_output", 10, 20, paged())
                      .str());
  EXPECT_EQ(imported.run.step.nodes.at(0).work, Work());
  EXPECT_EQ(imported.steps.attribution.uncounted_ns, 20'000);
  EXPECT_EQ(imported.run.setting.task, "decode");
  EXPECT_EQ(imported.run.setting.batch_size, 4);
  EXPECT_EQ(imported.run.setting.sequence, 1);
}

TEST(ImportedServer, AReplayedGraphIsJoinedToItsCapture) {
  TraceText capture;
  capture.event("user_annotation", "capture_4_FULL", 0, 100)
      .event("cuda_runtime", "cudaStreamBeginCapture", 1, 1, {{"correlation", 1}})
      .event("cpu_op", "aten::mm", 5, 10, TraceText::call({{4, 8}, {8, 16}}))
      .event("cuda_runtime", "cudaLaunchKernel", 6, 1, {{"correlation", 2}})
      .event("cuda_runtime", "cudaLaunchKernel", 8, 1, {{"correlation", 3}})
      .event("cpu_op", "vllm::unified_attention_with_output", 20, 10, paged())
      .event("cuda_runtime", "cuLaunchKernelEx", 22, 1, {{"correlation", 4}})
      .event("cuda_runtime", "cudaStreamEndCapture", 40, 1, {{"correlation", 5}});
  TraceText replay;
  replay
      .event("user_annotation",
             "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk50sqsq4sqsk50)", 0, 10)
      .event("cuda_runtime", "cudaGraphLaunch", 2, 3, {{"correlation", 9}});
  for (const auto& [name, begin] : {std::pair{"a", 20.0}, {"b", 30.0}, {"c", 40.0}})
    replay.event("kernel", name, begin, 5, {{"correlation", 9}}, 3);
  ForeignTrace captured =
      read_torch_trace(*std::make_unique<files::BlockReader>(capture.str(), "capture.json"));
  ForeignTrace trace =
      read_torch_trace(*std::make_unique<files::BlockReader>(replay.str(), "replay.json"));
  EXPECT_THROW(join_capture(captured, trace), Error);
  join_capture(trace, captured);
  ASSERT_EQ(trace.captured.size(), 1u);
  EXPECT_EQ(trace.captured[0].tokens, 4);
  const ImportedSteps steps = imported_steps(trace);
  const RunRecord run = imported_run(trace, steps, nullptr);
  ASSERT_EQ(run.step.nodes.size(), 2u);
  EXPECT_EQ(run.step.nodes[0].op, "matmul");
  EXPECT_EQ(run.step.nodes[0].work.macs, 4 * 8 * 16);
  EXPECT_EQ(run.step.nodes[0].time_ns, 10'000);
  EXPECT_EQ(run.step.nodes[1].op, "flash_attention");
  EXPECT_EQ(run.step.nodes[1].work.macs, 2 * 8 * 64 * 50);
  EXPECT_EQ(steps.attribution.uncounted_ns, 0);
}

// A profiler may lose the last kernels of a replay. The rest is joined if its kinds are those of
// the capture's nodes.
TEST(ImportedServer, AReplayWithoutItsLastKernelsIsJoined) {
  constexpr int kNodes = 200;
  auto macs = [](const char* kernel, int recorded) {
    TraceText capture, replay;
    capture.event("cuda_runtime", "hipStreamBeginCapture", 0, 1);
    for (int i = 0; i < kNodes; ++i)
      capture.event("cpu_op", "aten::mm", 10 * i + 5, 8, TraceText::call({{4, 8}, {8, 16}}))
          .event("cuda_runtime", "hipLaunchKernel", 10 * i + 6, 1);
    capture.event("cuda_runtime", "hipStreamEndCapture", 10 * kNodes + 5, 1);
    replay.event("cuda_runtime", "hipGraphLaunch", 2, 3, {{"correlation", 9}});
    for (int i = 0; i < recorded; ++i)
      replay.event("kernel", kernel, 20 + 10 * i, 5, {{"correlation", 9}}, 3);
    files::BlockReader first(capture.str(), "capture.json"), second(replay.str(), "replay.json");
    ForeignTrace trace = read_torch_trace(second);
    join_capture(trace, read_torch_trace(first));
    EXPECT_EQ(trace.captured.at(0).tokens, -1) << "no annotation says how many";
    return imported_run(trace, imported_steps(trace), nullptr).executed.macs;
  };
  constexpr int64_t kEach = 4 * 8 * 16;
  EXPECT_EQ(macs("Cijk_Alik", kNodes), kNodes * kEach);
  EXPECT_EQ(macs("Cijk_Alik", kNodes - 1), (kNodes - 1) * kEach);
  EXPECT_EQ(macs("Cijk_Alik", kNodes - 10), 0) << "too many are missing";
  EXPECT_EQ(macs("rmsnorm", kNodes - 1), 0) << "of another kind";
}

// Kernels 1 and 2 were launched before the trace began, 3 between the steps.
TEST(ImportedSteps, KernelsOfNoStepAreApart) {
  TraceText trace;
  trace.event("user_annotation", "ProfilerStep#1", 0, 100)
      .event("cpu_op", "aten::mm", 10, 10, TraceText::call({{4, 8}, {8, 16}}))
      .event("cuda_runtime", "cudaLaunchKernel", 12, 2, {{"correlation", 10}})
      .event("cuda_runtime", "cudaLaunchKernel", 110, 2, {{"correlation", 11}})
      .event("user_annotation", "ProfilerStep#2", 120, 100)
      .event("cpu_op", "aten::mm", 130, 10, TraceText::call({{4, 8}, {8, 16}}))
      .event("cuda_runtime", "cudaLaunchKernel", 132, 2, {{"correlation", 12}})
      .event("kernel", "early", 5, 20, {{"correlation", 1}}, 9)
      .event("kernel", "early", 25, 15, {{"correlation", 2}}, 9)
      .event("kernel", "gemm", 45, 10, {{"correlation", 10}}, 9)
      .event("kernel", "between", 115, 30, {{"correlation", 11}}, 9)
      .event("kernel", "gemm", 150, 10, {{"correlation", 12}}, 9);
  const Imported imported = import_text(trace.str());
  EXPECT_EQ(imported.steps.attribution.outside_kernels, 3);
  EXPECT_EQ(imported.steps.attribution.outside_ns, 65'000);
  EXPECT_EQ(imported.run.plain_wall_ns, (std::vector<double>{60'000, 75'000}));
  EXPECT_EQ(imported.run.step.nodes.size(), 1u);
}

// The second kernel waited 5 ms although the device ran none of the trace: it finished another
// step, of which the trace has nothing.
TEST(ImportedSteps, BeginAfterWorkOfNoRecord) {
  TraceText trace;
  trace.event("user_annotation", "execute_8_context_1(8)_generation_0(0)", 0, 6000)
      .event("cuda_runtime", "cudaLaunchKernel", 1, 2, {{"correlation", 1}})
      .event("cuda_runtime", "cudaLaunchKernel", 5, 2, {{"correlation", 2}})
      .event("cuda_runtime", "cudaLaunchKernel", 5900, 2, {{"correlation", 3}})
      .event("kernel", "copy", 4, 1, {{"correlation", 1}}, 9)
      .event("kernel", "gemm", 5000, 500, {{"correlation", 2}}, 9)
      .event("kernel", "gemm", 7000, 1500, {{"correlation", 3}}, 9);
  const Imported imported = import_text(trace.str());
  EXPECT_EQ(imported.run.plain_wall_ns, std::vector<double>{3'500'000});
  EXPECT_EQ(imported.steps.attribution.outside_kernels, 1);
  EXPECT_EQ(imported.run.step.busy_ns(), 2'000'000);
}

// Everything but idle time has a row, and idle is what no operation covers.
TEST(ImportedSteps, OnAHostEveryOperationHasARow) {
  TraceText trace;
  trace.event("user_annotation", "ProfilerStep#1", 0, 100)
      .event("cpu_op", "mine::outer", 0, 40)
      .event("cpu_op", "aten::exp", 10, 5, TraceText::call({{40}}))
      .event("cpu_op", "autograd::engine::evaluate_function: MulBackward0", 50, 30)
      .event("cpu_op", "MulBackward0", 52, 20)
      .event("cpu_op", "aten::mul", 55, 10, TraceText::call({{40}, {40}}));
  const Imported imported = import_text(trace.str());
  std::map<std::string, int64_t> times;
  int64_t calls = 0;
  for (const NodeRecord& node : imported.run.step.nodes) {
    times[node.op] += node.time_ns;
    calls += node.calls;
  }
  EXPECT_EQ(times,
            (std::map<std::string, int64_t>{
                {"mine::outer", 35'000}, {"exp", 5'000}, {"framework", 20'000}, {"mul", 10'000}}));
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(imported.run.step.idle_ns, 30'000);
}

// Only token ids that rows of a table are looked up by, and only of the largest table.
TEST(ImportedSteps, TitlesClaimWhatIsRecorded) {
  auto setting = [](const std::vector<std::pair<std::string, Json>>& calls) {
    TraceText trace;
    double at = 0;
    for (const auto& [name, call] : calls) trace.event("cpu_op", name, at += 10, 5, call);
    return import_text(trace.str()).run.setting;
  };
  auto lookup = [](int64_t rows, int64_t batch, int64_t length) {
    return Json{{"Input Dims", {{rows, 8}, {batch, length}}},
                {"Input type", {"float", "long int"}}};
  };
  const Json bins = {{"Input Dims", {{979, 1024}}}, {"Input type", {"long int"}}};
  EXPECT_EQ(setting({{"aten::add", bins}}).str(), "trace forward eager");
  EXPECT_EQ(
      setting({{"aten::embedding", lookup(32, 64, 64)}, {"aten::embedding", lookup(1000, 4, 128)}})
          .str(),
      "trace prefill eager 4x128");
  EXPECT_EQ(setting({{"aten::embedding", lookup(1000, 4, 1)}}).task, "decode");
  // A model that draws images from a text has few products over the tokens of the text.
  auto product = [](int64_t rows) { return TraceText::call({{rows, 8}, {8, 16}}); };
  const std::pair<std::string, Json> ids = {"aten::embedding", lookup(1000, 1, 77)};
  EXPECT_EQ(setting({ids, {"aten::mm", product(77)}}).str(), "trace prefill eager 1x77");
  EXPECT_EQ(setting({ids, {"aten::mm", product(77)}, {"aten::mm", product(4096)}}).str(),
            "trace forward eager");
}

TEST(ImportedSteps, TypesOfProductsAreClaimedOnlyWhereProductsAreCounted) {
  auto dtype = [](const Json& call) {
    return import_text(TraceText().event("cpu_op", "aten::mm", 0, 5, call).str()).run.setting.dtype;
  };
  EXPECT_EQ(dtype(Json::object()), "");
  EXPECT_EQ(dtype(TraceText::call({{4, 8}, {8, 16}})), "fp32");
}

// PyTorch 1.8 records annotations as operations, and the nodes of autograd without their engine.
TEST(ImportedSteps, OldTracesHaveStepsAndGradients) {
  const Imported imported = import_text(TraceText()
                                            .event("Operator", "ProfilerStep#1", 0, 100)
                                            .event("Operator", "aten::exp", 10, 10)
                                            .event("Operator", "ExpBackward", 20, 10, {}, 2)
                                            .event("Operator", "aten::mul", 21, 8, {}, 2)
                                            .event("Operator", "ProfilerStep#2", 100, 50)
                                            .event("Operator", "Optimizer.step#SGD.step", 110, 20)
                                            .event("Operator", "aten::add_", 112, 10)
                                            .str());
  EXPECT_EQ(imported.run.plain_wall_ns, (std::vector<double>{100'000, 50'000}));
  EXPECT_TRUE(imported.steps.has_backward);
  std::map<std::string, std::string> phases;
  for (const NodeRecord& node : imported.run.step.nodes) phases[node.op] = node.phase;
  EXPECT_EQ(phases["exp"], "forward");
  EXPECT_EQ(phases["mul"], "backward");
  EXPECT_EQ(phases["sgd"], "optimizer");
}

// Traces of ranks that were merged have each step once for each rank.
TEST(ImportedSteps, StepsOfMergedRanksAreOne) {
  TraceText trace;
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step < 2; ++step)
      trace
          .event("user_annotation", "ProfilerStep#" + std::to_string(step), 100 * step + 2 * rank,
                 99, {}, rank)
          .event("cpu_op", "aten::exp", 100 * step + 2 * rank + 1, 90, {}, rank);
  const std::vector<double> walls = import_text(trace.str()).run.plain_wall_ns;
  ASSERT_EQ(walls.size(), 2u);
  EXPECT_EQ(walls[0], 100'000);
  EXPECT_EQ(walls[1], 103'000);
}

// A kernel of the step before that ends in this one delays it only if it keeps a kernel waiting.
TEST(ImportedSteps, ATailDelaysWhatWaitsForIt) {
  auto wall = [](double launched) {
    return import_text(
               TraceText()
                   .event("cuda_runtime", "cudaLaunchKernel", -10, 1, {{"correlation", 1}})
                   .event("user_annotation", "ProfilerStep#1", 0, 1000)
                   .event("cuda_runtime", "cudaLaunchKernel", launched, 1, {{"correlation", 2}})
                   .event("kernel", "gemm", -5, 205, {{"correlation", 1}}, 9)
                   .event("kernel", "gemm", 400, 100, {{"correlation", 2}}, 9)
                   .str())
        .run.plain_wall_ns.at(0);
  };
  EXPECT_EQ(wall(390), 1'000'000);
  EXPECT_EQ(wall(100), 800'000);
}

// Some programs write no correlation, only the external id that a call and its kernel share.
TEST(ImportedSteps, ExternalIdsJoinCallsAndKernels) {
  const Imported imported = import_text(
      TraceText()
          .event("cpu_op", "aten::mm", 0, 50,
                 {{"Input Dims", {{4, 8}, {8, 16}}}, {"Input type", {"Float", "Float"}}})
          .event("cuda_runtime", "cudaLaunchKernel", 10, 5, {{"External id", 100}})
          .event("kernel", "igemm_fwd", 20, 30, {{"External id", 100}}, 9)
          .str());
  ASSERT_EQ(imported.run.step.nodes.size(), 1u);
  EXPECT_EQ(imported.run.step.nodes[0].op, "matmul");
  EXPECT_EQ(imported.run.step.nodes[0].work.macs, 4 * 8 * 16);
}

// Four ranks of a step with two all-reduces. The first hides 15 of its 20 us behind a GEMM. Rank r
// comes r us late to the second, which ends on all at the same time.
TEST(ImportedRanks, OverlapAndWaitAsLongAsIsKnown) {
  std::deque<ForeignTrace> traces;
  std::vector<ImportedSteps> steps;
  for (int rank = 0; rank < 4; ++rank) {
    const double late = rank;
    TraceText trace;
    trace.event("user_annotation", "ProfilerStep#1", 0, 100)
        .event("cuda_runtime", "cudaLaunchKernel", 1, 1, {{"correlation", 1}})
        .event("cuda_runtime", "cudaLaunchKernel", 3, 1, {{"correlation", 2}})
        .event("cuda_runtime", "cudaLaunchKernel", 5, 1, {{"correlation", 3}})
        .event("kernel", "gemm", 10, 20, {{"correlation", 1}}, 9)
        .event("kernel", "ncclDevKernel_AllReduce", 15, 20, {{"correlation", 2}}, 10)
        .event("kernel", "ncclDevKernel_AllReduce", 50 + late, 13 - late, {{"correlation", 3}}, 10);
    files::BlockReader reader(trace.str(), "rank.json");
    traces.push_back(read_torch_trace(reader));
    steps.push_back(imported_steps(traces.back()));
  }
  const std::vector<RankTimes> times = exchange_record(steps).ranks;
  ASSERT_EQ(times.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const RankTimes& each = times[static_cast<size_t>(rank)];
    EXPECT_EQ(each.rank, rank);
    EXPECT_EQ(each.communication_ns, 33'000 - 1000 * rank);
    EXPECT_EQ(each.overlapped_ns, 15'000);
    EXPECT_EQ(each.waiting_ns, 3000 - 1000 * rank);
  }
}

// Collectives of many streams that each last as long as all other kernels.
TEST(ImportedRanks, LongCollectivesTakeLinearTime) {
  constexpr int64_t kMany = 50'000;
  ImportedSteps steps;
  steps.steps = {{0, 4 * kMany}};
  steps.operations = {{.op = "matmul"}, {.op = "collective"}};
  for (int64_t i = 0; i < kMany; ++i) {
    steps.spans.push_back({0, 2 * i, 2 * i + 1});
    steps.spans.push_back({1, 2 * i, 2 * i + 2 * kMany + 1});
  }
  const std::clock_t begin = std::clock();
  const std::vector<RankTimes> times = exchange_record(std::span(&steps, 1)).ranks;
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
  EXPECT_EQ(times[0].communication_ns, kMany * (2 * kMany + 1));
  // The kernels run half of the time, and the collective i sees those from i on.
  EXPECT_EQ(times[0].overlapped_ns, kMany * (kMany + 1) / 2);
}

}  // namespace
}  // namespace ridge::record
