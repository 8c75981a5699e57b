// SPDX-License-Identifier: Apache-2.0
// Tables of an inference study, for the terminal and for Markdown.
#pragma once

#include "record/inference_record.h"
#include "report/terminal.h"

namespace ridge::report {

// Prefills and decodes by level, batch size and length.
Table phase_table(const record::InferenceRecord& study);
// The shares of the rates of the machine, whose ceilings are known.
Table rate_shares_table(const record::InferenceRecord& study);
// Launches, bytes and memory of each run, and the max abs difference of its logits from the
// reference run's.
Table resource_table(const record::InferenceRecord& study);
// Attention modules and MLPs of the runs: arithmetic, bytes, and their position under the roofline.
Table module_table(const record::InferenceRecord& study);
// Whether the module table has a share of a roof over 100%.
bool is_over_roof(const record::InferenceRecord& study);
Table cache_gain_table(const record::InferenceRecord& study);
Table latency_table(const record::InferenceRecord& study);
Table attention_table(const record::InferenceRecord& study);

}  // namespace ridge::report
