// SPDX-License-Identifier: Apache-2.0
// The tables, one row for each operation, and the search in them.
#include "record/import/torch_operations.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

namespace ridge::record {
namespace {

using enum Role;
namespace c = counts;

constexpr auto kOperations = std::to_array<TorchOperation>({
    // Products.
    {"aten::mm", kOperation, "matmul", c::product},
    {"aten::bmm", kOperation, "matmul", c::product},
    {"aten::mv", kOperation, "matmul", c::product},
    {"aten::dot", kOperation, "matmul", c::product},
    {"aten::_int_mm", kOperation, "matmul", c::product},
    {"aten::_scaled_mm", kOperation, "matmul", c::product},
    {"aten::addmm", kOperation, "matmul", c::product_and_addend},
    {"aten::_addmm_activation", kOperation, "matmul", c::product_and_addend},
    {"aten::baddbmm", kOperation, "matmul", c::product_and_addend},
    {"aten::addmv", kOperation, "matmul", c::product_and_addend},
    {"aten::addbmm", kOperation, "matmul", nullptr},
    {"aten::mkldnn_linear", kOperation, "matmul", c::linear},
    {"mkl::_mkl_linear", kOperation, "matmul", c::linear},
    {"mkldnn::_linear_pointwise", kOperation, "matmul", c::linear},
    {"aten::linear", kComposite, "matmul", c::linear},
    {"aten::matmul", kComposite, "matmul", c::product},
    {"aten::einsum", kComposite, "matmul", nullptr},
    {"aten::bilinear", kComposite, "matmul", nullptr},
    {"aten::tensordot", kComposite, "matmul", nullptr},

    // Attention.
    {"aten::_scaled_dot_product_flash_attention",
     kOperation,
     "flash_attention",
     c::attention,
     {6, 0, 2}},
    {"aten::_scaled_dot_product_flash_attention_for_cpu",
     kOperation,
     "flash_attention",
     c::attention,
     {6, 0, 2}},
    {"aten::_scaled_dot_product_efficient_attention",
     kOperation,
     "flash_attention",
     c::attention,
     {6, 0, 2}},
    {"aten::_scaled_dot_product_cudnn_attention",
     kOperation,
     "flash_attention",
     c::attention,
     {6, 0, 2}},
    {"aten::_scaled_dot_product_fused_attention_overrideable",
     kOperation,
     "flash_attention",
     c::attention,
     {6, 0, 2}},
    {"aten::_flash_attention_forward",
     kOperation,
     "flash_attention",
     c::attention_tokens_first,
     {6, 0, 2}},
    {"aten::_efficient_attention_forward",
     kOperation,
     "flash_attention",
     c::attention_tokens_first,
     {6, 0, 2}},
    {"flash_attn::_flash_attn_forward",
     kOperation,
     "flash_attention",
     c::attention_tokens_first,
     {6, 0, 2}},
    {"aten::_scaled_dot_product_*_backward",
     kOperation,
     "flash_attention_backward",
     c::attention_backward,
     {6, 0, 2}},
    {"aten::_flash_attention_backward",
     kOperation,
     "flash_attention_backward",
     c::attention_backward_tokens_first,
     {6, 0, 2}},
    {"aten::_efficient_attention_backward",
     kOperation,
     "flash_attention_backward",
     c::attention_backward_tokens_first,
     {6, 0, 2}},
    {"flash_attn::_flash_attn_backward",
     kOperation,
     "flash_attention_backward",
     c::attention_backward_tokens_first,
     {6, 0, 2}},
    {"aten::scaled_dot_product_attention", kComposite, "flash_attention", c::attention, {6, 0, 2}},
    {"aten::_scaled_dot_product_attention_math*", kComposite, "attention", c::attention, {6, 0, 0}},
    {"aten::_safe_softmax", kComposite, "softmax", c::rows, {5}},

    // Norms.
    {"aten::_fused_rms_norm", kOperation, "rms_norm", c::norm, {4, 0, 3}},
    {"aten::rms_norm", kComposite, "rms_norm", c::norm, {4, 0, 3}},
    {"aten::_fused_rms_norm_backward",
     kOperation,
     "rms_norm_backward",
     c::norm_backward,
     {9, 0, 1}},
    {"aten::native_layer_norm", kOperation, "layer_norm", c::norm, {7, 0, 4}},
    {"aten::layer_norm", kComposite, "layer_norm", c::norm, {7, 0, 4}},
    {"aten::native_layer_norm_backward",
     kOperation,
     "layer_norm_backward",
     c::norm_backward,
     {13, 0, 2}},

    // Softmax and losses.
    {"aten::_softmax", kOperation, "softmax", c::rows, {5}},
    {"aten::softmax", kComposite, "softmax", c::rows, {5}},
    {"aten::_softmax_backward_data", kOperation, "softmax_backward", c::rows, {4}},
    {"aten::_log_softmax", kOperation, "log_softmax", c::rows, {5, 0, 1}},
    {"aten::log_softmax", kComposite, "log_softmax", c::rows, {5, 0, 1}},
    {"aten::_log_softmax_backward_data", kOperation, "log_softmax_backward", c::rows, {4}},
    {"aten::nll_loss_forward", kOperation, "nll_loss", c::picked, {1}},
    {"aten::nll_loss2d_forward", kOperation, "nll_loss", c::picked, {1}},
    {"aten::nll_loss_backward", kOperation, "nll_loss_backward", c::picked_backward},
    {"aten::nll_loss2d_backward", kOperation, "nll_loss_backward", c::picked_backward},
    {"aten::nll_loss*", kComposite, "nll_loss", c::picked, {1}},
    {"aten::cross_entropy_loss", kComposite, "softmax_cross_entropy", c::rows, {4}},
    {"aten::mse_loss", kOperation, "mse_loss", c::pointwise, {3}},
    {"aten::mse_loss_backward", kOperation, "mse_loss_backward", c::pointwise, {3}},

    // Embeddings.
    {"aten::embedding", kOperation, "embedding", c::lookup},
    {"aten::embedding_dense_backward", kOperation, "embedding_backward", c::lookup_backward, {1}},
    {"aten::embedding_backward", kComposite, "embedding_backward", c::lookup_backward, {1}},

    // Element by element; the FLOPs are those of docs/accounting.md.
    {"aten::add", kOperation, "add", c::pointwise, {1}},
    {"aten::sub", kOperation, "sub", c::pointwise, {1}},
    {"aten::rsub", kOperation, "sub", c::pointwise, {1}},
    {"aten::mul", kOperation, "mul", c::pointwise, {1}},
    {"aten::div", kOperation, "div", c::pointwise, {1, 1}},
    {"aten::true_divide", kOperation, "div", c::pointwise, {1, 1}},
    {"aten::floor_divide", kOperation, "div", c::pointwise, {1, 1}},
    {"aten::remainder", kOperation, "remainder", c::pointwise, {1, 1}},
    {"aten::fmod", kOperation, "remainder", c::pointwise, {1, 1}},
    {"aten::neg", kOperation, "neg", c::pointwise, {1}},
    {"aten::abs", kOperation, "abs", c::pointwise},
    {"aten::sign", kOperation, "sign", c::pointwise},
    {"aten::sgn", kOperation, "sign", c::pointwise},
    {"aten::floor", kOperation, "round", c::pointwise},
    {"aten::ceil", kOperation, "round", c::pointwise},
    {"aten::round", kOperation, "round", c::pointwise},
    {"aten::pow", kOperation, "pow", c::power, {1, 1}},
    {"aten::square", kOperation, "square", c::pointwise, {1}},
    {"aten::exp", kOperation, "exp", c::pointwise, {1, 1}},
    {"aten::exp2", kOperation, "exp", c::pointwise, {1, 1}},
    {"aten::log", kOperation, "log", c::pointwise, {1, 1}},
    {"aten::sin", kOperation, "sin", c::pointwise, {1, 1}},
    {"aten::cos", kOperation, "cos", c::pointwise, {1, 1}},
    {"aten::erf", kOperation, "erf", c::pointwise, {1, 1}},
    {"aten::tanh", kOperation, "tanh", c::pointwise, {1, 1}},
    {"aten::tanh_backward", kOperation, "tanh_backward", c::pointwise, {3}},
    {"aten::sqrt", kOperation, "sqrt", c::pointwise, {1, 1}},
    {"aten::rsqrt", kOperation, "rsqrt", c::pointwise, {1, 1}},
    {"aten::reciprocal", kOperation, "reciprocal", c::pointwise, {1, 1}},
    {"aten::sigmoid", kOperation, "sigmoid", c::pointwise, {4, 2}},
    {"aten::sigmoid_backward", kOperation, "sigmoid_backward", c::pointwise, {3}},
    {"aten::silu", kOperation, "silu", c::pointwise, {4, 2}},
    {"aten::silu_backward", kOperation, "silu_backward", c::pointwise, {9, 2}},
    {"aten::gelu", kOperation, "gelu", c::gelu, {5, 1}},
    {"aten::gelu_backward", kOperation, "gelu_backward", c::gelu_backward, {11, 2}},
    {"aten::relu", kOperation, "relu", c::pointwise},
    {"aten::threshold", kOperation, "relu", c::pointwise},
    {"aten::threshold_backward", kOperation, "relu_backward", c::pointwise},
    {"aten::clamp*", kOperation, "clamp", c::pointwise},
    {"aten::maximum", kOperation, "maximum", c::pointwise},
    {"aten::minimum", kOperation, "minimum", c::pointwise},
    {"aten::lerp", kOperation, "lerp", c::pointwise, {3}},
    {"aten::addcmul", kOperation, "addcmul", c::pointwise, {3}},
    {"aten::addcdiv", kOperation, "addcdiv", c::pointwise, {3, 1}},
    {"aten::where", kOperation, "where", c::pointwise},
    {"aten::masked_fill", kOperation, "where", c::pointwise},
    {"aten::tril", kOperation, "causal_mask", c::pointwise},
    {"aten::triu", kOperation, "causal_mask", c::pointwise},
    {"aten::native_dropout", kOperation, "dropout", c::dropout, {2}},
    {"aten::native_dropout_backward", kOperation, "dropout_backward", c::pointwise, {2}},
    {"aten::dropout", kComposite, "dropout", c::pointwise, {2}},
    {"aten::cumsum", kOperation, "cumsum", c::pointwise, {1}},
    {"aten::_softcap*", kOperation, "softcap", c::pointwise, {3, 1}},
    {"aten::eq", kOperation, "compare", c::compare},
    {"aten::ne", kOperation, "compare", c::compare},
    {"aten::lt", kOperation, "compare", c::compare},
    {"aten::le", kOperation, "compare", c::compare},
    {"aten::gt", kOperation, "compare", c::compare},
    {"aten::ge", kOperation, "compare", c::compare},
    {"aten::isin", kOperation, "compare", c::compare},
    {"aten::isnan", kOperation, "compare", c::compare},
    {"aten::isinf", kComposite, "compare", c::compare},
    {"aten::isposinf", kOperation, "compare", c::compare},
    {"aten::isneginf", kOperation, "compare", c::compare},
    {"aten::isfinite", kComposite, "compare", c::compare},
    {"aten::logical_*", kOperation, "compare", c::compare},
    {"aten::bitwise_*", kOperation, "compare", c::pointwise},
    {"aten::__and__", kOperation, "compare", c::pointwise},
    {"aten::__or__", kOperation, "compare", c::pointwise},

    // Over an axis.
    {"aten::sum", kOperation, "reduce_sum", c::reduction, {1}},
    {"aten::mean", kComposite, "reduce_mean", c::reduction, {1, 0, 1}},
    {"aten::var*", kOperation, "reduce_variance", c::reduction, {4}},
    {"aten::std*", kOperation, "reduce_variance", c::reduction, {4}},
    {"aten::prod", kOperation, "reduce_product", c::reduction, {1}},
    {"aten::amax", kOperation, "reduce_max", c::reduction, {1}},
    {"aten::max", kOperation, "reduce_max", c::reduction, {1}},
    {"aten::min", kOperation, "reduce_max", c::reduction, {1}},
    {"aten::argmax", kOperation, "reduce_max", c::reduction, {1}},
    {"aten::argmin", kOperation, "reduce_max", c::reduction, {1}},
    {"aten::all", kOperation, "reduce_any", c::reduction},
    {"aten::any", kOperation, "reduce_any", c::reduction},
    {"aten::linalg_vector_norm", kOperation, "reduce_norm", c::reduction, {2}},
    {"aten::norm", kComposite, "reduce_norm", c::reduction, {2}},
    {"aten::logsumexp", kOperation, "reduce_log_sum_exp", c::reduction, {4, 1}},
    {"aten::topk", kOperation, "sort", c::gather},
    {"aten::sort", kOperation, "sort", c::gather},
    {"aten::argsort", kComposite, "sort", c::gather},
    {"aten::multinomial", kOperation, "sample", c::gather},

    // Moves.
    {"aten::copy", kOperation, "copy", c::copy},
    {"aten::_foreach_copy", kOperation, "copy", c::lists},
    {"aten::clone", kComposite, "copy", c::copy},
    {"aten::contiguous", kComposite, "view"},
    {"aten::to", kComposite, "view"},
    {"aten::_to_copy", kComposite, "copy", c::copy},
    {"aten::type_as", kComposite, "view"},
    {"aten::cat", kOperation, "concat", c::concat},
    {"aten::stack", kComposite, "concat", c::concat},
    {"aten::repeat", kComposite, "copy", c::copy},
    {"aten::repeat_interleave", kComposite, "copy", c::copy},
    {"aten::roll", kOperation, "copy", c::copy},
    {"aten::flip", kOperation, "copy", c::copy},
    {"aten::pad", kComposite, "copy", c::copy},
    {"aten::constant_pad_nd", kComposite, "copy", c::copy},
    {"aten::slice_backward", kComposite, "copy", c::copy},
    {"aten::select_backward", kComposite, "copy", c::copy},
    {"aten::*split*_backward", kComposite, "copy", c::copy},
    {"aten::fill", kOperation, "fill", c::fill},
    {"aten::zero", kComposite, "fill", c::fill},
    {"aten::normal", kOperation, "fill", c::fill},
    {"aten::uniform", kOperation, "fill", c::fill},
    {"aten::bernoulli", kOperation, "fill", c::fill},
    {"aten::exponential", kOperation, "fill", c::fill},
    {"aten::random", kOperation, "fill", c::fill},
    {"aten::arange", kOperation, "fill", c::fill},
    {"aten::zeros*", kComposite, "fill"},
    {"aten::ones*", kComposite, "fill"},
    {"aten::full*", kComposite, "fill"},
    {"aten::new_zeros", kComposite, "fill"},
    {"aten::new_ones", kComposite, "fill"},
    {"aten::new_full", kComposite, "fill"},
    {"aten::scalar_tensor", kComposite, "fill"},
    {"aten::tensor", kComposite, "fill"},
    {"aten::index_select", kOperation, "gather", c::gather},
    {"aten::gather", kOperation, "gather", c::gather},
    {"aten::index", kOperation, "gather", c::gather},
    {"aten::take*", kOperation, "gather", c::gather},
    {"aten::masked_select", kOperation, "gather", c::gather},
    {"aten::nonzero", kOperation, "gather", c::gather},
    {"aten::scatter*", kOperation, "scatter", c::gather},
    {"aten::index_copy", kOperation, "scatter", c::gather},
    {"aten::index_fill", kOperation, "scatter", c::gather},
    {"aten::_index_put_impl", kOperation, "scatter", c::gather},
    {"aten::index_put", kComposite, "scatter", c::gather},
    {"aten::index_add", kOperation, "scatter", c::gather, {1}},

    // Optimizers: FLOPs per parameter.
    {"aten::_fused_adamw", kOperation, "adamw", c::update, {14, 2}},
    {"aten::_fused_adam", kOperation, "adam", c::update, {14, 2}},
    {"aten::_fused_sgd", kOperation, "sgd", c::update, {4}},
    {"aten::_fused_adagrad", kOperation, "adagrad", c::update, {6, 2}},
    {"aten::_foreach_add", kOperation, "add", c::lists, {1}},
    {"aten::_foreach_sub", kOperation, "sub", c::lists, {1}},
    {"aten::_foreach_mul", kOperation, "mul", c::lists, {1}},
    {"aten::_foreach_div", kOperation, "div", c::lists, {1, 1}},
    {"aten::_foreach_neg", kOperation, "neg", c::lists, {1}},
    {"aten::_foreach_sqrt", kOperation, "sqrt", c::lists, {1, 1}},
    {"aten::_foreach_rsqrt", kOperation, "rsqrt", c::lists, {1, 1}},
    {"aten::_foreach_reciprocal", kOperation, "reciprocal", c::lists, {1, 1}},
    {"aten::_foreach_pow", kOperation, "pow", c::lists, {1, 1}},
    {"aten::_foreach_lerp", kOperation, "lerp", c::lists, {3}},
    {"aten::_foreach_addcmul", kOperation, "addcmul", c::lists, {3}},
    {"aten::_foreach_addcdiv", kOperation, "addcdiv", c::lists, {3, 1}},
    {"aten::_foreach_maximum", kOperation, "maximum", c::lists},
    {"aten::_foreach_clamp*", kOperation, "clamp", c::lists},
    {"aten::_foreach_norm", kOperation, "reduce_norm", c::lists, {2}},
    {"aten::_foreach_zero", kOperation, "fill", c::lists},
    {"aten::_amp_foreach_non_finite_check_and_unscale", kOperation, "mul", c::lists, {1}},

    // Generated kernels: TorchInductor's, by their tensor operands. FLOPs are unknown.
    {"triton_*", kOperation, "generated_pointwise", c::generated},
    {"*cpp_fused_*", kOperation, "generated_pointwise", c::generated},
    {"*cpp_CppMicroGemm*", kOperation, "matmul", nullptr},
    {"*cpp_grouped_gemm*", kOperation, "matmul", nullptr},

    // Communication.
    {"nccl:*", kOperation, "collective", c::generated},
    {"gloo:*", kOperation, "collective", c::generated},
    {"c10d::*", kComposite, "collective", c::generated},
    {"record_param_comms", kWrapper, ""},

    // Views and allocation.
    {"aten::view", kView, "view"},
    {"aten::_unsafe_view", kView, "view"},
    {"aten::_reshape_alias", kView, "view"},
    {"aten::reshape", kComposite, "view"},
    {"aten::flatten", kComposite, "view"},
    {"aten::unflatten", kComposite, "view"},
    {"aten::t", kView, "view"},
    {"aten::transpose", kView, "view"},
    {"aten::numpy_T", kView, "view"},
    {"aten::permute", kView, "view"},
    {"aten::movedim", kView, "view"},
    {"aten::swapaxes", kView, "view"},
    {"aten::expand*", kView, "view"},
    {"aten::broadcast_tensors", kView, "view"},
    {"aten::as_strided", kView, "view"},
    {"aten::slice", kView, "view"},
    {"aten::narrow", kView, "view"},
    {"aten::select", kView, "view"},
    {"aten::split*", kView, "view"},
    {"aten::chunk", kView, "view"},
    {"aten::unbind", kView, "view"},
    {"aten::unfold", kView, "view"},
    {"aten::squeeze*", kView, "view"},
    {"aten::unsqueeze*", kView, "view"},
    {"aten::diagonal", kView, "view"},
    {"aten::alias", kView, "view"},
    {"aten::detach", kView, "view"},
    {"detach*", kView, "view"},
    {"aten::lift_fresh", kView, "view"},
    {"aten::resolve_conj", kView, "view"},
    {"aten::resolve_neg", kView, "view"},
    {"aten::real", kView, "view"},
    {"aten::view_as*", kView, "view"},
    {"aten::set", kView, "view"},
    {"aten::result_type", kView, "view"},
    {"aten::can_cast", kView, "view"},
    {"aten::is_*", kView, "view"},
    {"aten::_is_*", kView, "view"},
    {"aten::is_nonzero", kView, "read_back"},
    {"aten::item", kView, "read_back"},
    {"aten::_local_scalar_dense", kView, "read_back"},
    {"aten::equal", kView, "read_back"},
    {"aten::empty*", kView, "allocate"},
    {"aten::new_empty*", kView, "allocate"},
    {"aten::_efficientzerotensor", kView, "allocate"},
    {"aten::resize*", kView, "allocate"},
    {"aten::pin_memory", kView, "allocate"},
    {"aten::record_stream", kView, "allocate"},

    // Frames of the framework.
    {"autograd::engine::*", kWrapper, ""},
    {"torch::autograd::*", kWrapper, ""},
    {"*Backward0", kWrapper, ""},
    {"*Backward1", kWrapper, ""},
    {"*Backward2", kWrapper, ""},
    {"*Backward", kWrapper, ""},
    {"CompiledFunction*", kWrapper, ""},
    {"Torch-Compiled Region*", kWrapper, ""},
    {"## Call CompiledFxGraph*", kWrapper, ""},
    {"TorchDynamo *", kWrapper, ""},
    {"AOTDispatcher *", kWrapper, ""},
    {"Pregraph bytecode", kWrapper, ""},
    {"Optimizer.*", kWrapper, ""},
    {"enumerate(DataLoader)*", kWrapper, ""},
    {"DistributedDataParallel.*", kWrapper, ""},
    {"FullyShardedDataParallel*", kWrapper, ""},
    {"FSDP*", kWrapper, ""},
});

// Parts of the names of kernels, as cuBLAS, cuDNN, CUTLASS, FlashAttention, Triton, hipBLAS and
// PyTorch give them.
struct KernelName {
  std::string_view pattern, op;
};
constexpr auto kKernels = std::to_array<KernelName>({
    {"*flash_bwd*", "flash_attention_backward"},
    {"*fmha*bwd*", "flash_attention_backward"},
    {"*fmha_cutlassB*", "flash_attention_backward"},
    {"*flash_fwd*", "flash_attention"},
    {"*fmha*", "flash_attention"},
    {"*sdpa*bprop*", "flash_attention_backward"},
    {"*sdpa*", "flash_attention"},
    {"*attn_fwd*", "flash_attention"},
    {"*attn_bwd*", "flash_attention_backward"},
    {"triton_tem_*mm*", "matmul"},
    {"triton_*", "generated_pointwise"},
    {"*gemm*", "matmul"},
    {"*gemv*", "matmul"},
    {"*Gemm*", "matmul"},
    {"*nvjet*", "matmul"},
    {"*cutlass*", "matmul"},
    {"Cijk_*", "matmul"},
    {"*splitKreduce*", "matmul"},
    {"*nccl*", "collective"},
    {"*rccl*", "collective"},
    {"*multi_tensor_apply*", "adamw"},
    {"*FusedAdam*", "adamw"},
    {"*softmax*orward*", "softmax"},
    {"*softmax*ackward*", "softmax_backward"},
    {"*softmax*", "softmax"},
    {"*SoftMax*", "softmax"},
    {"*rms_norm*", "rms_norm"},
    {"*layer_norm*", "layer_norm"},
    {"*LayerNorm*", "layer_norm"},
    {"*nll_loss*", "nll_loss"},
    {"*embedding_backward*", "embedding_backward"},
    {"*mbedding*", "embedding"},
    {"*reduce_kernel*", "reduce_sum"},
    {"*CatArrayBatchedCopy*", "concat"},
    {"*gather*", "gather"},
    {"*scatter*", "scatter"},
    {"*index*", "gather"},
    {"*FillFunctor*", "fill"},
    {"*direct_copy*", "copy"},
    {"*Memcpy*", "copy"},
    {"*memcpy*", "copy"},
    {"*copyBuffer*", "copy"},
    {"*Memset*", "fill"},
    {"*memset*", "fill"},
    {"*fillBuffer*", "fill"},
    {"*elementwise_kernel*", "pointwise"},
});

constexpr TorchOperation kNone{};

std::unordered_map<std::string_view, const TorchOperation*> exact_rows() {
  std::unordered_map<std::string_view, const TorchOperation*> rows;
  for (const TorchOperation& row : kOperations)
    if (row.pattern.find('*') == std::string_view::npos) rows.emplace(row.pattern, &row);
  return rows;
}

}  // namespace

std::span<const TorchOperation> torch_operations() { return kOperations; }

bool matches(std::string_view pattern, std::string_view text) {
  // The classic walk: back to the last star when a character does not fit.
  size_t at = 0, star = std::string_view::npos, mark = 0, i = 0;
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      mark = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

const TorchOperation& torch_operation(std::string_view name) {
  static const auto kExact = exact_rows();
  std::string_view in_place = name;
  if (name.starts_with("aten::") && name.ends_with('_') && !name.ends_with("__"))
    in_place.remove_suffix(1);
  for (const std::string_view each : {name, in_place})
    if (const auto found = kExact.find(each); found != kExact.end()) return *found->second;
  for (const TorchOperation& row : kOperations)
    if (matches(row.pattern, in_place)) return row;
  return kNone;
}

std::string_view kernel_op(std::string_view kernel) {
  for (const KernelName& row : kKernels)
    if (matches(row.pattern, kernel)) return row.op;
  return "";
}

}  // namespace ridge::record
