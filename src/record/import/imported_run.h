// SPDX-License-Identifier: Apache-2.0
// The record of a run, made of an imported trace's steps, so that reports and comparisons treat it
// as one of Ridge's own.
#pragma once

#include "cost/ceilings.h"
#include "record/import/imported_setting.h"
#include "record/import/imported_steps.h"
#include "record/lab_record.h"

namespace ridge::record {

// Operations at the same place of each step (phase, scope, op, how many of these came before) are
// one node; its counts are means over the steps. `ceilings` may be null; if not, each node has the
// limit of the roofline as its prediction. Throws a bad-file Error if counts do not fit in 63 bits,
// or if too many operations run at once.
RunRecord imported_run(const ForeignTrace& trace,
                       const ImportedSteps& steps,
                       const cost::Ceilings* ceilings);

}  // namespace ridge::record
