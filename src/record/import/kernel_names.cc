// SPDX-License-Identifier: Apache-2.0
// Words in the names of kernels, as the field's libraries and compilers give them: cuBLAS, cuDNN,
// CUTLASS, FlashAttention, FlashInfer, Triton, TorchInductor, hipBLASLt, MIOpen, Composable Kernel,
// AITER, oneDNN, NCCL, PyTorch, vLLM, SGLang, TensorRT-LLM, Transformer Engine.
#include "record/import/kernel_names.h"

#include <array>
#include <string>
#include <utility>

#include "base/name_pattern.h"

namespace ridge::record {
namespace {

// Patterns in lower case, with ", " between two. The first row that matches counts, so that what
// is special stands before what is general, and a backward pass before its forward pass.
struct KernelNames {
  std::string_view op, patterns;
};
constexpr auto kKernels = std::to_array<KernelNames>({
    // TorchInductor writes the names of what it fused into those of its kernels.
    {"generated_pointwise", "triton_poi_*, triton_red_*, triton_per_*, triton_for_*, triton_unk_*"},
    {"flash_attention_backward",
     "triton_tem_*attention*backward*, triton_flex_attention_backward*"},
    {"flash_attention", "triton_tem_*attention*, triton_flex_attention*, triton_flex_decoding*"},
    {"convolution", "triton_tem_*conv*, triton_convolution*"},
    {"matmul", "triton_tem_*, triton_mm*, triton_bmm*, triton_addmm*, triton_scaled_mm*"},

    {"collective",
     "*nccl*, *rccl*, *oneccl*, *mscclpp*, *allreduce*, *all_reduce*, *allgather*, *all_gather*, "
     "*reducescatter*, *reduce_scatter*, *alltoall*, *all_to_all*, *cross_device_reduce*, "
     "*deep_ep::*, *nvshmem*, *rocshmem*"},
    {"sleep", "*spin_kernel*"},

    // Servers.
    {"kv_append",
     "*reshape_and_cache*, *concat_and_cache*, *store_kv*cache*, *store_cache*, *set_kv_buffer*, "
     "*set_mla_kv*, *appendpagedkv*, *append_paged_kv*, *kv_cache_update*"},
    {"sort",
     "*topkgating*, *topk_gating*, *moe_align*, *expert_tokens*, *expertmaps*, *moe::*routing*, "
     "*combined_routing*, *bitmatrix*, *grouped_topk*, *moe*topk*"},
    {"experts",
     "*matmul_ogs*, *fused_moe*, *fusedmoe*, *moe*gemm*, *moe*marlin*, *marlin_moe*, *moe_wna16*, "
     "*finalizemoe*, *finalize_matmul*, *moe*finalize*, *expandinputrows*, *moe_sum*, *moe_kernel*, *moe*stage*, "
     "bmm_*dynbatch*"},

    // Attention.
    {"flash_attention_backward",
     "*flash*bwd*, *flash*backward*, *fmha*bwd*, *fmha_cutlassb*, *fmha*backward*, *sdpa*bprop*, "
     "*sdpa*backward*, *attn*bwd*, *attn*backward*, *attention*bwd*, *attention*backward*, "
     "*bwd_kernel_dk_dv*, *bwd_kernel_dq*, bwd_kernel_fuse*, *bwd_dkdv*, *bwd_dq*, *dot_do_o*, *convert_dq_*"},
    {"flash_attention",
     "*flash_fwd*, *flash*attn*, *flash*attention*, *flash::*, *flash_mla*, *flashmla*, *fmha*, "
     "*sdpa*, *attn_fwd*, *fwd_attn*, *attention*, *attn_states*, *kvcachekernel*, "
     "*mergestates*, *merge_state*, *_mha_*, mha_*, *_mha, *mla_*, *_mla*, *reduce_segments*, "
     "_fwd_kernel, *_kernel_stage1, *_kernel_stage2, sage_*, *sageattn*"},

    // Convolutions, and norms over channels.
    {"convolution_backward",
     "*dgrad*, *wgrad*, *convolve*bwd*, *conv*backward*, *conv*bwd*, *conv*wrw*, igemm_bwd*, "
     "igemm_wrw*"},
    {"convolution",
     "*fprop*, *convol*, *conv_*, *_conv1d*, *_conv2d*, *_conv3d*, *_conv, *conv1d_*, *conv2d_*, "
     "*conv3d_*, *asmconv*, *scudnn*, *cudnn*relu*, *conv*fwd*, igemm_fwd*, *winograd*"},
    {"batch_norm_backward",
     "*bn_bw*, *batchnorm*bw*, *batchnorm*backward*, *batch_norm_backward*, *bnbwd*"},
    {"batch_norm", "*bn_fw*, *batchnorm*, *batch_norm*, *bnfwd*"},
    {"rnn", "*lstm*, *rnn*, *gru_*, *_gru*"},

    // Norms over rows, and what models have beside products.
    {"rms_norm_backward", "*rms*norm*bwd*, *rms*norm*backward*, *rms*norm*grad*"},
    {"rms_norm", "*rmsnorm*, *rms_norm*"},
    {"layer_norm_backward",
     "*layer_norm*grad*, *layer*norm*bwd*, *layer*norm*backward*, *gammabeta*, *computegradinput*, "
     "*::ln_bwd*"},
    {"group_norm_backward", "*group*norm*backward*, *group*norm*bwd*"},
    {"group_norm", "*groupnorm*, *group_norm*"},
    {"layer_norm", "*layer_norm*, *layernorm*, *rowwisemoments*, *::ln_fwd*"},
    {"rope", "*rotary*, *_rope_*, *_rope, *rope_fwd*, *rope_bwd*, *::rope*, *ropekernel*"},
    {"softmax_cross_entropy", "*cross_entropy*, *crossentropy*"},
    {"nll_loss", "*nll_loss*"},

    // Products. A gate that is fused into one is a part of it.
    {"matmul",
     "*gemm*, *gemv*, *nvjet*, cijk_*, *_cijk_*, *matmul*, *scaled_mm*, *splitk*, *marlin*, "
     "*machete*, bmm_*, *dot_kernel*, *reduce_1block*, *ampere*16816*, *hmma*, *epilogue::impl::globalkernel*"},
    {"glu", "*act_and_mul*, *silu_and_mul*, *gelu_and_mul*, *swiglu*, *geglu*, *doactivation*"},
    {"matmul", "*cutlass*"},

    // Optimizers over lists of tensors, and norms of these.
    {"reduce_norm", "*multi_tensor*norm*"},
    {"adamw", "*adam*"},
    {"sgd", "*multi_tensor*sgd*"},
    {"pointwise", "*multi_tensor_apply*"},

    {"softmax_backward", "*softmax*backward*, *softmax*bwd*"},
    {"softmax", "*softmax*"},
    {"dropout", "*dropout*"},
    {"embedding_backward",
     "*embedding*backward*, *embedding*grad*, *compute_grad_weight*, *sum_and_scatter*, "
     "*partials_per_segment*, *partial_segment*, *to_segment_idx*"},
    {"embedding", "*embedding*"},
    {"concat", "*catarraybatchedcopy*"},
    {"sample", "*sampling*, *multinomial*"},
    {"sort", "*topk*, *sort*"},

    {"causal_mask", "*triu_tril*"},
    {"upsample_backward", "*upsample*backward*"},
    {"upsample", "*upsample*"},
    {"max_pool_backward", "*max_pool*backward*, *maxpool*backward*"},
    {"max_pool", "*max_pool*, *maxpool*, *mlopooling*"},
    {"average_pool_backward", "*avg_pool*backward*, *average_*pool*backward*, *average_gradinput*"},
    {"average_pool", "*avg_pool*, *avgpool*, *average_pool*, *averagepool*"},
    {"fft", "*_fft*, *fft_*, *vkfft*"},
    {"fill",
     "*fillfunctor*, *elementwise_kernel_with_index*, *distribution_*, *memset*, *fillbuffer*, *philox*"},
    {"scatter", "*scatter*"},
    {"gather", "*gather*, *index*"},
    {"copy",
     "*direct_copy*, *memcpy*, *copybuffer*, copy*to*, memory_copy*, *nchwtonhwc*, *nhwctonchw*, *copy_async*"},
    {"reduce_sum", "*reduce_kernel*"},
    {"pointwise",
     "*elementwise*, *subtensorop*, *optensor*, *amp_update_scale*, *rocprim*transform*, "
     "*thrust*transform*, *cub*transform*"},

    // Generally.
    {"cast", "*quant*, *cvt_fp*, *cast_transpose*"},
    {"scan", "*scan*, *delta_rule*, *ssd_*"},
    {"generated_pointwise", "triton_*"},
    {"reduce_sum", "*devicereduce*, *generic_reduce*, *reduction*, *_reduce_*"},
    {"copy", "*transpose*, *permute*, *copy_kernel*"},
});

// The parts of a list that ", " stands between, each once.
template <typename Take>
void each_part(std::string_view list, Take take) {
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(", "));
    if (take(part)) return;
    list.remove_prefix(part.size() + (part.size() < list.size() ? 2 : 0));
  }
}

}  // namespace

std::string_view kernel_op(std::string_view kernel) {
  std::string name(kernel);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::string_view found;
  for (const KernelNames& row : kKernels) {
    each_part(row.patterns, [&](std::string_view pattern) {
      if (matches_pattern(pattern, name)) found = row.op;
      return !found.empty();
    });
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace ridge::record
