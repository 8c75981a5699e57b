// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a trace of torch.profiler. It is refused as a bad file, or becomes
// a run whose times add up.
#include <cstddef>
#include <cstdint>
#include <string>

#include "files/block_reader.h"
#include "fuzz/refusal.h"
#include "record/import/imported_run.h"
#include "record/import/trace_file.h"
#include "record/operation_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ridge;  // NOLINT: a program of one file
  fuzz::allow_refusal([&] {
    files::BlockReader reader(std::string(reinterpret_cast<const char*>(data), size), "fuzz.json");
    const record::ForeignTrace trace = record::read_torch_trace(reader);
    const record::RunRecord run =
        record::imported_run(trace, record::imported_steps(trace), nullptr);
    const record::StepRecord& step = run.step;
    fuzz::expect(step.kernel_ns - step.overlapped_ns + step.idle_ns + step.host_ns == step.wall_ns);
    fuzz::expect(record::table_by_kind(step, nullptr).total.time_ns == step.kernel_ns);
  });
  return 0;
}
