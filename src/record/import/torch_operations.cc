// SPDX-License-Identifier: Apache-2.0
// The tables, one row for all operations that are treated alike, and the search in them.
#include "record/import/torch_operations.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/name_pattern.h"

namespace ridge::record {
namespace {

using enum Role;
namespace c = counts;

constexpr Arithmetic kAttention{6, 0, 2};

// The operations that are treated alike, with the names of all of them.
struct Row {
  Role role;
  std::string_view op;     // empty: each has its own name, of which one over lists is a part
  std::string_view names;  // ", " stands between two names
  CountFunction count = nullptr;
  Arithmetic arithmetic = {};
};
constexpr auto kRows = std::to_array<Row>({
    // Products.
    {kOperation, "matmul",
     "aten::mm, aten::bmm, aten::mv, aten::dot, aten::_int_mm, aten::_scaled_mm", c::product},
    {kOperation, "matmul", "aten::addmm, aten::_addmm_activation, aten::baddbmm, aten::addmv",
     c::product_and_addend},
    {kOperation, "matmul", "aten::addbmm, aten::_weight_int*pack_mm*, aten::_cslt_sparse_mm"},
    {kComposite, "matmul", "aten::outer, aten::ger, aten::addr, aten::inner"},
    {kOperation, "matmul", "aten::mkldnn_linear, mkl::_mkl_linear, mkldnn::_linear_pointwise",
     c::linear},
    {kComposite, "matmul", "aten::linear", c::linear},
    {kComposite, "matmul", "aten::matmul", c::product},
    {kComposite, "matmul", "aten::einsum, aten::bilinear, aten::tensordot"},

    {kOperation, "grouped_matmul", "aten::_grouped_mm, aten::_scaled_grouped_mm",
     c::grouped_product},
    {kComposite, "grouped_matmul", "primus_turbo*::*grouped_gemm*", c::grouped_product},
    // The flags of Transformer Engine are those of matrices by column, those of Primus by row.
    {kOperation, "matmul", "tex_ts::te_gemm_ts", c::product_by_columns},
    {kOperation, "matmul", "primus_turbo*::hipblaslt_gemm*", c::product_by_rows},
    {kComposite, "matmul", "_Linear", c::weight_and_input},
    {kComposite, "matmul", "_LayerNormLinear", c::norm_and_linear},
    {kComposite, "matmul", "_LinearBackward, _LayerNormLinearBackward"},

    // Convolutions.
    {kOperation, "convolution",
     "aten::convolution, aten::_convolution, aten::convolution_overrideable", c::convolution},
    {kOperation, "convolution", "aten::cudnn_convolution", c::convolution_without_bias},
    {kOperation, "convolution",
     "aten::miopen_convolution, aten::miopen_depthwise_convolution, aten::mkldnn_convolution, "
     "mkldnn::_convolution_pointwise*",
     c::convolution_padding_first},
    {kOperation, "convolution",
     "aten::_slow_conv2d_forward, aten::slow_conv3d_forward, aten::thnn_conv2d, "
     "aten::slow_conv3d, aten::_conv_depthwise2d, aten::conv_depthwise3d",
     c::convolution_of_window},
    {kOperation, "convolution", "aten::cudnn_convolution_relu, aten::miopen_convolution_relu",
     c::convolution_of_kind},
    {kComposite, "convolution", "aten::conv1d, aten::conv2d, aten::conv3d", c::convolution_of_kind},
    {kComposite, "convolution",
     "aten::conv_transpose*, aten::cudnn_convolution_*, aten::slow_conv_*"},
    {kOperation, "convolution_backward",
     "aten::convolution_backward, aten::convolution_backward_overrideable",
     c::convolution_backward},

    // Recurrent networks.
    {kOperation, "rnn", "aten::_cudnn_rnn, aten::miopen_rnn", c::recurrent},
    {kOperation, "rnn_backward", "aten::_cudnn_rnn_backward, aten::miopen_rnn_backward",
     c::recurrent_backward},
    {kOperation, "rnn", "aten::mkldnn_rnn_layer", c::recurrent_layer, {1}},
    {kOperation, "rnn_backward", "aten::mkldnn_rnn_layer_backward", c::recurrent_layer, {2}},
    {kComposite, "rnn", "aten::lstm, aten::gru, aten::rnn_tanh, aten::rnn_relu", c::recurrent},
    {kOperation, "rnn_cell", "aten::_thnn_fused_*_cell"},
    {kOperation, "rnn_cell_backward", "aten::_thnn_fused_*_cell_backward*"},

    // Attention.
    {kOperation, "flash_attention",
     "aten::_scaled_dot_product_flash_attention, "
     "aten::_scaled_dot_product_flash_attention_for_cpu, "
     "aten::_scaled_dot_product_efficient_attention, aten::_scaled_dot_product_cudnn_attention, "
     "aten::_scaled_dot_product_fused_attention_overrideable",
     c::attention, kAttention},
    {kOperation, "flash_attention_backward",
     "aiter::fmha*bwd*, aiter::mha_bwd, aiter::_flash_attn_backward",
     c::attention_backward_tokens_first, kAttention},
    {kOperation, "flash_attention",
     "aten::_flash_attention_forward, aten::_efficient_attention_forward, "
     "flash_attn::_flash_attn_forward, flash_attn_3::fwd, flash_attn_3::_flash_attn_forward, "
     "xformers*::efficient_attention_forward*, xformers_flash*::flash_fwd, "
     "aiter::_flash_attn_forward, aiter::fmha*, aiter::mha_fwd",
     c::attention_tokens_first, kAttention},
    {kOperation, "flash_attention",
     "flash_attn::_flash_attn_varlen_forward, aiter::mha_varlen_fwd, aiter::fmha_v3_varlen_fwd, "
     "aiter::_flash_attn_varlen_forward",
     c::packed_attention, kAttention},
    {kOperation, "flash_attention_backward",
     "flash_attn::_flash_attn_varlen_backward, aiter::_flash_attn_varlen_backward",
     c::packed_attention_backward, kAttention},
    // Functions in Python around older versions of the library, whose kernels are their own. What
    // the gradients count follows from the forward pass.
    {kComposite, "flash_attention", "FlashAttnFunc", c::attention_tokens_first, kAttention},
    {kComposite, "flash_attention", "FusedAttnFunc"},
    {kComposite, "flash_attention", "FlashAttnVarlenFunc", c::packed_attention, kAttention},
    {kComposite, "flash_attention_backward",
     "FlashAttnFuncBackward, FlashAttnVarlenFuncBackward, FusedAttnFuncBackward"},
    {kOperation, "flash_attention_backward", "aten::_scaled_dot_product_*_backward",
     c::attention_backward, kAttention},
    {kOperation, "flash_attention_backward",
     "aten::_flash_attention_backward, aten::_efficient_attention_backward, "
     "flash_attn::_flash_attn_backward, flash_attn_3::bwd, flash_attn_3::_flash_attn_backward, "
     "xformers*::efficient_attention_backward*, xformers_flash*::flash_bwd",
     c::attention_backward_tokens_first, kAttention},
    {kComposite, "flash_attention", "aten::scaled_dot_product_attention", c::attention, kAttention},
    {kComposite, "attention", "aten::_scaled_dot_product_attention_math*", c::attention, {6, 0, 0}},
    {kComposite, "softmax", "aten::_safe_softmax", c::rows, {5}},

    // Norms.
    {kOperation, "rms_norm", "aten::_fused_rms_norm", c::norm, {4, 0, 3}},
    {kComposite, "rms_norm", "aten::rms_norm", c::norm, {4, 0, 3}},
    {kOperation,
     "rms_norm_backward",
     "aten::_fused_rms_norm_backward",
     c::norm_backward,
     {9, 0, 1}},
    {kOperation, "layer_norm", "aten::native_layer_norm", c::norm, {7, 0, 4}},
    {kComposite, "layer_norm", "aten::layer_norm", c::norm, {7, 0, 4}},
    {kOperation,
     "layer_norm_backward",
     "aten::native_layer_norm_backward",
     c::norm_backward,
     {13, 0, 2}},

    {kOperation,
     "batch_norm",
     "aten::native_batch_norm, aten::cudnn_batch_norm, aten::miopen_batch_norm, "
     "aten::_native_batch_norm_legit*, aten::_batch_norm_with_update*",
     c::channel_norm,
     {7, 0, 4}},
    {kOperation,
     "batch_norm_backward",
     "aten::native_batch_norm_backward, aten::cudnn_batch_norm_backward, "
     "aten::miopen_batch_norm_backward, aten::batch_norm_backward",
     c::like_second,
     {13}},
    {kComposite,
     "batch_norm",
     "aten::batch_norm, aten::_batch_norm_impl_index, aten::instance_norm",
     c::channel_norm,
     {7, 0, 4}},
    {kComposite, "batch_norm_backward", "aten::_batch_norm_impl_index_backward"},
    {kOperation, "group_norm", "aten::native_group_norm", c::channel_norm, {7}},
    {kComposite, "group_norm", "aten::group_norm", c::channel_norm, {7}},
    {kComposite, "group_norm", "aiter::*groupnorm*"},
    {kOperation, "group_norm_backward", "aten::native_group_norm_backward", c::like_second, {13}},

    // Pooling.
    {kOperation,
     "max_pool",
     "aten::max_pool2d_with_indices, aten::max_pool3d_with_indices, aten::mkldnn_max_pool2d, "
     "aten::mkldnn_max_pool3d",
     c::max_pool,
     {1}},
    {kOperation, "average_pool", "aten::avg_pool2d, aten::avg_pool3d", c::average_pool, {1}},
    {kOperation,
     "average_pool",
     "aten::_adaptive_avg_pool2d, aten::_adaptive_avg_pool3d",
     c::pooling_to,
     {1}},
    {kOperation,
     "max_pool",
     "aten::adaptive_max_pool2d, aten::adaptive_max_pool3d",
     c::pooling_to,
     {1}},
    {kOperation, "max_pool_backward", "aten::*max_pool*_backward", c::like_second, {1}},
    {kOperation, "average_pool_backward", "aten::*avg_pool*_backward", c::like_second, {1}},
    {kComposite, "max_pool", "aten::max_pool*, aten::adaptive_max_pool1d"},
    {kComposite, "average_pool", "aten::avg_pool1d, aten::adaptive_avg_pool*"},
    {kOperation, "upsample_backward", "aten::*upsample_*_backward"},
    {kOperation, "upsample", "aten::*upsample_*"},

    // Softmax and losses.
    {kOperation, "softmax", "aten::_softmax", c::rows, {5}},
    {kComposite, "softmax", "aten::softmax", c::rows, {5}},
    {kOperation, "softmax_backward", "aten::_softmax_backward_data", c::rows, {4}},
    {kOperation, "log_softmax", "aten::_log_softmax", c::rows, {5, 0, 1}},
    {kComposite, "log_softmax", "aten::log_softmax", c::rows, {5, 0, 1}},
    {kOperation, "log_softmax_backward", "aten::_log_softmax_backward_data", c::rows, {4}},
    {kOperation, "nll_loss", "aten::nll_loss_forward, aten::nll_loss2d_forward", c::picked, {1}},
    {kOperation, "nll_loss_backward", "aten::nll_loss_backward, aten::nll_loss2d_backward",
     c::picked_backward},
    {kComposite, "nll_loss", "aten::nll_loss*", c::picked, {1}},
    {kComposite, "softmax_cross_entropy", "aten::cross_entropy_loss", c::rows, {4}},
    {kOperation, "mse_loss", "aten::mse_loss", c::pointwise, {3}},
    {kOperation, "mse_loss_backward", "aten::mse_loss_backward", c::pointwise, {3}},

    // Embeddings.
    {kOperation, "embedding", "aten::embedding", c::lookup},
    {kOperation, "embedding_backward", "aten::embedding_dense_backward", c::lookup_backward, {1}},
    {kComposite, "embedding_backward", "aten::embedding_backward", c::lookup_backward, {1}},

    {kOperation,
     "embedding_bag",
     "aten::_embedding_bag, aten::_embedding_bag_forward_only",
     c::bag,
     {1}},
    {kOperation, "embedding_bag_backward", "aten::_embedding_bag_*backward"},
    {kComposite, "embedding_bag", "aten::embedding_bag", c::bag, {1}},
    {kComposite, "embedding_bag",
     "fbgemm::*lookup*, fbgemm::*embedding*codegen*, fbgemm::*nbit*embedding*"},
    {kComposite, "cast", "fbgemm::*Quantized*, fbgemm::*quantize*"},
    {kComposite, "scan", "fbgemm::*cumsum*"},
    {kComposite, "gather",
     "fbgemm::*permute*, fbgemm::*jagged*, fbgemm::*bucketize*, fbgemm::*indices*, "
     "fbgemm::*select*, fbgemm::*offsets*, fbgemm::*lengths*, fbgemm::*segment*, fbgemm::*invert*"},
    {kComposite, "reduce_sum", "fbgemm::*sum*, fbgemm::*merge_pooled*"},

    // Fourier transforms.
    {kOperation, "fft", "aten::_fft_c2c, aten::_fft_r2c, aten::_fft_c2r", c::fourier, {5}},
    {kComposite, "fft", "aten::fft_*, aten::stft, aten::istft"},

    // Servers of language models: vLLM, SGLang, AITER, FlashInfer.
    {kOperation, "flash_attention",
     "vllm::unified_attention*, aiter::*mha_batch_prefill*, aiter::*paged_attention*, "
     "aiter::pa_fwd*, aiter::mla_*, _C::paged_attention*, _rocm_C::paged_attention*, "
     "*flash_attn*_C::*fwd*, *_fa*_C::fwd*, sgl_kernel::fwd*, sgl_kernel::*mla*, "
     "flashinfer::*prefill*run*, flashinfer::*decode*run*, sglang::unified_attention*, "
     "sglang::*paged_attention*",
     c::paged_attention},
    {kComposite, "flash_attention", "sglang_profiler::attention*", c::paged_attention},
    {kComposite, "experts", "sglang_profiler::*invoke_fused_moe*", c::expert_product},
    {kComposite, "matmul", "sglang_profiler::*gemm*", c::serving_product},
    {kOperation, "kv_append",
     "*::reshape_and_cache*, *::store_cache*, vllm::unified_kv_cache_update, *::concat_and_cache*, "
     "*::set_kv_buffer*",
     c::appended},
    {kComposite, "experts",
     "vllm::*fused_experts*, vllm::*fused_moe*, vllm::moe_forward*, sglang::*fused_experts*, "
     "sglang::*fused_moe*, aiter::*fused_moe*, aiter::*moe*, flashinfer::*moe*, trtllm::*moe*, sgl_kernel::*moe*, _moe_C::*, "
     "vllm::*moe*, sglang::*moe*",
     c::experts},
    {kComposite, "matmul",
     "_C::*scaled_mm*, _C::cutlass_*_mm*, sgl_kernel::*_into*, _C::*_gemm_out*",
     c::serving_product_into},
    {kComposite, "matmul",
     "vllm::*gemm*, vllm::*scaled_mm*, vllm::*_linear*, aiter::*gemm*, sgl_kernel::*scaled_mm*, "
     "sgl_kernel::*gemm*, sglang::*gemm*, sglang::*scaled_mm*, _C::*gemm*, _rocm_C::*gemm*, "
     "_rocm_C::LLMM1, _rocm_C::wvSplitK*, deep_gemm::*, flashinfer::*gemm*, flashinfer::mm_*, "
     "trtllm::*scaled_mm*, trtllm::*gemm*, bitsandbytes::int8_linear_matmul*",
     c::serving_product},
    {kComposite, "rms_norm", "*::*rmsnorm*, *::*rms_norm*, *::*RMSNorm*", c::pointwise, {4}},
    {kComposite, "rope", "*::*rotary_embedding*, *::*rope_*, *::*_rope*", c::rotated, {3}},
    {kComposite,
     "glu",
     "*::silu_and_mul*, *::gelu_and_mul*, *::gelu_tanh_and_mul*",
     c::gated,
     {5, 2}},
    {kComposite, "sort", "TopK, SortTokens, *::topk_softmax*, *::*moe_align*"},
    {kComposite, "cast", "*::*scaled_fp8_quant*, *::*quant_fp8*, *::*_quant*"},
    {kComposite, "collective",
     "vllm::all_reduce*, vllm::all_gather*, vllm::reduce_scatter*, _C_custom_ar::*, "
     "symm_mem::*, _c10d_functional::*, c10d_functional::*, sglang::*all_reduce*, "
     "sgl_kernel::*all_reduce*, aiter::*all_reduce*"},
    {kWrapper, "", "sglang_profiler::*"},

    // Element by element; the FLOPs are those of docs/accounting.md.
    {kOperation,
     "",
     "aten::add, aten::sub, aten::mul, aten::neg, aten::square, aten::cumsum, aten::abs, aten::relu",
     c::pointwise,
     {1}},
    {kOperation,
     "",
     "aten::div, aten::remainder, aten::exp, aten::log, aten::sin, aten::cos, aten::erf, "
     "aten::tanh, aten::sqrt, aten::rsqrt, aten::reciprocal",
     c::pointwise,
     {1, 1}},
    {kOperation, "", "aten::sign, aten::round, aten::maximum, aten::minimum, aten::where",
     c::pointwise},
    {kOperation, "pow", "aten::pow", c::power, {1, 1}},
    {kOperation,
     "",
     "aten::tanh_backward, aten::sigmoid_backward, aten::lerp, aten::addcmul",
     c::pointwise,
     {3}},
    {kOperation, "", "aten::sigmoid, aten::silu", c::pointwise, {4, 2}},
    {kOperation, "silu_backward", "aten::silu_backward", c::pointwise, {9, 2}},
    {kOperation, "gelu", "aten::gelu", c::gelu, {5, 1}},
    {kOperation, "gelu_backward", "aten::gelu_backward", c::gelu_backward, {11, 2}},
    {kOperation, "addcdiv", "aten::addcdiv", c::pointwise, {3, 1}},
    {kOperation, "sub", "aten::rsub", c::pointwise, {1}},
    {kOperation, "div", "aten::true_divide, aten::floor_divide", c::pointwise, {1, 1}},
    {kOperation, "remainder", "aten::fmod", c::pointwise, {1, 1}},
    {kOperation, "sign", "aten::sgn", c::pointwise},
    {kOperation, "round", "aten::floor, aten::ceil", c::pointwise},
    {kOperation, "exp", "aten::exp2", c::pointwise, {1, 1}},
    {kOperation, "relu", "aten::threshold", c::pointwise, {1}},
    {kOperation, "relu_backward", "aten::threshold_backward", c::pointwise},
    {kOperation, "clamp", "aten::clamp*, aten::hardtanh*, aten::relu6, aten::nan_to_num",
     c::pointwise},
    {kOperation,
     "pointwise",
     "aten::leaky_relu*, aten::elu*, aten::celu*, aten::selu, aten::softplus*, aten::mish*, "
     "aten::hardswish*, aten::hardsigmoid*, aten::prelu*, aten::_prelu_kernel*, "
     "aten::log_sigmoid*, aten::log1p, aten::log2, aten::log10, aten::expm1, aten::tan, "
     "aten::asin, aten::acos, aten::atan*, aten::sinh, aten::cosh, aten::asinh, aten::acosh, "
     "aten::erfc, aten::erfinv, aten::lgamma, aten::digamma, aten::hypot, aten::logaddexp*, "
     "aten::xlogy, aten::float_power, aten::logit*, aten::polar, aten::angle",
     c::pointwise,
     {1, 1}},
    {kOperation, "pointwise",
     "aten::trunc, aten::frac, aten::heaviside, aten::copysign, aten::fmax, aten::fmin, "
     "aten::complex, aten::smooth_l1_loss*, aten::l1_loss*, aten::huber_loss*, aten::kl_div*, "
     "aten::binary_cross_entropy*, aten::soft_margin_loss*, aten::margin_ranking_loss, "
     "aten::cosine_embedding_loss, aten::quantize_per*, aten::dequantize*, "
     "aten::fake_quantize*, aten::_fake_quantize*, aten::_fused_moving_avg_obs*"},
    {kComposite, "glu", "aten::glu*"},
    {kOperation, "where", "aten::masked_fill", c::pointwise},
    {kOperation, "causal_mask", "aten::tril, aten::triu", c::pointwise},
    {kOperation, "dropout", "aten::native_dropout", c::dropout, {2}},
    {kOperation, "dropout_backward", "aten::native_dropout_backward", c::pointwise, {2}},
    {kComposite, "dropout", "aten::dropout", c::pointwise, {2}},
    {kOperation, "softcap", "aten::_softcap*", c::pointwise, {3, 1}},
    {kOperation, "compare",
     "aten::eq, aten::ne, aten::lt, aten::le, aten::gt, aten::ge, aten::isin, aten::isnan, "
     "aten::isposinf, aten::isneginf, aten::logical_*",
     c::compare},
    {kComposite, "compare", "aten::isinf, aten::isfinite", c::compare},
    {kOperation, "compare", "aten::bitwise_*, aten::__and__, aten::__or__", c::pointwise},

    // Over an axis.
    {kOperation, "reduce_sum", "aten::sum", c::reduction, {1}},
    {kComposite, "reduce_mean", "aten::mean", c::reduction, {1, 0, 1}},
    {kOperation, "reduce_variance", "aten::var*, aten::std*", c::reduction, {4}},
    {kOperation, "reduce_product", "aten::prod", c::reduction, {1}},
    {kOperation,
     "reduce_max",
     "aten::amax, aten::max, aten::min, aten::argmax, aten::argmin",
     c::reduction,
     {1}},
    {kOperation, "reduce_any", "aten::all, aten::any", c::reduction},
    {kOperation, "reduce_max",
     "aten::aminmax, aten::_aminmax, aten::median, aten::nanmedian, aten::mode, aten::kthvalue"},
    {kOperation, "reduce_sum",
     "aten::nansum, aten::count_nonzero, aten::trace, aten::histc, aten::bincount"},
    {kOperation, "scan",
     "aten::cumprod, aten::cummax, aten::cummin, aten::_cummax_helper, aten::logcumsumexp, "
     "aten::_logcumsumexp, aten::_cumsum, aten::diff"},
    {kOperation, "linear_algebra",
     "aten::linalg_*, aten::_linalg_*, aten::cholesky*, aten::svd, aten::qr, "
     "aten::inverse, aten::lu_*, aten::triangular_solve, aten::cdist, aten::_cdist*, aten::_pdist*"},
    {kOperation, "reduce_norm", "aten::linalg_vector_norm", c::reduction, {2}},
    {kComposite, "reduce_norm", "aten::norm", c::reduction, {2}},
    {kOperation, "reduce_log_sum_exp", "aten::logsumexp", c::reduction, {4, 1}},
    {kOperation, "sort", "aten::topk, aten::sort", c::gather},
    {kComposite, "sort", "aten::argsort", c::gather},
    {kOperation, "sample", "aten::multinomial", c::gather},

    // Moves.
    {kOperation, "copy", "aten::copy, aten::roll, aten::flip", c::copy},
    {kOperation, "copy", "aten::_foreach_copy", c::lists},
    {kComposite, "copy",
     "aten::clone, aten::_to_copy, aten::repeat, aten::repeat_interleave, aten::pad, "
     "aten::constant_pad_nd, aten::slice_backward, aten::select_backward, aten::*split*_backward",
     c::copy},
    {kComposite, "view", "aten::contiguous, aten::to, aten::type_as"},
    {kOperation, "concat", "aten::cat", c::concat},
    {kComposite, "concat", "aten::stack", c::concat},
    {kOperation, "fill",
     "aten::fill, aten::normal, aten::uniform, aten::bernoulli, aten::exponential, aten::random, "
     "aten::arange, aten::log_normal, aten::cauchy, aten::geometric, aten::eye, aten::linspace, "
     "aten::logspace, aten::tril_indices, aten::triu_indices",
     c::fill},
    {kComposite, "fill",
     "aten::rand, aten::rand_like, aten::randn, aten::randn_like, aten::randint*, "
     "aten::randperm"},
    {kComposite, "fill", "aten::zero", c::fill},
    {kComposite, "fill",
     "aten::zeros*, aten::ones*, aten::full*, aten::new_zeros, aten::new_ones, aten::new_full, "
     "aten::scalar_tensor, aten::tensor"},
    {kOperation, "gather",
     "aten::index_select, aten::gather, aten::index, aten::take*, aten::masked_select, "
     "aten::nonzero",
     c::gather},
    {kOperation, "gather",
     "aten::grid_sampler*, aten::im2col, aten::col2im, aten::searchsorted, aten::bucketize, "
     "aten::unique*, aten::_unique*, torchvision::*roi*, torchvision::*deform*"},
    {kOperation, "copy",
     "aten::reflection_pad*, aten::replication_pad*, aten::pixel_shuffle, "
     "aten::pixel_unshuffle, aten::channel_shuffle, aten::rot90, aten::_conj_physical"},
    {kOperation, "scatter",
     "aten::scatter*, aten::index_copy, aten::index_fill, aten::_index_put_impl", c::gather},
    {kComposite, "scatter", "aten::index_put, aten::one_hot", c::gather},
    {kOperation, "scatter", "aten::index_add", c::gather, {1}},

    // Optimizers: FLOPs per parameter.
    {kOperation,
     "",
     "aten::_foreach_add, aten::_foreach_sub, aten::_foreach_mul, aten::_foreach_neg",
     c::lists,
     {1}},
    {kOperation,
     "",
     "aten::_foreach_div, aten::_foreach_sqrt, aten::_foreach_rsqrt, aten::_foreach_reciprocal, "
     "aten::_foreach_pow",
     c::lists,
     {1, 1}},
    {kOperation, "", "aten::_foreach_lerp, aten::_foreach_addcmul", c::lists, {3}},
    {kOperation, "addcdiv", "aten::_foreach_addcdiv", c::lists, {3, 1}},
    {kOperation, "maximum", "aten::_foreach_maximum", c::lists},
    {kOperation, "adamw", "aten::_fused_adamw", c::update, {14, 2}},
    {kOperation, "adam", "aten::_fused_adam", c::update, {14, 2}},
    {kOperation, "sgd", "aten::_fused_sgd", c::update, {4}},
    {kOperation, "adagrad", "aten::_fused_adagrad", c::update, {6, 2}},
    {kOperation, "mul", "aten::_amp_foreach_non_finite_check_and_unscale", c::lists, {1}},
    {kOperation, "clamp", "aten::_foreach_clamp*", c::lists},
    {kOperation, "reduce_norm", "aten::_foreach_norm", c::lists, {2}},
    {kOperation, "fill", "aten::_foreach_zero", c::lists},

    // Generated kernels: TorchInductor's, by their tensor operands. FLOPs are unknown.
    {kOperation, "generated_pointwise", "triton_*, *cpp_fused_*", c::generated},
    {kOperation, "matmul", "*cpp_CppMicroGemm*, *cpp_grouped_gemm*"},

    // Communication.
    {kOperation, "collective", "nccl:*, gloo:*", c::generated},
    {kComposite, "collective", "c10d::*", c::generated},
    {kWrapper, "", "record_param_comms"},

    // Views and allocation.
    {kView, "view",
     "aten::view, aten::_unsafe_view, aten::_reshape_alias, aten::t, aten::transpose, "
     "aten::numpy_T, aten::permute, aten::movedim, aten::swapaxes, aten::expand*, "
     "aten::broadcast_tensors, aten::as_strided, aten::slice, aten::narrow, aten::select, "
     "aten::split*, aten::chunk, aten::unbind, aten::unfold, aten::squeeze*, aten::unsqueeze*, "
     "aten::diagonal, aten::alias, aten::detach, detach*, aten::lift_fresh, aten::resolve_conj, "
     "aten::resolve_neg, aten::real, aten::view_as*, aten::set, aten::result_type, "
     "aten::can_cast, aten::is_*, aten::_is_*, "
     "aten::_has_compatible_shallow_copy_type, aten::conj, aten::_conj, aten::_nested_view*, "
     "aten::_nested_get*, aten::sym_*, aten::numel, aten::size, aten::stride"},
    {kComposite, "view", "aten::reshape, aten::flatten, aten::unflatten"},
    {kView, "read_back", "aten::is_nonzero, aten::item, aten::_local_scalar_dense, aten::equal"},
    {kView, "allocate",
     "aten::empty*, aten::new_empty*, aten::_efficientzerotensor, aten::resize*, "
     "aten::pin_memory, aten::record_stream"},

    // Frames of the framework.
    {kWrapper, "",
     "autograd::engine::*, torch::autograd::*, *Backward0, *Backward1, *Backward2, *Backward, "
     "CompiledFunction*, Torch-Compiled Region*, ## Call CompiledFxGraph*, TorchDynamo *, "
     "AOTDispatcher *, Pregraph bytecode, Optimizer.*, enumerate(DataLoader)*, "
     "DistributedDataParallel.*, FullyShardedDataParallel*, FSDP*"},
});

constexpr TorchOperation kNone{};

// The texts between which ", " stands.
std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> all;
  while (!list.empty()) {
    all.push_back(list.substr(0, list.find(", ")));
    list.remove_prefix(std::min(list.size(), all.back().size() + 2));
  }
  return all;
}

std::string_view own_name(std::string_view name) {
  for (const std::string_view prefix : {"aten::", "_foreach_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name;
}

std::vector<TorchOperation> operations() {
  std::vector<TorchOperation> all;
  for (const Row& row : kRows)
    for (const std::string_view name : parts(row.names))
      all.push_back({name, row.role,
                     row.op.empty() && row.role != kWrapper ? own_name(name) : row.op, row.count,
                     row.arithmetic});
  return all;
}

std::unordered_map<std::string_view, const TorchOperation*> exact_rows() {
  std::unordered_map<std::string_view, const TorchOperation*> rows;
  for (const TorchOperation& row : torch_operations())
    if (row.pattern.find('*') == std::string_view::npos) rows.emplace(row.pattern, &row);
  return rows;
}

}  // namespace

std::span<const TorchOperation> torch_operations() {
  static const std::vector<TorchOperation> kAll = operations();
  return kAll;
}

const TorchOperation& torch_operation(std::string_view name) {
  static const auto kExact = exact_rows();
  std::string_view in_place = name;
  if (name.starts_with("aten::") && name.ends_with('_') && !name.ends_with("__"))
    in_place.remove_suffix(1);
  for (const std::string_view each : {name, in_place})
    if (const auto found = kExact.find(each); found != kExact.end()) return *found->second;
  for (const TorchOperation& row : torch_operations())
    if (matches_pattern(row.pattern, in_place)) return row;
  return kNone;
}

}  // namespace ridge::record
