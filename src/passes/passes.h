// SPDX-License-Identifier: Apache-2.0
// The passes by name; pipeline.cc orders them.
#pragma once

#include "passes/pass.h"

namespace ridge::passes {

const Pass& store_bf16_pass();
const Pass& store_f32_pass();
const Pass& merge_qkv_pass();
const Pass& merge_gate_up_pass();
const Pass& group_products_pass();
const Pass& quantize_activations_pass();
const Pass& pack_weights_pass();
const Pass& flash_attention_pass();
const Pass& fuse_softmax_cross_entropy_pass();
const Pass& fuse_rms_norm_pass();
const Pass& fuse_rope_pass();
const Pass& fuse_glu_pass();
const Pass& autocast_bf16_pass();
const Pass& expand_pass();
const Pass& recompute_pass();
const Pass& fuse_adamw_pass();
const Pass& fuse_rope_append_pass();
const Pass& fuse_append_attention_pass();
const Pass& fuse_row_products_pass();
const Pass& own_products_pass();
const Pass& transpose_operands_pass();
const Pass& generate_pointwise_pass();
const Pass& legalize_pass();

}  // namespace ridge::passes
