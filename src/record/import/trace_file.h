// SPDX-License-Identifier: Apache-2.0
// Reads a trace of any known kind: of torch.profiler (Kineto's Chrome trace), or one of which only
// kernels, their names, times and launches are known: Nsight Systems' SQLite export, and the JSON,
// CSV and SQLite files of rocprofv3.
#pragma once

#include <filesystem>

#include "files/block_reader.h"
#include "record/import/foreign_trace.h"

namespace ridge::record {

// Tells the kind by the file's first bytes, unpacked: a SQLite database, rocprofv3's JSON, text in
// rows, or else a trace of torch.profiler. Throws as the readers below do; the Error for a report
// of Nsight Systems names the command that exports it.
ForeignTrace read_trace(const std::filesystem::path& path);

// Throws a bad-file Error for what is no such trace, and for times and shapes that cannot be.
ForeignTrace read_torch_trace(files::BlockReader& reader);

// All throw bad-file Errors for what is no such trace, and for times that cannot be.

// Kernels, copies and fills (CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET), the calls that launch
// them (_RUNTIME), and NVTX ranges, which become scopes.
ForeignTrace read_nsight_export(const std::filesystem::path& path);

// The kernel dispatches and memory copies of the database that rocprofv3 writes by default.
ForeignTrace read_rocprof_database(const std::filesystem::path& path);

// Calls one of the two above, by the tables.
ForeignTrace read_database(const std::filesystem::path& path);

// The kernel dispatches and memory copies of `rocprofv3 --kernel-trace --output-format json`. The
// whole document is in memory.
ForeignTrace read_rocprof_json(files::BlockReader& reader);

// NAME_kernel_trace.csv, row by row; also the tables of older versions (KernelName, BeginNs, EndNs)
// and of `nsys stats --report cuda_gpu_trace --format csv`.
ForeignTrace read_rocprof_csv(files::BlockReader& reader);

}  // namespace ridge::record
