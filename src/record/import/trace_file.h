// SPDX-License-Identifier: Apache-2.0
// Reads a trace of any known kind.
#pragma once

#include <filesystem>

#include "record/import/foreign_trace.h"

namespace ridge::record {

// Tells the kind by the file's first bytes, unpacked: a SQLite database, rocprofv3's JSON, text in
// rows, or else a trace of torch.profiler. Throws as the readers do (torch_trace.h, kernel_trace.h).
ForeignTrace read_trace(const std::filesystem::path& path);

}  // namespace ridge::record
