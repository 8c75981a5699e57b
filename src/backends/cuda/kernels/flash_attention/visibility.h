// SPDX-License-Identifier: Apache-2.0
// Launches of every family ask these about their extents, on the host. Not part of the interface
// (flash_attention.h).
#pragma once

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/flash_attention/schedule.h"

namespace ridge::backends::cuda {

Visibility visibility_of(const AttentionExtents& extents);  // without documents, for counts
DocumentVisibility visibility_with_documents(const AttentionExtents& extents);

// The pairs that `heads` heads visit if tiles of `own` queries iterate over `streamed` keys at a
// time in the query pass, and tiles of keys iterate over queries in the key pass.
AttentionPairs visited_pairs(const Visibility& visibility, int own, int streamed, int64_t heads);

}  // namespace ridge::backends::cuda
