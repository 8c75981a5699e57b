// SPDX-License-Identifier: Apache-2.0
// The tables of an inference study, for the terminal and for Markdown.
#pragma once

#include "base/terminal.h"
#include "record/inference_record.h"

namespace ridge::report {

// Prefills and decodes by level, batch and length.
Table phase_table(const record::InferenceRecord& study);
// What they call, move and hold, and whether the logits are the same at each level.
Table resource_table(const record::InferenceRecord& study);
// Attention modules and MLPs of the runs: arithmetic,
// bytes, and where they stand under the roofline.
Table module_table(const record::InferenceRecord& study);
Table cache_gain_table(const record::InferenceRecord& study);
Table latency_table(const record::InferenceRecord& study);
Table attention_table(const record::InferenceRecord& study);

}  // namespace ridge::report
