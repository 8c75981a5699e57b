// SPDX-License-Identifier: Apache-2.0
// Plans of training a model as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "record/plan_figures.h"
#include "report/plan_report.h"

namespace ridge::report {
namespace {

Json plan_json(const record::TrainingPlan& plan) {
  const record::RunRecord& r = plan.record;
  const Json all = to_json(plan), run = to_json(r);
  Json json = {{"model", r.setting.model}, {"parameters", r.parameters}};
  add(json, run["setting"], "level dtype batch_size sequence=seq_len micro_batches");
  add(json, all, "recompute clip hardware hardware_source assumptions");
  add(json, run,
      "model_flops model_macs executed_flops planned_bytes compulsory_bytes kernel_calls");
  add(json["memory"], run,
      "owned_bytes arena_bytes live_peak_bytes class_peak_bytes=peak_by_class_bytes");
  json["zero"] = all["zero"];
  json["device_memory"] = {{"peak_bytes", plan.memory.total},
                           {"classes", value_json(plan.memory.classes)}};
  add(json, all,
      "memory_capacity_bytes fits would_fit predicted_step_ns sent_bytes exchange_ns "
      "exposed_exchange_ns predicted_tokens_per_s predicted_mfu");
  json["mfu_convention"] = record::kMfuConvention;
  json["mfu_peak"] = to_json(plan.peak);
  add(json, all,
      "tokens devices predicted_days assumed_mfu assumed_mfu_days device_hours watts energy_kwh "
      "price_per_device_hour cost largest_batch_size longest_context bytes_per_parameter "
      "largest_model_parameters");
  json["activation_models"] = {{"korthikanti_2022_bytes", plan.korthikanti_bytes},
                               {"nano_gpt_study_2023",
                                {{"parameters", plan.nano_gpt.parameters},
                                 {"activation_bytes", plan.nano_gpt.activations},
                                 {"steady_bytes", plan.nano_gpt.steady},
                                 {"peak_bytes", plan.nano_gpt.peak}}}};
  return json;
}

// The activations of the step, and those that the published models give such a step.
std::string conventions(const record::TrainingPlan& plan) {
  auto bytes = [](double n) { return format_bytes(static_cast<int64_t>(std::min(n, 9e18))); };
  const int64_t exact =
      plan.record.memory.class_peaks().bytes[static_cast<size_t>(plan::MemoryClass::kActivations)];
  return fmt::format(
      "activations: {} by this graph; {} by Korthikanti et al. 2022 (16 bits, dropout, GPT layers); "
      "{} by the nanoGPT memory study 2023 (nothing recomputed)\n",
      format_bytes(exact), bytes(plan.korthikanti_bytes), bytes(plan.nano_gpt.activations));
}

// "450 GB/s (NVLink 4, data sheet)": the slowest link of the ring, and where its rate is from.
std::string link_text(const record::DevicePlan& plan) {
  cost::Links ring = plan.links();
  ring.efficiency = 1;
  const double rate = ring.ring_bytes_per_s(plan.layout.devices);
  const bool is_node = ring.node_bytes_per_s > 0 && rate == ring.node_bytes_per_s;
  const std::string origin = !is_node ? "--network"
                             : plan.layout.link > 0
                                 ? "--link"
                                 : terminal_safe(plan.hardware.link) + ", data sheet";
  return fmt::format("{} ({})", format_rate(rate, "B/s"), origin);
}

std::string assumptions(const record::TrainingPlan& plan, bool verbose) {
  std::string text = assumptions_text(plan.hardware, verbose);
  if (plan.layout.devices > 1)
    text += fmt::format("{} on {} devices{}; a ring at 80% (assumed) of {}, overlapping with {}\n",
                        zero_name(plan.zero), plan.layout.devices,
                        plan.layout.zero == "auto" ? " (the lowest stage that fits)" : "",
                        link_text(plan),
                        plan.zero == cost::Zero::kWeights ? "forward and backward" : "backward");
  if (plan.recomputes_nothing)
    text += "--recompute attention changes nothing here: flash attention keeps no scores\n";
  return text;
}

std::string step_text(const record::TrainingPlan& plan, const TerminalOptions& terminal) {
  const record::RunRecord& r = plan.record;
  const Work model = r.model.step();
  const bool is_alone = plan.layout.devices == 1;
  auto flops = [](int64_t count) { return format_count(static_cast<double>(count)); };
  Table table(
      fmt::format("<{} |  | <what it counts ?1", is_alone ? "per step" : "per step and device"));
  table.add({"model FLOPs", flops(model.flops), "forward and backward, the same for all kernels"});
  table.add({"  in GEMMs", flops(2 * model.macs), "2 FLOPs per MAC"});
  table.add({"executed FLOPs", flops(r.executed.flops),
             "with optimizer, recomputation; no masked tiles"});
  table.add({"planned bytes", format_bytes(r.planned_bytes), "each operand of each kernel once"});
  table.add(
      {"compulsory bytes", format_bytes(r.compulsory_bytes), "as if the step were one kernel"});
  table.add({"kernel calls", format_integer(r.launches), ""});
  if (!is_alone)
    table.add({"sent to other devices", format_bytes(static_cast<int64_t>(plan.sent_bytes)),
               format_ns(plan.exchange_ns) +
                   (plan.exposed_ns > 0
                        ? fmt::format(", of which {} do not overlap", format_ns(plan.exposed_ns))
                        : ", all of it overlaps")});
  table.add({"predicted time", format_ns(plan.step_ns), ""});
  table.add({"  tokens/s", format_count(plan.tokens_per_s()), is_alone ? "" : "of all devices"});
  table.add({"predicted MFU", fmt::format("{:.1f}%", 100 * plan.mfu()), ""});
  return fmt::format(
      "{}{}\n", table.text(terminal),
      wrap_lines("MFU: " + plan.peak.str("FLOP/s", r.setting.dtype), terminal.columns));
}

std::string memory_text(const record::TrainingPlan& plan, const TerminalOptions& terminal) {
  Table table(plan.layout.devices > 1 ? "<memory of each device | peak" : "<memory | peak");
  for (const auto& [name, bytes] : plan.memory.classes) table.add({name, format_bytes(bytes)});
  table.add_rule();
  table.add({plan.layout.is_plain() ? "owned (store and arena)" : "all at their peaks",
             format_bytes(plan.memory.total)});
  table.add({"memory of the hardware", format_bytes(plan.hardware.memory_bytes)});
  return table.text(terminal) + "\n";
}

std::string answers(const record::TrainingPlan& plan) {
  const record::RunRecord& r = plan.record;
  const char* each = plan.layout.devices > 1 ? " on each device" : "";
  std::string text;
  if (plan.fits) {
    text = fmt::format("{} tokens on {}: {} as predicted; {} at an assumed MFU of {:.0f}%\n",
                       format_count(plan.tokens), devices_text(plan.layout.devices),
                       days_text(plan.days), days_text(plan.assumed_days), 100 * plan.assumed_mfu);
    if (const std::string spent = expense_text(plan); !spent.empty()) text += spent + "\n";
  }
  text += fmt::format("largest batch that fits: {}{} sequences of {}{}\n",
                      plan.largest_batch == record::kMostPlannedBatch ? "at least " : "",
                      plan.largest_batch, r.setting.sequence, each);
  const bool is_most = plan.longest_context > 0 && plan.longest_context == plan.most_context;
  const bool is_bound = plan.most_context == record::kMostPlannedContext;
  text += fmt::format("longest context that fits: {}{}{} tokens in batches of {}\n",
                      is_most && is_bound ? "at least " : "", plan.longest_context,
                      is_most && !is_bound ? " (all of the model's)" : "", r.setting.batch_size);
  if (plan.hardware.memory_bytes > 0)
    text += fmt::format(
        "largest model that fits: {} parameters at {:.1f} bytes each (weights {:.1f}, gradients "
        "{:.1f}, moments {:.1f}; activations not counted){}\n",
        format_count(static_cast<double>(plan.largest_model)), plan.bytes_per_parameter.total(),
        plan.bytes_per_parameter.weights, plan.bytes_per_parameter.gradients,
        plan.bytes_per_parameter.moments,
        plan.layout.devices > 1 ? " with " + zero_name(plan.last_zero) : "");
  return text + conventions(plan);
}

std::string one_text(const record::TrainingPlan& plan,
                     bool verbose,
                     const TerminalOptions& terminal) {
  const record::RunRecord& r = plan.record;
  std::string heading = fmt::format(
      "{}, {} parameters, on {}{}\nsource: {}\n", terminal_safe(r.setting.str()),
      format_integer(r.parameters),
      plan.layout.devices > 1 ? fmt::format("{} x ", plan.layout.devices) : "",
      terminal_safe(plan.hardware.title), terminal_safe(plan.hardware.source, kLongestMessage));
  heading += assumptions(plan, verbose);
  if (!plan.fits)
    heading +=
        fmt::format("DOES NOT FIT: {} {}, the hardware has {}\nwould fit: {}\n",
                    plan.layout.is_plain() ? "the step owns" : "a device needs",
                    format_bytes(plan.memory.total), format_bytes(plan.hardware.memory_bytes),
                    fmt::join(plan.would_fit, ", "));
  return wrap_lines(heading, terminal.columns) + "\n" + step_text(plan, terminal) +
         memory_text(plan, terminal) + wrap_lines(answers(plan), terminal.columns);
}

Table several_table(std::span<const record::TrainingPlan> plans) {
  Table table(
      "<hardware | step | tokens/s ?3 | MFU ?1 | ZeRO ?5 | needs | has | time | "
      "energy ?2 | cost ?4 | batch ?6");
  for (const record::TrainingPlan& plan : plans) {
    const DevicePlanCells cells = device_plan_cells(plan, plan.memory.total, plan.days);
    table.add({terminal_safe(plan.hardware.name), format_ns(plan.step_ns),
               format_count(plan.tokens_per_s()), fmt::format("{:.0f}%", 100 * plan.mfu()),
               cells.zero, cells.needs, cells.has, cells.time, cells.energy, cells.cost,
               std::to_string(plan.largest_batch)});
  }
  return table;
}

std::string several_text(std::span<const record::TrainingPlan> plans,
                         bool verbose,
                         const TerminalOptions& terminal) {
  const record::TrainingPlan& first = plans.front();
  const record::RunRecord& r = first.record;
  const std::string heading = fmt::format(
      "{}, {} parameters, {} tokens on {} of each kind", terminal_safe(r.setting.str()),
      format_integer(r.parameters), format_count(first.tokens), devices_text(first.layout.devices));
  std::string notes;
  for (const record::TrainingPlan& plan : plans) notes += changes_line(plan);
  notes += fmt::format(
      "time, energy and cost at the predicted step{}; batch: the largest that fits, of {} tokens{}\n",
      first.layout.watts > 0 ? "" : ", energy at the boards' power", r.setting.sequence,
      first.layout.devices > 1 ? " on each device" : "");
  for (const record::TrainingPlan& plan : plans)
    if (const std::string text = assumptions_text(plan.hardware, verbose);
        notes.find(text) == std::string::npos)
      notes += text;
  notes += conventions(first);
  if (verbose)
    for (const record::TrainingPlan& plan : plans)
      notes += fmt::format("{}: {}\n", terminal_safe(plan.hardware.title),
                           terminal_safe(plan.hardware.source, kLongestMessage));
  return wrap_lines(heading, terminal.columns) + "\n" + several_table(plans).text(terminal) + "\n" +
         wrap_lines(notes, terminal.columns);
}

}  // namespace

std::string training_plan_text(std::span<const record::TrainingPlan> plans,
                               bool verbose,
                               const TerminalOptions& terminal) {
  return plans.size() == 1 ? one_text(plans.front(), verbose, terminal)
                           : several_text(plans, verbose, terminal);
}

std::string training_plan_json(std::span<const record::TrainingPlan> plans) {
  return plans_json(plans, plan_json);
}

}  // namespace ridge::report
