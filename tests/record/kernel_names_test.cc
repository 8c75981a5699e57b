// SPDX-License-Identifier: Apache-2.0
// The ops of kernels by their names, as libraries, compilers and servers give them.
#include "record/import/kernel_names.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace ridge::record {
namespace {

void expect_op(std::string_view op, const std::vector<std::string_view>& kernels) {
  for (const std::string_view each : kernels) EXPECT_EQ(kernel_op(each), op) << each;
}

TEST(KernelNames, Attention) {
  expect_op(
      "flash_attention",
      {"void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, false, false, cutlass::bfloat16_t>>(flash::Flash_fwd_params)",
       "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(flash::Flash_fwd_params)",
       "void flash::flash_fwd_splitkv_combine_kernel<x>",
       "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple>>>>",
       "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple>>",
       "void flash::prepare_varlen_num_blocks_kernel<1>",
       "kernel_cutlass_flash_fwd_sm100_FlashAttentionForwardSm100_object_at__tensor000o11101213",
       "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
       "void pytorch_flash::flash_fwd_kernel<>",
       "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64_1x1x1_kernel0_0",
       "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<>>",
       "void flashinfer::BatchDecodeWithPagedKVCacheKernel<>",
       "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>",
       "void flashinfer::SinglePrefillWithKVCacheKernel<>",
       "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
       "_fwd_kernel_stage1",
       "_fwd_grouped_kernel_stage1",
       "_fwd_kernel_stage2",
       "_attn_fwd",
       "attn_fwd.kd",
       "aiter::fmha_fwd_hd128_bf16_causal",
       "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<>>",
       "mla_a16w16_bf16_2tg_ps_asm",
       "kn_mla_reduce_v1_ps",
       "void vllm::paged_attention_v2_kernel<unsigned short>",
       "void vllm::paged_attention_v2_reduce_kernel",
       "paged_attention_ll4mi_QKV_mfma16_kernel<>",
       "kernel_unified_attention_2d",
       "void vllm::merge_attn_states_kernel<>",
       "micro_sdpa",
       "triton_tem_fused_flex_attention_1",
       "triton_flex_attention",
       "kernel_mha"});
  expect_op(
      "flash_attention_backward",
      {"void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<x>",
       "void flash::flash_bwd_convert_dq_kernel<x>", "void flash::flash_bwd_dot_do_o_kernel<true>",
       "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<...>>>",
       "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_128x64x64_1x1x1_kernel0_0",
       "_attn_bwd_dkdv", "bwd_kernel_dk_dv",
       "void ck_tile::kentry<2, ck_tile::FmhaBwdDQDKDVKernel<>>",
       "triton_tem_fused_flex_attention_backward_7"});
  expect_op("kv_append", {"void vllm::reshape_and_cache_flash_kernel<>",
                          "void vllm::concat_and_cache_mla_kernel<>"});
}

TEST(KernelNames, ProductsAndExperts) {
  expect_op(
      "matmul",
      {"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT",
       "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
       "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
       "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x64_32x4_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x64_32x4_tn_align8::Params)",
       "void marlin::Marlin<__nv_bfloat16>",
       "void gptq_marlin::Marlin<>",
       "void machete::kernel<>",
       "void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise>",
       "deep_gemm::sm90_fp8_gemm_1d2d_impl<>",
       "void deep_gemm::fp8_gemm_kernel<4096u>",
       "_w8a8_block_fp8_matmul",
       "_w8a8_triton_block_scaled_mm",
       "void wvSplitK_hf_sml_<>",
       "void wvSplitKQ_hf_<>",
       "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_SE",
       "Custom_Cijk_Alik_Bljk_BBS_BH",
       "void gemv2T_kernel_val<int, int, __nv_bfloat16>",
       "void gemmk1_kernel<>",
       "void dot_kernel<float, 128, 0>",
       "void reduce_1Block_kernel<float, 128, 7>",
       "void splitKreduce_kernel<32, 16, int>",
       "void gemmSN_TN_kernel<>",
       "void cublasLt::splitKreduce_kernel<>",
       "volta_sgemm_128x64_nn",
       "maxwell_fp16_sgemm",
       "void rocblas_gemvn_kernel<>",
       "void magma_sgemmEx_kernel<>",
       "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et64x8_m64x8x16",
       "bmm_E4m3_E2m1",
       "matmul_kernel",
       "gemm_kernel",
       "xe_gemm",
       "jit:gemm:any",
       "triton_tem_fused_mm_5",
       "triton_mm",
       "void kgemm_4bit_inference_naive",
       "awq_gemm_kernel"});
  expect_op(
      "experts",
      {"void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>", "fused_moe_kernel",
       "fused_moe_kernel_gptq_awq", "_ZN2ck...moe_gemm", "void marlin_moe_wna16::Marlin<>",
       "void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<>",
       "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<>",
       "void moe::dev::finalize::finalizeKernel<>", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
       "_p_matmul_ogs_NTN_fp16xfp16xmxfp4_128x128x128x1", "_fused_moe_lora"});
  expect_op("sort", {"void vllm::moe::topkGatingSoftmax<>",
                     "void vllm::moe::moe_align_block_size_kernel<int>",
                     "void vllm::moe::count_and_sort_expert_tokens_kernel<int>",
                     "void tensorrt_llm::kernels::moe::fusedBuildExpertMapsSortFirstTokenKernel<>",
                     "void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<>",
                     "void at::native::sbtopk::gatherTopK<>", "void at::native::radixSortKVInPlace",
                     "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<>",
                     "void at::native::bitonicSortKVInPlace<>"});
  expect_op("glu", {"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>",
                    "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>",
                    "void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<>",
                    "_swiglu_forward_kernel"});
}

TEST(KernelNames, Convolutions) {
  expect_op("convolution",
            {"cudnn_infer_ampere_scudnn_128x32_relu_medium_nn_v1", "ampere_scudnn_winograd_128x128",
             "sm80_xmma_fprop_implicit_gemm_f16f16", "implicit_convolve_sgemm",
             "void implicit_convolve_sgemm<float>",
             "void cudnn::winograd_nonfused::winogradForwardData4x4",
             "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<>",
             "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", "igemm_fwd_gtcx3_nhwc_fp16",
             "naive_conv_ab_nonpacked_fwd_nchw", "void causal_conv1d_fwd_kernel<>",
             "_causal_conv1d_update_kernel"});
  expect_op("convolution_backward",
            {"sm90_xmma_dgrad_implicit_gemm", "igemm_bwd_gtcx2_nhwc", "igemm_wrw_gtcx2_nhwc"});
  expect_op(
      "batch_norm",
      {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<>", "void cudnn::batchnorm_fwtr_nhwc_semiPersist",
       "void batch_norm_collect_statistics_channels_last_kernel",
       "void at::native::batch_norm_transform_input_kernel", "MIOpenBatchNormFwdTrainSpatial"});
  expect_op("batch_norm_backward",
            {"void cudnn::batchnorm_bwtr_nhwc_semiPersist", "MIOpenBatchNormBwdSpatial"});
  expect_op("max_pool",
            {"void at::native::(anonymous namespace)::max_pool_forward_nhwc<>", "mloPoolingG"});
  expect_op("max_pool_backward", {"void at::native::max_pool_backward_nhwc"});
  expect_op("average_pool", {"void at::native::adaptive_average_pool<>"});
  expect_op("upsample", {"void at::native::upsample_bilinear2d_out_frame<>",
                         "void at::native::upsample_nearest2d_nhwc_out_frame"});
  expect_op("fft", {"void regular_fft<>", "void vector_fft<>", "void vkfft"});
}

TEST(KernelNames, Norms) {
  expect_op("rms_norm",
            {"void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>",
             "void flashinfer::norm::FusedAddRMSNormKernel<8u>",
             "void vllm::rms_norm_kernel<c10::BFloat16>",
             "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>", "_rms_norm_forward_kernel",
             "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<>"});
  expect_op("rms_norm_backward",
            {"_rms_norm_backward_kernel",
             "void transformer_engine::normalization::rmsnorm_bwd_tuned_kernel<>"});
  expect_op("layer_norm",
            {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<>",
             "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>",
             "_layer_norm_fwd_1pass_kernel",
             "void transformer_engine::normalization::ln_fwd_tuned_kernel",
             "void at::native::RowwiseMomentsCUDAKernel"});
  expect_op("layer_norm_backward",
            {"void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<>",
             "void at::native::(anonymous namespace)::cuComputeGradInput<>",
             "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<>",
             "void at::native::(anonymous namespace)::cuComputePartGradGammaBeta",
             "_layer_norm_bwd_kernel", "void at::native::gammabeta"});
  expect_op("softmax", {"void flashinfer::sampling::OnlineSoftmaxFusedKernel<>",
                        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8>",
                        "void at::native::(anonymous namespace)::softmax_warp_forward<>",
                        "void (anonymous namespace)::softmax_warp"});
  expect_op("softmax_backward", {"void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8>",
                                 "void softmax_warp_backward<>"});
  expect_op("softmax_cross_entropy",
            {"void at::native::(anonymous namespace)::cross_entropy",
             "void liger_cross_entropy_kernel", "liger_cross_entropy_kernel"});
  expect_op("nll_loss",
            {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<>"});
  expect_op("rope", {"void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<>",
                     "void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "_triton_rope",
                     "_rope_embedding", "void transformer_engine::fused_rope_forward_kernel"});
}

TEST(KernelNames, Collectives) {
  expect_op("collective",
            {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
             "ncclKernel_SendRecv", "ncclSymkDevKernel_AllReduce_RSxLD_AGxST",
             "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>",
             "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
             "two_shot_all_reduce_kernel", "multimem_all_reduce_kernel",
             "void deep_ep::intranode::dispatch<768>", "void deep_ep::internode_ll::combine<>",
             "nvshmemi_transfer", "oneccl_allreduce"});
}

TEST(KernelNames, Moves) {
  expect_op("copy",
            {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>",
             "void cudnn::ops::nchwToNhwcKernel<>", "Memcpy HtoD (Pinned -> Device)",
             "CopyDeviceToHost", "__amd_rocclr_copyBuffer", "MEMORY_COPY_DEVICE_TO_HOST"});
  expect_op(
      "fill",
      {"void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<>",
       "void at::native::distribution_nullary", "Memset (Device)",
       "__amd_rocclr_fillBufferAligned.kd", "void elementwise_kernel_with_index<int>"});
  expect_op("gather", {"void at::native::indexSelectLargeIndex<>",
                       "void at::native::(anonymous namespace)::indexFuncLargeIndex",
                       "void at::native::index_elementwise_kernel<128, 4>"});
  expect_op("scatter", {"void at::native::_scatter_gather_elementwise_kernel<>"});
  expect_op("cast",
            {"void vllm::awq::dequantize_weights", "void vllm::scaled_fp8_quant_kernel_strided",
             "void vllm::dynamic_per_token_scaled_fp8_quant_kernel", "void vllm::cvt_fp16_to_fp4<>",
             "per_token_group_quant_8bit_kernel", "_per_token_group_quant_fp8",
             "void transformer_engine::(anonymous namespace)::cast_transpose_kernel",
             "kQuantizeBlockwise", "void kDequantizeBlockwise<>"});
  expect_op("embedding_backward",
            {"void at::native::embedding_backward_feature_kernel<>",
             "void at::native::compute_grad_weight<>", "void at::native::sum_and_scatter<>",
             "void at::native::krn_partials_per_segment"});
}

TEST(KernelNames, Others) {
  expect_op("sample", {"void flashinfer::sampling::TopKTopPSamplingFromProbKernel<>"});
  expect_op(
      "pointwise",
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
       "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::BinaryFunctor>>",
       "void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor>",
       "void dpct_elementwise",
       "at::native::xpu::VectorizedElementwiseKernel<4, at::AtenIpexTypeXPU::impl::AddFunctor>"});
  expect_op(
      "adamw",
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>",
       "FusedAdamCUDA"});
  expect_op("reduce_norm", {"void at::native::multi_tensor_apply_kernel<LpNormFunctor>"});
  expect_op("reduce_sum",
            {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>",
             "void at_cuda_detail::cub::DeviceReduceKernel<>", "gridwise_generic_reduce"});
  expect_op("", {"void transformer_engine::(anonymous namespace)::gated_kernel<>",
                 "void rocprim::detail::trampoline_kernel<>", "ref_sum",
                 "void at::native::amp_non_finite_check_and_unscale",
                 "void at::native::(anonymous namespace)::compare",
                 "resolve_future_token_ids_kernel", "create_flashinfer_kv_indices_triton",
                 "compute_position_kernel", "void at::native::mse"});
  expect_op("scan",
            {"void at_cuda_detail::cub::DeviceScanKernel<>",
             "void at::native::tensor_kernel_scan_innermost_dim<>", "_chunk_scan_fwd_kernel",
             "void selective_scan_fwd_kernel<>", "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
             "fused_recurrent_gated_delta_rule_fwd_kernel"});
  expect_op("dropout", {"void at::native::fused_dropout_kernel_vec<>"});
  expect_op("causal_mask", {"void at::native::triu_tril_kernel<>"});
  expect_op("generated_pointwise", {"triton_poi_fused_add_0", "triton_red_fused_mean_1",
                                    "triton_per_fused_", "triton_for_fused_0", "triton_helper"});
}

}  // namespace
}  // namespace ridge::record
