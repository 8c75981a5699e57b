// SPDX-License-Identifier: Apache-2.0
// Rows of the inference tables.
#include "report/inference_report.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"
#include "report/rate_shares.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string ratio(double before_ns, double after_ns) {
  return before_ns > 0 && after_ns > 0 ? fmt::format("{:.2f}x", before_ns / after_ns) : "-";
}

std::string gap(double difference) {
  return difference == 0 ? "0" : fmt::format("{:.0e}", difference);
}

// The name of the module's roof, and the module's share of it; 0 if it is not known.
std::pair<std::string, double> share_of_roof(const record::LabRecord& lab,
                                             const record::RunRecord& run,
                                             const record::ModuleRecord& module) {
  if (!lab.ceilings || !(module.intensity() > 0)) return {"-", 0};
  const cost::Roof roof =
      cost::roof(*lab.ceilings, product_dtype(run.setting), module.work, module.compulsory_bytes);
  return {roof.name, roof.flops_per_ns > 0 ? module.flops_per_ns() / roof.flops_per_ns : 0};
}

// One row per run, with a rule between groups of runs that are compared with each other.
template <typename Cells>
Table run_table(const record::LabRecord& lab, const std::string& columns, const Cells& cells) {
  Table table("<phase | <level | batch | length | " + columns);
  const record::RunRecord* last = nullptr;
  for (const record::RunRecord& run : lab.runs) {
    const record::RunRecord& first = record::reference_run(lab, run);
    if (last != nullptr && &first != last) table.add_rule();
    last = &first;
    std::vector<std::string> row{run.setting.task, run.setting.level,
                                 std::to_string(run.setting.batch_size),
                                 std::to_string(run.setting.sequence)};
    for (std::string& cell : cells(first, run)) row.push_back(std::move(cell));
    table.add(std::move(row));
  }
  return table;
}

std::string form_time(const record::AttentionForm& form) {
  return form.skipped.empty() ? time_cell(form.time) : form.skipped;
}

}  // namespace

Table phase_table(const record::InferenceRecord& study) {
  const record::LabRecord& lab = study.lab;
  const cost::ReferenceRate reads = mbu_reference(lab);
  return run_table(
      lab,
      "TTFT / TPOT | 95% interval ?2 | predicted (error) ?1 | speed-up | tokens/s ?3 | MFU | MBU",
      [&](const record::RunRecord& first, const record::RunRecord& run) {
        return std::vector<std::string>{
            time_cell(run.wall()),
            interval_cell(run.wall()),
            prediction_cell(run.predicted_ns, run.wall().median),
            &first == &run ? "" : fmt::format("{:.2f}x", record::speed_up(lab, run)),
            format_count(run.tokens_per_s()),
            share_cell(run.mfu(mfu_reference(lab, run.setting))),
            share_cell(run.mbu(reads))};
      });
}

Table rate_shares_table(const record::InferenceRecord& study) {
  return run_table(
      study.lab, kSharesColumns, [&](const record::RunRecord&, const record::RunRecord& run) {
        return shares_cells(rate_shares(run, *study.lab.ceilings), run.setting.task == "decode");
      });
}

Table resource_table(const record::InferenceRecord& study) {
  return run_table(study.lab,
                   "kernel calls ?4 | bytes moved ?3 | weights ?1 | KV cache ?2 | owned memory | "
                   "logits, max abs difference",
                   [&](const record::RunRecord& first, const record::RunRecord& run) {
                     return std::vector<std::string>{
                         format_integer(run.launches),
                         format_bytes(run.planned_bytes),
                         format_bytes(run.weight_bytes),
                         format_bytes(run.cache_bytes),
                         format_bytes(run.memory.allocated_bytes),
                         run.logits.empty() ? ""
                         : &first == &run   ? "reference"
                                            : gap(record::logits_difference(first, run))};
                   });
}

bool is_over_roof(const record::InferenceRecord& study) {
  for (const record::RunRecord& run : study.lab.runs)
    for (const record::ModuleRecord& module : run.modules)
      if (share_of_roof(study.lab, run, module).second > 1) return true;
  return false;
}

Table module_table(const record::InferenceRecord& study) {
  Table table(
      "<phase | <level | batch | length | <module | MACs ?6 | I/O planned ?5 | "
      "I/O compulsory ?4 | FLOP/B ?3 | <roof ?1 | time | predicted (error) ?2 | "
      "share of roof");
  const record::RunRecord* last = nullptr;
  for (const record::RunRecord& run : study.lab.runs) {
    const record::RunRecord& first = record::reference_run(study.lab, run);
    if (last != nullptr && &first != last) table.add_rule();
    last = &first;
    for (const record::ModuleRecord& m : run.modules) {
      const auto [roof, share] = share_of_roof(study.lab, run, m);
      table.add({run.setting.task, run.setting.level, std::to_string(run.setting.batch_size),
                 std::to_string(run.setting.sequence), m.name,
                 format_count(static_cast<double>(m.work.macs)), format_bytes(m.planned_bytes),
                 format_bytes(m.compulsory_bytes), fmt::format("{:.3g}", m.intensity()), roof,
                 format_ns(static_cast<double>(m.time_ns)),
                 prediction_cell(m.predicted_ns, static_cast<double>(m.time_ns)),
                 share > 0 ? fmt::format("{:.0f}%", 100 * share) : "-"});
    }
  }
  return table;
}

Table cache_gain_table(const record::InferenceRecord& study) {
  Table table(
      "context | TPOT, cache | 95% interval ?2 | TPOT, no cache | 95% interval ?3 | "
      "gain | cache size | logits, max abs difference ?1");
  for (const record::CacheGainRecord& gain : study.gains)
    table.add({std::to_string(gain.context), time_cell(gain.with), interval_cell(gain.with),
               time_cell(gain.without), interval_cell(gain.without),
               ratio(gain.without.median, gain.with.median), format_bytes(gain.cache_bytes),
               gap(gain.logits_difference)});
  return table;
}

Table latency_table(const record::InferenceRecord& study) {
  Table table(
      "batch | prompt ?2 | tokens ?3 | session ?6 | first generation ?5 | TTFT | TPOT | "
      "95% interval ?4 | TTFT + TPOT x (n - 1) | wall | error | tokens/s ?1");
  for (const record::LatencyRecord& each : study.latencies)
    table.add({std::to_string(each.batch), std::to_string(each.prompt), std::to_string(each.tokens),
               format_ns(each.open_ns), format_ns(each.first_ns), format_ns(each.ttft_ns),
               time_cell(each.tpot), interval_cell(each.tpot), format_ns(each.predicted_ns()),
               format_ns(each.wall_ns), fmt::format("{:+.2f}%", 100 * each.error()),
               format_count(each.tokens_per_s())});
  return table;
}

Table attention_table(const record::InferenceRecord& study) {
  Table table(
      "head size | length | standard | flash | speed-up | standard: temporaries ?1 | "
      "standard: memory growth ?3 | flash: temporaries ?2 | flash: memory growth ?4 | "
      "launches saved ?6 | bytes saved ?5");
  const record::AttentionRecord* last = nullptr;
  for (const record::AttentionRecord& a : study.attention) {
    if (last != nullptr && last->head_size != a.head_size) table.add_rule();
    last = &a;
    auto grown = [](const record::AttentionForm& form) {
      return form.measured_bytes > 0 ? format_bytes(form.measured_bytes) : "-";
    };
    table.add({std::to_string(a.head_size), std::to_string(a.sequence), form_time(a.standard),
               form_time(a.flash), ratio(a.standard.time.median, a.flash.time.median),
               format_bytes(a.standard.arena_bytes), grown(a.standard),
               format_bytes(a.flash.arena_bytes), grown(a.flash),
               format_integer(a.standard.launches - a.flash.launches),
               format_bytes(a.standard.planned_bytes - a.flash.planned_bytes)});
  }
  return table;
}

}  // namespace ridge::report
