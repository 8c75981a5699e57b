// SPDX-License-Identifier: Apache-2.0
// The table of operations that Ridge has no op for. Ops declare their own category.
#include "record/operation_table.h"

#include <algorithm>

#include "base/split.h"
#include "ops/registry.h"

namespace ridge::record {
namespace {

struct TraceOperations {
  OpCategory category;
  std::string_view names;  // with a space between two
};

constexpr TraceOperations kTraceOperations[] = {
    {OpCategory::kSoftmaxAndLoss, "mse_loss mse_loss_backward"},
    {OpCategory::kElementwise,
     "pointwise remainder abs sign round pow sin cos erf tanh_backward sigmoid_backward gelu "
     "gelu_backward relu relu_backward clamp maximum minimum lerp addcmul addcdiv where dropout "
     "dropout_backward cumsum softcap compare layer_norm layer_norm_backward reduce_mean "
     "reduce_variance reduce_product reduce_max reduce_any reduce_norm reduce_log_sum_exp "
     "batch_norm batch_norm_backward group_norm group_norm_backward max_pool max_pool_backward "
     "average_pool average_pool_backward upsample upsample_backward rnn_cell rnn_cell_backward fft "
     "scan"},
    {OpCategory::kMatmul,
     "grouped_matmul experts convolution convolution_backward rnn rnn_backward linear_algebra"},
    {OpCategory::kEmbedding, "embedding_bag embedding_bag_backward"},
    {OpCategory::kDataMovement, "gather scatter"},
    {OpCategory::kView, "view allocate read_back"},
    {OpCategory::kOptimizer, "adam sgd adagrad"},
    {OpCategory::kSampling, "sort"},
    {OpCategory::kCollective, "collective"},
};

}  // namespace

OpCategory operation_category(std::string_view name) {
  if (const Op* op = ops::table().find(name)) return op->category;
  for (const TraceOperations& row : kTraceOperations)
    if (std::ranges::count(split(row.names, ' '), name) > 0) return row.category;
  return OpCategory::kOther;
}

}  // namespace ridge::record
