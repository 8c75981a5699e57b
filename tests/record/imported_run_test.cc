// SPDX-License-Identifier: Apache-2.0
// Imported traces: the FLOPs of real ones against PyTorch's own counts, and on small ones written
// here how events become steps, operations, scopes and phases.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "files/json.h"
#include "record/operation_table.h"
#include "record/trace_text.h"
#include "test_paths.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;

Imported import_fixture(const std::string& name) {
  return import_trace(files::BlockReader(test_data("traces/" + name + ".json.gz")));
}

// The nodes with this op.
std::vector<NodeRecord> nodes_of(const Imported& imported, const std::string& op) {
  std::vector<NodeRecord> found;
  for (const NodeRecord& node : imported.run.step.nodes)
    if (node.op == op) found.push_back(node);
  return found;
}

class RealTrace : public testing::TestWithParam<const char*> {};

// FlopCounterMode counts 2 FLOPs per MAC of products and attention (its backward pass with the
// scores once more), and nothing else.
TEST_P(RealTrace, ProductsAndAttentionHaveTheFlopsThatPyTorchCounts) {
  const Json all = files::read_json(test_data("traces/torch_flops.json"));
  std::map<std::string, int64_t> expected;  // in attention, and in products
  for (const auto& [op, flops] : all.at(GetParam()).items())
    expected[op.find("attention") == std::string::npos ? "product" : "attention"] +=
        flops.get<int64_t>();
  const Imported imported = import_fixture(GetParam());
  std::map<std::string, int64_t> found;
  for (const NodeRecord& node : imported.run.step.nodes)
    if (node.work.macs > 0)
      found[node.op == "matmul" ? "product" : "attention"] += 2 * node.work.macs;
  EXPECT_EQ(found, expected);
}

TEST_P(RealTrace, OperationsOfTheTableTakeTheTime) {
  const Imported imported = import_fixture(GetParam());
  const Attribution& a = imported.steps.attribution;
  EXPECT_GT(a.attributed_share(), 0.95);
  EXPECT_TRUE(a.unknown.empty()) << a.unknown.begin()->first;
  EXPECT_EQ(imported.run.setting.batch_size, 4);
  EXPECT_EQ(imported.run.setting.sequence, 128);
}

TEST_P(RealTrace, PartsOfTheStepAddUp) {
  const StepRecord step = import_fixture(GetParam()).run.step;
  EXPECT_EQ(step.kernel_ns - step.overlapped_ns + step.idle_ns + step.host_ns, step.wall_ns);
  EXPECT_GE(step.idle_ns, 0);
  for (const OperationTable& table :
       {table_by_op(step, nullptr), table_by_kind(step, nullptr), table_by_scope(step, nullptr)}) {
    int64_t time_ns = 0;
    Work work;
    for (const OperationRow& row : table.rows)
      if (row.is_leaf) {
        time_ns += row.time_ns;
        work += row.work;
      }
    EXPECT_EQ(time_ns, step.kernel_ns) << table.title;
    EXPECT_EQ(work, table.total.work) << table.title;
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         RealTrace,
                         testing::Values("unfused", "fused", "compiled", "generate"),
                         [](const auto& each) { return std::string(each.param); });

// A compiled step in bf16 on an H100: 4 layers of width 256, 8 heads and 4 KV heads of 32, 512 in
// the MLP, 1,000 ids, 8 rows of 128 tokens. Its kernels are cuBLAS's, cuDNN's and Triton's.
TEST(GpuTrace, KernelsOfACompiledStepHaveTheWorkOfTheModel) {
  const Imported imported = import_fixture("compiled_h100");
  constexpr int64_t kTokens = 8 * 128, kLayers = 4;
  constexpr int64_t kLayerWeights = 256 * (8 + 2 * 4) * 32 + 8 * 32 * 256 + 3 * 256 * 512;
  constexpr int64_t kProducts = 3 * kTokens * (kLayers * kLayerWeights + 256 * 1000);
  constexpr int64_t kScores = kLayers * 8 * 8 * 128 * 128 * 32;  // in each of attention's GEMMs
  std::map<std::string, int64_t> found;
  for (const NodeRecord& node : imported.run.step.nodes)
    if (node.work.macs > 0) found[node.op] += node.work.macs;
  EXPECT_EQ(found, (std::map<std::string, int64_t>{{"matmul", kProducts},
                                                   {"flash_attention", 2 * kScores},
                                                   {"flash_attention_backward", 5 * kScores}}));
  const Attribution& a = imported.steps.attribution;
  EXPECT_GT(a.attributed_share(), 0.95);
  EXPECT_TRUE(a.unknown.empty()) << a.unknown.begin()->first;
  EXPECT_EQ(imported.run.setting.device, "gpu");
  EXPECT_EQ(imported.run.setting.dtype, "bf16");
  const StepRecord& step = imported.run.step;
  EXPECT_EQ(step.kernel_ns - step.overlapped_ns + step.idle_ns + step.host_ns, step.wall_ns);
}

TEST(ImportedRun, TrainingHasPhasesScopesAndParameters) {
  const Imported imported = import_fixture("fused");
  // D 192, F 768, V 1000, H 6, K 2, E 32, 2 layers; v has a bias.
  const int64_t layer = 2 * 192 * 192 + 2 * 192 * 64 + 64 + 3 * 192 * 768 + 2 * 192;
  EXPECT_EQ(imported.run.parameters, 2 * layer + 2 * 192 * 1000 + 192);
  EXPECT_EQ(imported.run.plain_wall_ns.size(), 3u);
  EXPECT_EQ(imported.run.setting.task, "train");
  EXPECT_EQ(imported.run.setting.device, "cpu");
  const std::vector<NodeRecord> forward = nodes_of(imported, "flash_attention");
  ASSERT_EQ(forward.size(), 2u);
  EXPECT_EQ(forward[1].scope, "Llama/Layer.1");
  EXPECT_EQ(forward[1].phase, "forward");
  const std::vector<NodeRecord> backward = nodes_of(imported, "flash_attention_backward");
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_EQ(backward[0].scope, "Llama/Layer.1");  // the last layer comes first
  EXPECT_EQ(backward[0].phase, "backward");
  for (const NodeRecord& node : nodes_of(imported, "adamw")) EXPECT_EQ(node.phase, "optimizer");
  EXPECT_EQ(nodes_of(imported, "adamw").size(),
            2u);  // one for the steps of all tensors, one for the update
  int products = 0;
  for (const NodeRecord& node : nodes_of(imported, "matmul"))
    products += node.scope == "Llama/Layer.0/Linear_6" ? 1 : 0;
  EXPECT_EQ(products, 3);  // the projection, and the gradients of its input and its weight
  EXPECT_EQ(import_fixture("generate").run.setting.task, "prefill");
  EXPECT_EQ(import_fixture("compiled").run.setting.level, "compile");
}

// Two steps. Kernels join operations by correlation, by their external id, or not at all.
std::string device_trace() {
  TraceText trace;
  const Json mm = TraceText::call({{5, 7}, {7, 11}}, {{"External id", 3}});
  for (const double at : {0.0, 1000.0}) {
    const int id = at == 0 ? 10 : 20;
    Json add = TraceText::call({{5, 11}, {5, 11}}, {{"External id", id}});
    trace.event("user_annotation", at == 0 ? "ProfilerStep#1" : "ProfilerStep#2", at, 500)
        .event("cpu_op", "aten::linear", at + 10, 100)
        .event("cpu_op", "aten::t", at + 12, 5, TraceText::call({{5, 7}}))
        .event("cpu_op", "aten::mm", at + 20, 50, mm)
        .event("cuda_runtime", "cudaLaunchKernel", at + 30, 5, {{"correlation", id}})
        .event("cuda_runtime", "cudaLaunchKernel", at + 40, 5, {{"correlation", id + 1}})
        .event("cpu_op", "aten::add", at + 150, 20, add)
        .event("cuda_runtime", "cudaGraphLaunch", at + 200, 5, {{"correlation", id + 2}})
        .event("kernel", "gemm", at + 300, 100, {{"correlation", id}}, 9)
        .event("kernel", "splitK", at + 400, 20, {{"correlation", id + 1}}, 9)
        .event("kernel", "elementwise", at + 420, 30, {{"External id", id}}, 9)
        .event("kernel", "my_layer_norm_kernel", at + 450, 40, {{"correlation", id + 2}}, 9)
        .event("kernel", "mine", at + 490, 60, {{"correlation", id + 2}}, 9);
  }
  return trace.str();
}

// The counts of Ridge's own kernels stand beside them, from the first one on.
TEST(ImportedRun, OwnKernelsHaveTheCountsOfTheTrace) {
  auto counts = [](const char* op, int64_t macs) {
    return Json{{"op", op},           {"scope", "Llama/Head"}, {"phase", "backward"},
                {"shape", "f32[5]"},  {"macs", macs},          {"flops", 2 * macs},
                {"read_bytes", 1000}, {"written_bytes", 20}};
  };
  const Imported imported = import_text(TraceText()
                                            .event("user_annotation", "ProfilerStep#1", 0, 100)
                                            .event("kernel", "a", 10, 20, counts("matmul", 70), 9)
                                            .event("kernel", "b", 40, 30, counts("add", 0), 9)
                                            .str());
  ASSERT_EQ(imported.run.step.nodes.size(), 2u);
  for (const char* op : {"matmul", "add"}) {
    const NodeRecord node = nodes_of(imported, op).at(0);
    EXPECT_EQ(node.work, products(op == std::string("add") ? 0 : 70)) << op;
    EXPECT_EQ(node.scope, "Llama/Head") << op;
    EXPECT_EQ(node.phase, "backward") << op;
    EXPECT_EQ(node.read_bytes, 1000) << op;
    EXPECT_EQ(node.written_bytes, 20) << op;
  }
}

TEST(ImportedRun, KernelsOfADeviceJoinTheirOperations) {
  const Imported imported = import_text(device_trace());
  EXPECT_TRUE(imported.steps.is_on_device);
  const std::vector<NodeRecord> mm = nodes_of(imported, "matmul");
  ASSERT_EQ(mm.size(), 1u);
  EXPECT_EQ(mm[0].calls, 2);
  EXPECT_EQ(mm[0].time_ns, 120'000);
  EXPECT_EQ(mm[0].work, products(5 * 7 * 11));
  EXPECT_EQ(nodes_of(imported, "add").at(0).time_ns, 30'000);
  EXPECT_EQ(nodes_of(imported, "add").at(0).work.flops, 55);
  EXPECT_EQ(nodes_of(imported, "layer_norm").at(0).time_ns, 40'000);
  EXPECT_EQ(nodes_of(imported, "mine").at(0).time_ns, 60'000);
  EXPECT_TRUE(nodes_of(imported, "view").empty());  // no kernel
  EXPECT_EQ(imported.steps.attribution.unknown.at("mine"), 2 * 60'000);
  // The device ends a step 50 us after the host.
  EXPECT_EQ(imported.run.step.wall_ns, 550'000);
  EXPECT_EQ(imported.run.step.busy_ns(), 250'000);
}

// Links and other ranks limit a collective, and of those the roofline has nothing.
TEST(ImportedRun, CollectivesHaveNoLimit) {
  // PyTorch names it so, and Ridge by its op.
  for (const char* name : {"nccl:all_reduce", "all_reduce"}) {
    SCOPED_TRACE(name);
    TraceText trace;
    trace.event("cpu_op", "aten::add", 0, 10, TraceText::call({{1 << 20}, {1 << 20}}))
        .event("cuda_runtime", "cudaLaunchKernel", 1, 2, {{"correlation", 1}})
        .event("cpu_op", name, 10, 10, TraceText::call({{1 << 20}}))
        .event("cuda_runtime", "cudaLaunchKernel", 11, 2, {{"correlation", 2}})
        .event("kernel", "elementwise", 20, 30, {{"correlation", 1}}, 9)
        .event("kernel", "ncclDevKernel_AllReduce", 50, 70, {{"correlation", 2}}, 9);
    const Imported imported = import_text(trace.str());
    const cost::Ceilings ceilings =
        cost::made_up_ceilings({{1 << 16, 400, 400}, {1 << 30, 400, 400}}, 1000);
    const RunRecord run = imported_run(imported.trace, imported.steps, &ceilings);
    const NodeRecord &add = run.step.nodes.at(0), &collective = run.step.nodes.at(1);
    EXPECT_GT(add.predicted_ns, 0);
    EXPECT_EQ(collective.predicted_ns, 0);
    EXPECT_EQ(collective.bound, cost::Bound::kNone);
    // An operation without a limit takes as long as it did.
    EXPECT_DOUBLE_EQ(run.predicted_ns, add.predicted_ns + 70'000);
  }
}

// A convolution without its strides has no counts, so the work of the model is not known either.
TEST(ImportedRun, PartsOfAModelAreNoModel) {
  auto model = [](double convolution_us) {
    return import_text(TraceText()
                           .event("cpu_op", "aten::mm", 0, 100, TraceText::call({{4, 8}, {8, 6}}))
                           .event("cpu_op", "aten::convolution", 100, convolution_us,
                                  TraceText::call(
                                      {{2, 8, 9, 9}, {16, 8, 3, 3}, {16}, {}, {}, {}, {}, {}, {}}))
                           .str())
        .run.model.forward.macs;
  };
  EXPECT_EQ(model(3), 4 * 8 * 6);
  EXPECT_EQ(model(50), 0);
}

// Without a record of the host nobody knows what a step does.
TEST(ImportedRun, KernelsAloneHaveNoTask) {
  const Imported imported =
      import_text(TraceText()
                      .event("gpu_user_annotation", "ProfilerStep#1", 0, 100, {}, 9)
                      .event("kernel", "ampere_sgemm_128x64_tn", 10, 20, {{"correlation", 1}}, 9)
                      .str());
  EXPECT_EQ(imported.run.setting.str(), "trace trace");
  EXPECT_EQ(imported.run.step.nodes.at(0).op, "matmul");
}

TEST(ImportedRun, CompositesStandForTheOperationsInThem) {
  TraceText trace;
  trace.event("cpu_op", "aten::softmax", 0, 10, TraceText::call({{5, 8}}))
      .event("cpu_op", "aten::_softmax", 2, 6, TraceText::call({{5, 8}}))
      .event("cpu_op", "aten::layer_norm", 20, 10, TraceText::call({{5, 8}}))
      .event("cpu_op", "mine::fused", 40, 10)
      .event("cpu_op", "aten::exp", 42, 3, TraceText::call({{40}}))
      .event("cpu_op", "mine::leaf", 60, 7)
      .event("cpu_op", "aten::softmax", 80, 6, TraceText::call({{5, 8}}))  // no time of its own
      .event("cpu_op", "aten::_softmax", 80, 6, TraceText::call({{5, 8}}));
  const Imported imported = import_text(trace.str());
  EXPECT_EQ(nodes_of(imported, "softmax").at(0).time_ns, 6'000);
  EXPECT_EQ(nodes_of(imported, "layer_norm").at(0).time_ns, 10'000);
  EXPECT_EQ(nodes_of(imported, "exp").at(0).time_ns, 3'000);
  EXPECT_EQ(nodes_of(imported, "mine::leaf").at(0).time_ns, 7'000);
  const Attribution& a = imported.steps.attribution;
  EXPECT_EQ(a.known_ns, 25'000);
  EXPECT_EQ(a.composite_ns, 4'000);
  EXPECT_EQ(a.unknown_ns, 14'000);
  EXPECT_EQ(a.unknown.at("mine::fused"), 7'000);
}

TEST(ImportedRun, ScopesComeFromModulesAndAnnotations) {
  TraceText trace;
  trace.event("python_function", "nn.Module: Net_0", 0, 100)
      .event("python_function", "nn.Module: Block_0", 0, 40)
      .event("python_function", "nn.Module: Linear_0", 0, 10)
      .event("cpu_op", "aten::exp", 1, 2)
      .event("python_function", "nn.Module: Linear_1", 20, 10)
      .event("cpu_op", "aten::log", 21, 2)
      .event("python_function", "nn.Module: Block_1", 50, 40)
      .event("python_function", "nn.Module: Linear_2", 50, 10)
      .event("cpu_op", "aten::tanh", 51, 2)
      .event("user_annotation", "my/part", 70, 10)
      .event("cpu_op", "aten::sqrt", 71, 2)
      .event("python_function", "torch/nn/modules.py(1): forward", 95, 4)
      .event("cpu_op", "aten::neg", 96, 2);
  const Imported imported = import_text(trace.str());
  EXPECT_EQ(nodes_of(imported, "exp").at(0).scope, "Net/Block.0/Linear_0");
  EXPECT_EQ(nodes_of(imported, "log").at(0).scope, "Net/Block.0/Linear_1");
  EXPECT_EQ(nodes_of(imported, "tanh").at(0).scope, "Net/Block.1/Linear");
  EXPECT_EQ(nodes_of(imported, "sqrt").at(0).scope, "Net/Block.1/my_part");
  EXPECT_EQ(nodes_of(imported, "neg").at(0).scope, "Net");
}

void expect_refused(const std::string& text, const std::string& part = "") {
  try {
    import_text(text);
    ADD_FAILURE() << "accepted: " << text.substr(0, 300);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(HostileTrace, EndsAtEachByteOfASmallOne) {
  const std::string whole = device_trace();
  ASSERT_NO_THROW(import_text(whole));
  for (size_t size = 0; size < whole.size(); ++size) expect_refused(whole.substr(0, size));
}

TEST(HostileTrace, FieldsAreMissingOrOfAnotherKind) {
  const Json whole = Json::parse(device_trace());
  for (size_t i = 0; i < whole["traceEvents"].size(); ++i)
    for (const auto& [key, value] : whole["traceEvents"][i].items())
      for (const Json& other : {Json(), Json("x"), Json(-1), Json(1e308), Json(Json::array())}) {
        Json changed = whole;
        changed["traceEvents"][i][key] = other;
        try {
          import_text(changed.dump());
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::kBadFile) << key << " " << other << error.what();
        }
      }
}

TEST(HostileTrace, NumbersAreHuge) {
  auto with = [](double begin, double length, Json args) {
    return TraceText().event("cpu_op", "aten::mm", begin, length, std::move(args)).str();
  };
  expect_refused(with(1e18, 1, {}), "microseconds");
  expect_refused(with(0, 1e18, {}), "microseconds");
  expect_refused(with(0, -1, {}), "microseconds");
  expect_refused(with(0, 1, TraceText::call({{int64_t{1} << 60}})), "extent");
  const std::vector<std::vector<int64_t>> square(2, {1 << 25, 1 << 25});
  expect_refused(with(0, 1, TraceText::call(square)), "2^60");
  TraceText many, large;
  for (int i = 0; i < 20'000; ++i) many.event("cpu_op", "aten::exp", 0, 9e11);
  expect_refused(many.str(), "add up to less than 2^63");
  for (int i = 0; i < 40; ++i)
    large.event("cpu_op", "aten::mm", 10 * i, 1,
                TraceText::call({{1 << 19, 1 << 19}, {1 << 19, 1 << 19}}));
  expect_refused(large.str(), "2^63");
}

TEST(HostileTrace, TooManyOperationsAtOnce) {
  TraceText trace;
  for (int i = 0; i < 1025; ++i) trace.event("cpu_op", "aten::exp", i, 2000, {}, i);
  expect_refused(trace.str(), "at once");
}

// In a search over triples of operands this would take hours.
TEST(HostileTrace, OperandsOfAKernelAreBounded) {
  constexpr size_t kOperands = 20'000;
  Json args = TraceText::call(std::vector<std::vector<int64_t>>(kOperands, {4, 3}));
  args["Input type"] = std::vector<std::string>(kOperands, "int");
  const Imported imported =
      import_text(TraceText().event("cpu_op", "triton_poi_fused_0", 0, 1, args).str());
  EXPECT_EQ(imported.run.step.nodes.at(0).read_bytes, int64_t{kOperands} * 4 * 3 * 4);
}

TEST(HostileTrace, NestingAndNamesAreBounded) {
  TraceText trace;
  for (int i = 0; i < 3000; ++i) {
    trace.event("user_annotation", std::string(5000, 'x'), i, 10'000 - 2 * i);
    trace.event("python_function", "nn.Module: M" + std::to_string(i) + "_0", i, 10'000 - 2 * i);
  }
  trace.event("cpu_op", "aten::exp", 3500, 1);
  const Imported imported = import_text(trace.str());
  EXPECT_LT(nodes_of(imported, "exp").at(0).scope.size(), 10'000u);
}

TEST(HostileTrace, WhatIsNoTrace) {
  expect_refused("{}", "expected a trace of torch.profiler");
  expect_refused("[]", "expected a trace of torch.profiler");
  expect_refused(R"({"traceEvents": [3]})", "an event that is an object");
  expect_refused(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": NaN}]})", "not valid JSON");
  expect_refused(TraceText().event("user_annotation", "x", 0, 1).str(), "found none");
}

}  // namespace
}  // namespace ridge::record
