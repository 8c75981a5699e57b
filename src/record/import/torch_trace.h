// SPDX-License-Identifier: Apache-2.0
// Reads a trace of torch.profiler (Kineto's Chrome trace), event by event. It decides nothing about
// steps or operations.
#pragma once

#include "files/block_reader.h"
#include "record/import/foreign_trace.h"

namespace ridge::record {

// Throws a bad-file Error for what is no such trace, and for times and shapes that cannot be.
ForeignTrace read_torch_trace(files::BlockReader& reader);

}  // namespace ridge::record
