// SPDX-License-Identifier: Apache-2.0
// The counts of recorded calls, against the conventions of docs/accounting.md worked out by hand
// and by plain loops, and the table of operations.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/pointwise.h"
#include "ops/registry.h"
#include "record/import/torch_operations.h"
#include "record/operation_table.h"

namespace ridge::record {
namespace {

using nlohmann::json;

// A tensor {type, extents}, or a scalar {"Scalar", text}.
struct Argument {
  std::string type;
  json value;
};
using Arguments = std::vector<Argument>;

std::optional<Counts> count(const std::string& name, const Arguments& operands) {
  json args = {{"Input Dims", json::array()},
               {"Input type", json::array()},
               {"Concrete Inputs", json::array()}};
  for (const Argument& operand : operands) {
    const bool is_scalar = operand.value.is_string();
    args["Input type"].push_back(operand.type);
    args["Input Dims"].push_back(is_scalar ? json::array() : operand.value);
    args["Concrete Inputs"].push_back(is_scalar ? operand.value : json(""));
  }
  const TorchOperation& row = torch_operation(name);
  EXPECT_NE(row.count, nullptr) << name;
  return row.count == nullptr ? std::nullopt : row.count(recorded_call(args), row.arithmetic);
}

void expect_counts(const std::string& name,
                   const Arguments& operands,
                   const Work& work,
                   int64_t read_bytes,
                   int64_t written_bytes) {
  const std::optional<Counts> found = count(name, operands);
  ASSERT_TRUE(found) << name;
  EXPECT_EQ(found->work.macs, work.macs) << name;
  EXPECT_EQ(found->work.flops, work.flops) << name;
  EXPECT_EQ(found->work.transcendentals, work.transcendentals) << name;
  EXPECT_EQ(found->read_bytes, read_bytes) << name;
  EXPECT_EQ(found->written_bytes, written_bytes) << name;
}

TEST(OperationCounts, Products) {
  const int64_t macs = 5 * 7 * 11;
  expect_counts("aten::mm", {{"float", {5, 7}}, {"float", {7, 11}}}, products(macs),
                4 * (5 * 7 + 7 * 11), 4 * 5 * 11);
  // With the place to write to as third operand, as TorchInductor calls it.
  expect_counts("aten::mm", {{"float", {5, 7}}, {"float", {7, 11}}, {"float", {5, 11}}},
                products(macs), 4 * (5 * 7 + 7 * 11), 4 * 5 * 11);
  expect_counts("aten::bmm", {{"c10::BFloat16", {3, 5, 7}}, {"c10::BFloat16", {3, 7, 11}}},
                products(3 * macs), 2 * 3 * (5 * 7 + 7 * 11), 2 * 3 * 5 * 11);
  expect_counts("aten::addmm", {{"float", {11}}, {"float", {5, 7}}, {"float", {7, 11}}},
                products(macs) + arithmetic(5 * 11), 4 * (11 + 5 * 7 + 7 * 11), 4 * 5 * 11);
  expect_counts("aten::baddbmm",
                {{"float", {3, 5, 11}}, {"float", {3, 5, 7}}, {"float", {3, 7, 11}}},
                products(3 * macs) + arithmetic(3 * 5 * 11), 4 * 3 * (5 * 11 + 5 * 7 + 7 * 11),
                4 * 3 * 5 * 11);
  expect_counts("aten::linear", {{"float", {2, 5, 7}}, {"float", {11, 7}}, {"float", {11}}},
                products(2 * macs) + arithmetic(2 * 5 * 11), 4 * (2 * 5 * 7 + 11 * 7 + 11),
                4 * 2 * 5 * 11);
  expect_counts("aten::matmul", {{"float", {4, 1, 5, 7}}, {"float", {3, 7, 11}}},
                products(12 * macs), 4 * (4 * 5 * 7 + 3 * 7 * 11), 4 * 12 * 5 * 11);
  expect_counts("aten::mv", {{"float", {5, 7}}, {"float", {7}}}, products(5 * 7), 4 * (5 * 7 + 7),
                4 * 5);
  EXPECT_FALSE(count("aten::mm", {{"float", {5, 7}}, {"float", {8, 11}}}));
  EXPECT_FALSE(count("aten::mm", {{"float", {5, 7}}}));
}

// B 2, H 6, K 3, T 5, S 7, E 8.
TEST(OperationCounts, Attention) {
  const int64_t scores = 2 * 6 * 5 * 7, rows = 2 * 6 * 5;
  const int64_t q = 2 * 6 * 5 * 8, kv = 2 * 3 * 7 * 8;
  const Work forward = products(2 * scores * 8) + arithmetic(6 * scores + 2 * rows);
  const Arguments operands = {
      {"float", {2, 6, 5, 8}}, {"float", {2, 3, 7, 8}}, {"float", {2, 3, 7, 8}}};
  for (const char* name :
       {"aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu"})
    expect_counts(name, operands, forward, 4 * (q + 2 * kv), 4 * (q + rows));
  expect_counts("aten::_flash_attention_forward",
                {{"float", {2, 5, 6, 8}}, {"float", {2, 7, 3, 8}}, {"float", {2, 7, 3, 8}}},
                forward, 4 * (q + 2 * kv), 4 * (q + rows));
  Arguments backward = operands;
  backward.insert(backward.begin(), Argument{"float", {2, 6, 5, 8}});
  backward.push_back({"float", {2, 6, 5, 8}});
  backward.push_back({"float", {2, 6, 5}});
  for (const char* name : {"aten::_scaled_dot_product_flash_attention_backward",
                           "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                           "aten::_scaled_dot_product_cudnn_attention_backward"}) {
    expect_counts(name, backward, products(5 * scores * 8) + arithmetic(6 * scores + 2 * q),
                  4 * (3 * q + 2 * kv + rows), 4 * (q + 2 * kv));
    EXPECT_EQ(count(name, backward)->model_macs, 4 * scores * 8) << name;
  }
}

TEST(OperationCounts, NormsSoftmaxAndLosses) {
  const int64_t n = 5 * 8, bytes = 4 * n;
  expect_counts("aten::_fused_rms_norm", {{"float", {5, 8}}, {"ScalarList", "[8]"}, {"float", {8}}},
                {0, 4 * n + 3 * 5, 5}, bytes + 4 * 8, bytes + 4 * 5);
  expect_counts("aten::native_layer_norm",
                {{"float", {5, 8}}, {"ScalarList", "[8]"}, {"float", {8}}, {"float", {8}}},
                {0, 7 * n + 4 * 5, 5}, bytes + 4 * 16, bytes + 4 * 5);
  expect_counts("aten::_softmax", {{"float", {5, 8}}, {"Scalar", "-1"}}, {0, 5 * n, 0}, bytes,
                bytes);
  expect_counts("aten::softmax", {{"float", {5, 8}}, {"Scalar", "-1"}}, {0, 5 * n, 0}, bytes,
                bytes);
  expect_counts("aten::_softmax_backward_data", {{"float", {5, 8}}, {"float", {5, 8}}},
                {0, 4 * n, 0}, 2 * bytes, bytes);
  expect_counts("aten::_log_softmax", {{"float", {5, 8}}}, {0, 5 * n + 5, 5}, bytes, bytes);
  expect_counts("aten::nll_loss_forward", {{"float", {5, 8}}, {"long int", {5}}}, {0, 5, 0},
                4 * 5 + 8 * 5, 4);
  expect_counts("aten::nll_loss_backward",
                {{"float", json::array()}, {"float", {5, 8}}, {"long int", {5}}}, {}, 8 * 5, bytes);
}

TEST(OperationCounts, EmbeddingsAndMoves) {
  expect_counts("aten::embedding", {{"float", {100, 8}}, {"long int", {2, 3}}}, {},
                4 * 6 * 8 + 8 * 6, 4 * 6 * 8);
  expect_counts("aten::embedding_dense_backward",
                {{"float", {2, 3, 8}}, {"long int", {2, 3}}, {"Scalar", "100"}}, {0, 6 * 8, 0},
                4 * 6 * 8 + 8 * 6, 4 * 100 * 8);
  expect_counts("aten::copy_", {{"c10::BFloat16", {5, 8}}, {"float", {5, 8}}}, {}, 4 * 40, 2 * 40);
  expect_counts("aten::cat", {{"TensorList", {{2, 3}, {2, 5}}}, {"Scalar", "-1"}}, {}, 4 * 16,
                4 * 16);
  expect_counts("aten::fill_", {{"float", {5, 8}}, {"Scalar", "0."}}, {}, 0, 4 * 40);
  expect_counts("aten::sum", {{"float", {5, 8}}, {"ScalarList", "[-1]"}}, {0, 40, 0}, 4 * 40,
                4 * 5);
  expect_counts("aten::sum", {{"float", {5, 8}}, {"", json::array()}}, {0, 40, 0}, 4 * 40, 4);
}

TEST(OperationCounts, PointwiseOperandsAreBroadcast) {
  expect_counts("aten::mul", {{"float", {5, 1, 8}}, {"float", {3, 1}}}, {0, 120, 0}, 4 * (40 + 3),
                4 * 120);
  expect_counts("aten::mul", {{"c10::BFloat16", {40}}, {"double", json::array()}}, {0, 40, 0},
                2 * 40 + 8, 2 * 40);
  expect_counts("aten::pow", {{"float", {40}}, {"Scalar", "2"}}, {0, 40, 0}, 160, 160);
  expect_counts("aten::pow", {{"float", {40}}, {"Scalar", "3"}}, {0, 40, 40}, 160, 160);
  expect_counts("aten::gelu", {{"float", {40}}, {"", "tanh"}}, {0, 8 * 40, 40}, 160, 160);
  expect_counts("aten::gelu", {{"float", {40}}}, {0, 5 * 40, 40}, 160, 160);
  expect_counts("aten::eq", {{"long int", {40}}, {"long int", {40}}}, {}, 640, 40);
  EXPECT_FALSE(count("aten::mul", {{"float", {5}}, {"float", {3}}}));
}

TEST(OperationCounts, Optimizers) {
  const Argument list = {"TensorList", {{5, 8}, {10}}};
  expect_counts("aten::_fused_adamw_", {list, list, list, list}, {0, 14 * 50, 2 * 50}, 4 * 4 * 50,
                4 * 3 * 50);
  expect_counts("aten::_foreach_addcdiv_", {list, list, list}, {0, 3 * 50, 50}, 4 * 3 * 50, 4 * 50);
}

TEST(RecordedCall, SaysItsTensorsAndTheSizesOfItsLists) {
  const json args = {{"Input Dims", {{5, 8}, json::array(), {{2, 3}, {2, 5}, {4}}}},
                     {"Input type", {"c10::BFloat16", "Scalar", "TensorList"}},
                     {"Concrete Inputs", {"", "-1", ""}}};
  EXPECT_EQ(recorded_call(args).text(), "bf16[5,8], 3 x 20 elements");
}

TEST(OperationCounts, ExtentsThatNoTensorHasAreRefused) {
  for (const json& dims : {json{-1}, json{1.5}, json{"x"}, json{int64_t{1} << 60},
                           json{int64_t{1} << 40, int64_t{1} << 40}, json(100, 1)})
    EXPECT_THROW(count("aten::exp", {{"float", dims}}), Error) << dims;
  const json large = {int64_t{1} << 25, int64_t{1} << 25};
  EXPECT_THROW(count("aten::mm", {{"float", large}, {"float", large}}), Error);
}

// The arithmetic of both tables is the same where both have the function.
TEST(TorchOperations, CountElementwiseArithmeticAsRidgeDoes) {
  int compared = 0;
  for (const TorchOperation& row : torch_operations()) {
    const std::optional<Pointwise> function = parse_pointwise(row.op);
    if (!function || row.count != counts::pointwise) continue;
    EXPECT_EQ(row.arithmetic.flops, info(*function).flops) << row.pattern;
    EXPECT_EQ(row.arithmetic.transcendentals, info(*function).transcendentals) << row.pattern;
    ++compared;
  }
  EXPECT_GE(compared, 14);
}

TEST(TorchOperations, AreFoundByNameFormAndPattern) {
  EXPECT_EQ(torch_operation("aten::add_").op, "add");
  EXPECT_EQ(torch_operation("aten::_foreach_add_").op, "add");
  EXPECT_EQ(torch_operation("aten::__and__").op, "compare");
  EXPECT_EQ(torch_operation("graph_0_cpp_fused_add_1").op, "generated_pointwise");
  EXPECT_EQ(torch_operation("MmBackward0").role, Role::kWrapper);
  EXPECT_EQ(torch_operation("aten::split_with_sizes").role, Role::kView);
  EXPECT_EQ(torch_operation("mine::own").role, Role::kUnknown);
}

TEST(OperationCategory, EveryOpAndEveryOperationOfPyTorchHasOne) {
  for (const Op* op : ops::table().all()) {
    EXPECT_NE(op->category, OpCategory::kOther) << op->name;
    EXPECT_EQ(op->category == OpCategory::kView, op->kind == OpKind::kView) << op->name;
  }
  for (const TorchOperation& row : torch_operations()) {
    if (row.op.empty()) continue;
    EXPECT_NE(operation_category(row.op), OpCategory::kOther) << row.op;
  }
  EXPECT_EQ(operation_category("made up"), OpCategory::kOther);
}

// Calls that are recorded without what they need.
TEST(OperationCounts, AreNoneWithoutOperands) {
  for (const char* name : {"aten::mm",
                           "aten::addmm",
                           "aten::linear",
                           "aten::_fused_rms_norm",
                           "aten::native_layer_norm_backward",
                           "aten::_softmax",
                           "aten::nll_loss_forward",
                           "aten::nll_loss_backward",
                           "aten::embedding",
                           "aten::embedding_dense_backward",
                           "aten::mul",
                           "aten::eq",
                           "aten::sum",
                           "aten::copy_",
                           "aten::cat",
                           "aten::fill_",
                           "aten::index_select",
                           "aten::_fused_adamw_",
                           "aten::convolution",
                           "aten::convolution_backward",
                           "aten::native_batch_norm",
                           "aten::_adaptive_avg_pool2d",
                           "aten::_embedding_bag",
                           "aten::_grouped_mm",
                           "aten::_cudnn_rnn",
                           "aten::mkldnn_rnn_layer",
                           "aten::_fft_r2c"})
    EXPECT_FALSE(count(name, {})) << name;
  const Argument x = {"float", {5, 8}}, ids = {"long int", {5}};
  EXPECT_FALSE(count("aten::addmm", {x, x}));
  EXPECT_FALSE(count("aten::native_layer_norm_backward", {x}));
  EXPECT_FALSE(count("aten::nll_loss_forward", {x}));
  EXPECT_FALSE(count("aten::nll_loss_backward", {x, x}));
  EXPECT_FALSE(count("aten::embedding", {x}));
  EXPECT_FALSE(count("aten::embedding", {{"float", {5, 8, 2}}, ids}));
  EXPECT_FALSE(count("aten::embedding_dense_backward", {x}));
  EXPECT_FALSE(count("aten::embedding_dense_backward", {{"float", json::array()}, ids}));
  EXPECT_FALSE(count("aten::_embedding_bag", {x, ids}));
  EXPECT_FALSE(count("aten::_embedding_bag", {{"float", {5, 8, 2}}, ids, ids}));
  EXPECT_FALSE(count("aten::native_batch_norm", {{"float", {5}}}));
}

TEST(OperationCounts, AreNoneOfExtentsThatDoNotFit) {
  const auto linear = [](const json& x, const json& weight) {
    return count("aten::linear", {{"float", x}, {"float", weight}});
  };
  EXPECT_TRUE(linear({5, 7}, {11, 7}));
  EXPECT_FALSE(linear({5, 7}, {11, 8}));
  EXPECT_FALSE(linear({5, 7}, {11, 7, 1}));
  EXPECT_FALSE(linear(json::array(), {11, 7}));
  const auto grouped = [](const json& a, const json& b) {
    return count("aten::_grouped_mm", {{"float", a}, {"float", b}});
  };
  EXPECT_TRUE(grouped({4, 8}, {2, 8, 6}));
  EXPECT_FALSE(grouped({4, 8}, {2, 7, 6}));
  EXPECT_EQ(grouped({4, 8}, {2, 6, 8})->work.macs, 4 * 8 * 6) << "a turned weight";
  EXPECT_EQ(grouped({8, 4}, {8, 6})->work.macs, 4 * 8 * 6) << "rows whose groups cut the depth";
  EXPECT_FALSE(grouped({8}, {8, 6}));
  EXPECT_FALSE(grouped({4, 8}, {8}));
  EXPECT_FALSE(grouped({1, 1, 4, 8}, {8, 6}));
  EXPECT_FALSE(grouped({4, 8}, {1, 1, 8, 6}));
  const auto pool = [](const json& x, const char* sizes) {
    return count("aten::_adaptive_avg_pool2d", {{"float", x}, {"ScalarList", sizes}});
  };
  EXPECT_EQ(pool({2, 3, 8, 8}, "[2, 4]")->output, (Extents{2, 3, 2, 4}));
  EXPECT_FALSE(pool({2, 3, 8, 8}, "[]"));
  EXPECT_FALSE(pool({2, 3, 8, 8}, "[-1, 4]"));
  EXPECT_FALSE(pool({8}, "[2, 4]"));
  EXPECT_TRUE(pool({8, 8}, "[2, 4]"));
}

}  // namespace
}  // namespace ridge::record
