// SPDX-License-Identifier: Apache-2.0
// Builds computational_intensity.json.
#include "report/performance_summary.h"

#include "record/operation_table.h"
#include "report/json_text.h"

namespace ridge::report {
namespace {

Json row_json(const record::OperationRow& row, const cost::Ceilings* ceilings, DType dtype) {
  Json json = to_json(row, "key flops");
  json["bytes"] = row.bytes();
  add(json, to_json(row), "flops_per_byte flops_per_s bytes_per_s bound");
  if (ceilings != nullptr && row.intensity() > 0) {
    const cost::Roof roof = cost::roof(*ceilings, dtype, row.work, row.bytes());
    json["roof"] = roof.name;
    json["attainable_flops_per_s"] = roof.flops_per_ns * 1e9;
    json["share_of_attainable"] = record::ratio(row.flops_per_ns(), roof.flops_per_ns);
  }
  return json;
}

Json run_json(const record::LabRecord& lab, const record::RunRecord& run) {
  DType dtype = product_dtype(run.setting);
  Json json = to_json(run, "setting planned_bytes compulsory_bytes");
  json["flops_per_planned_byte"] = record::ratio(run.executed.flops, run.planned_bytes);
  json["flops_per_compulsory_byte"] = record::ratio(run.executed.flops, run.compulsory_bytes);
  if (lab.ceilings) json["ridge_point_flops_per_byte"] = cost::ridge_point(*lab.ceilings, dtype);
  for (const record::OperationTable& table :
       {table_by_op(run.step, lab.limits()), table_by_scope(run.step, lab.limits())}) {
    json["by_" + table.title] =
        json_list(table.rows, [&](const auto& row) { return row_json(row, lab.limits(), dtype); });
  }
  return json;
}

}  // namespace

std::string computational_intensity(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["bytes"] =
      "planned: each operand of each kernel once; compulsory: the inputs and outputs of the graph "
      "once";
  json["roof"] =
      "attainable rates assume operands in memory; operations with operands in a cache may exceed "
      "them";
  json["runs"] =
      json_list(lab.detailed, [&](size_t index) { return run_json(lab, lab.runs[index]); });
  return json_text(json);
}

}  // namespace ridge::report
