// SPDX-License-Identifier: Apache-2.0
// Columns of operators.csv.
#include "report/operators_csv.h"

#include <fmt/format.h>

#include "record/operation_table.h"

namespace ridge::report {
namespace {

constexpr std::string_view kHeader =
    "model,level,pass,dtype,batch_size,seq_len,micro_batches,phase,scope,op,nodes,calls,time_ns,"
    "median_ns,low_ns,"
    "high_ns,share,flops,macs,read_bytes,written_bytes,flops_per_byte,flops_per_s,bytes_per_s,"
    "bound,predicted_ns,"
    "prediction_error\r\n";

std::string line(const record::Setting& s, const record::OperationRow& row) {
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{:.0f},{:.0f},{:.0f},{:.6f},{},{},{},{},{:.4f},{:.0f}"
      ",{:.0f},{},{:.0f},"
      "{:.4f}\r\n",
      csv_field(s.model), csv_field(s.level), csv_field(s.switches), csv_field(s.dtype),
      s.batch_size, s.sequence, s.micro_batches, csv_field(row.phase), csv_field(row.scope),
      csv_field(row.op), row.nodes, row.calls, row.time_ns, row.samples.median, row.samples.low,
      row.samples.high, row.share, row.work.flops, row.work.macs, row.read_bytes, row.written_bytes,
      row.intensity(), row.flops_per_ns() * 1e9, row.bytes_per_ns() * 1e9, name(row.bound),
      row.predicted_ns, row.error());
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string operators_csv(const record::LabRecord& lab) {
  std::string text(kHeader);
  for (size_t index : lab.detailed) {
    const record::RunRecord& run = lab.runs[index];
    for (const record::OperationRow& row : table_by_place(run.step, lab.limits()).rows)
      text += line(run.setting, row);
  }
  return text;
}

}  // namespace ridge::report
