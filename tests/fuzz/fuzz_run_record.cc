// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a run's summary. It is refused as a bad file, or its numbers are
// finite and can be compared and printed.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/printable.h"
#include "files/json.h"
#include "fuzz/refusal.h"
#include "record/summary_file.h"
#include "report/tables.h"

namespace {

using namespace ridge;  // NOLINT: a program of one file
using fuzz::expect;

void expect_printable(const std::string& text) {
  for (const char c : text) expect(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

void use(const Summary& samples) {
  expect(samples.count >= 0 && std::isfinite(samples.median) && std::isfinite(samples.low) &&
         std::isfinite(samples.high));
  expect_printable(report::time_cell(samples));
  expect_printable(report::interval_cell(samples));
}

void use(const record::SummaryFile& file) {
  for (const record::SummaryRun& run : file.runs) {
    expect_printable(terminal_safe(run.setting.str()));
    use(run.step);
    expect_printable(report::prediction_cell(run.predicted_ns, run.step.median));
    for (const record::SummaryOperation& op : run.by_op) {
      use(op.samples);
      expect(overlap(op.samples, run.step) == overlap(run.step, op.samples));
      expect_printable(terminal_safe(op.key));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::allow_refusal([&] {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    use(record::read_summary(
        record::current_summary(files::parse_json(text, "fuzz.json"), "fuzz.json"), "fuzz.json"));
  });
  return 0;
}
