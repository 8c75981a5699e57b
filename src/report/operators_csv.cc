// SPDX-License-Identifier: Apache-2.0
// Columns of operators.csv.
#include "report/operators_csv.h"

#include <fmt/format.h>

namespace ridge::report {
namespace {

constexpr std::string_view kColumns =
    "model level pass dtype batch_size seq_len micro_batches phase scope op nodes calls time_ns "
    "median_ns:.0f low_ns:.0f high_ns:.0f share:.6f flops macs read_bytes written_bytes "
    "flops_per_byte:.4f flops_per_s:.0f bytes_per_s:.0f bound predicted_ns:.0f "
    "prediction_error:.4f";

std::string cell(const Json& value, const std::string& format) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_field(value.get_ref<const std::string&>());
  if (value.is_number_integer()) return value.dump();
  return fmt::format(fmt::runtime("{" + format + "}"), value.get<double>());
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

std::string csv_header(std::string_view columns) {
  std::string text;
  for (const Choice& each : choices(columns)) text += "," + each.name;
  return text.substr(1);
}

std::string csv_line(const Json& values, std::string_view columns) {
  std::string text;
  for (const Choice& each : choices(columns))
    text += "," + cell(values.value(each.key, Json()), each.format);
  return text.substr(1);
}

std::string operators_csv(const record::LabRecord& lab) {
  std::string text = csv_header(kColumns) + "\r\n";
  for (size_t index : lab.detailed) {
    const record::RunRecord& run = lab.runs[index];
    for (const record::OperationRow& row : table_by_place(run.step, lab.limits()).rows) {
      Json values = to_json(run.setting);
      values.update(to_json(row));
      values.update(to_json(row.samples));
      text += csv_line(values, kColumns) + "\r\n";
    }
  }
  return text;
}

}  // namespace ridge::report
