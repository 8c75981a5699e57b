// SPDX-License-Identifier: Apache-2.0
// Prints training plans as text or JSON. Not a subcommand.
#include "apps/plan_training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/training_planner.h"
#include "base/error.h"
#include "base/units.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

using nlohmann::ordered_json;

ordered_json memory_json(const record::MemoryRecord& memory) {
  return {{"owned_bytes", memory.owned_bytes},
          {"arena_bytes", memory.arena_bytes},
          {"live_peak_bytes", memory.live_peak_bytes},
          {"class_peak_bytes", report::memory_classes_json(memory.class_peaks().bytes)}};
}

class Printer {
 public:
  Printer(const TrainingPlanRequest& request,
          const TrainingPlanner& planner,
          const TerminalOptions& terminal)
      : request_(request), planner_(planner), terminal_(terminal) {}

  ordered_json json(const Place& place, const TrainingPlan& plan) const;
  void print_one(const Place& place, const TrainingPlan& plan) const;
  void print_several(const std::vector<Place>& places,
                     const std::vector<TrainingPlan>& plans) const;

 private:
  int64_t devices() const { return request_.layout.devices; }
  std::string answers(const Place& place, const TrainingPlan& plan) const;
  std::string assumptions(const Place& place, const TrainingPlan& plan) const;
  std::string conventions(const TrainingPlan& plan) const;
  void print_step(const Place& place, const TrainingPlan& plan) const;
  void print_memory(const Place& place, const TrainingPlan& plan) const;

  const TrainingPlanRequest& request_;
  const TrainingPlanner& planner_;
  const TerminalOptions& terminal_;
};

ordered_json Printer::json(const Place& place, const TrainingPlan& plan) const {
  const record::RunRecord& r = plan.record;
  const Work model = r.model.step();
  auto if_fits = [&](double value) { return plan.fits ? ordered_json(value) : ordered_json(); };
  const cost::NanoGptMemory nano = cost::nano_gpt_memory(planner_.extents());
  ordered_json classes = ordered_json::object();
  for (const auto& [name, bytes] : plan.memory.classes) classes[name] = bytes;
  return {{"model", r.setting.model},
          {"parameters", r.parameters},
          {"level", r.setting.level},
          {"dtype", r.setting.dtype},
          {"batch_size", r.setting.batch_size},
          {"sequence", r.setting.sequence},
          {"micro_batches", r.setting.micro_batches},
          {"recompute", request_.recompute},
          {"clip", request_.clip_norm},
          {"hardware", place.title},
          {"hardware_source", place.source},
          {"assumptions", place.ceilings.notes},
          {"model_flops", model.flops},
          {"model_macs", model.macs},
          {"executed_flops", r.executed.flops},
          {"planned_bytes", r.planned_bytes},
          {"compulsory_bytes", r.compulsory_bytes},
          {"kernel_calls", r.launches},
          {"memory", memory_json(r.memory)},
          {"zero", static_cast<int>(plan.zero)},
          {"device_memory", {{"peak_bytes", plan.memory.total}, {"classes", classes}}},
          {"memory_capacity_bytes", place.memory_bytes},
          {"fits", plan.fits},
          {"would_fit", plan.would_fit},
          {"predicted_step_ns", plan.step_ns},
          {"sent_bytes", plan.sent_bytes},
          {"exchange_ns", plan.exchange_ns},
          {"exposed_exchange_ns", plan.exposed_ns},
          {"predicted_tokens_per_s", plan.tokens_per_step(devices()) * 1e9 / plan.step_ns},
          {"predicted_mfu", plan.mfu()},
          {"mfu_convention", record::kMfuConvention},
          {"mfu_peak", report::to_json(plan.peak)},
          {"tokens", request_.tokens},
          {"devices", devices()},
          {"predicted_days", if_fits(plan.days)},
          {"assumed_mfu", request_.assumed_mfu},
          {"assumed_mfu_days", if_fits(plan.assumed_days)},
          {"device_hours", if_fits(plan.spent.device_hours)},
          {"watts", plan.spent.watts},
          {"energy_kwh", if_fits(plan.spent.kilowatt_hours)},
          {"price_per_device_hour", request_.layout.price},
          {"cost", if_fits(plan.spent.price)},
          {"largest_batch_size", plan.largest_batch},
          {"longest_context", plan.longest_context},
          {"bytes_per_parameter", plan.bytes_per_parameter.total()},
          {"largest_model_parameters", plan.largest_model},
          {"activation_models",
           {{"korthikanti_2022_bytes",
             cost::korthikanti_bytes(planner_.extents(), planner_.recompute())},
            {"nano_gpt_study_2023",
             {{"parameters", nano.parameters},
              {"activation_bytes", nano.activations},
              {"steady_bytes", nano.steady},
              {"peak_bytes", nano.peak}}}}}};
}

// What the published models say of the activations of such a step.
std::string Printer::conventions(const TrainingPlan& plan) const {
  auto bytes = [](double n) { return format_bytes(static_cast<int64_t>(std::min(n, 9e18))); };
  const int64_t exact =
      plan.record.memory.class_peaks().bytes[static_cast<size_t>(plan::MemoryClass::kActivations)];
  return fmt::format(
      "activations: {} by this graph; {} by Korthikanti et al. 2022 (16 bits, dropout, GPT layers); "
      "{} by the nanoGPT memory study 2023 (nothing recomputed)\n",
      format_bytes(exact), bytes(cost::korthikanti_bytes(planner_.extents(), planner_.recompute())),
      bytes(cost::nano_gpt_memory(planner_.extents()).activations));
}

std::string Printer::assumptions(const Place& place, const TrainingPlan& plan) const {
  std::string text;
  if (request_.verbose)
    for (const std::string& note : place.ceilings.notes)
      text += terminal_safe(note, kLongestMessage) + "\n";
  if (devices() > 1)
    text += fmt::format("{} on {} devices{}; a ring at 80% (assumed) of {}, overlapping with {}\n",
                        zero_name(plan.zero), devices(),
                        request_.layout.zero == "auto" ? " (the lowest stage that fits)" : "",
                        link_text(request_.layout, place),
                        plan.zero == cost::Zero::kWeights ? "forward and backward" : "backward");
  if (planner_.recompute() == cost::Recompute::kAttention &&
      request_.choice.selection.has("flash_attention"))
    text += "--recompute attention changes nothing here: flash attention keeps no scores\n";
  return text;
}

void Printer::print_step(const Place& place, const TrainingPlan& plan) const {
  const record::RunRecord& r = plan.record;
  const Work model = r.model.step();
  auto flops = [](int64_t count) { return format_count(static_cast<double>(count)); };
  Table table({{devices() > 1 ? "per step and device" : "per step", Align::kLeft},
               {""},
               {"what it counts", Align::kLeft, 1}});
  table.add({"model FLOPs", flops(model.flops), "forward and backward, the same for all kernels"});
  table.add({"  in GEMMs", flops(2 * model.macs), "2 FLOPs per MAC"});
  table.add({"executed FLOPs", flops(r.executed.flops),
             "with optimizer, recomputation; no masked tiles"});
  table.add({"planned bytes", format_bytes(r.planned_bytes), "each operand of each kernel once"});
  table.add(
      {"compulsory bytes", format_bytes(r.compulsory_bytes), "as if the step were one kernel"});
  table.add({"kernel calls", format_integer(r.launches), ""});
  if (devices() > 1)
    table.add({"sent to other devices", format_bytes(static_cast<int64_t>(plan.sent_bytes)),
               format_ns(plan.exchange_ns) +
                   (plan.exposed_ns > 0
                        ? fmt::format(", of which {} do not overlap", format_ns(plan.exposed_ns))
                        : ", all of it overlaps")});
  table.add({"predicted time", format_ns(plan.step_ns), ""});
  table.add({"  tokens/s", format_count(plan.tokens_per_step(devices()) * 1e9 / plan.step_ns),
             devices() > 1 ? "of all devices" : ""});
  table.add({"predicted MFU", fmt::format("{:.1f}%", 100 * plan.mfu()), ""});
  fmt::print("{}{}\n", table.text(terminal_),
             wrap_lines("MFU: " + plan.peak.str("FLOP/s", r.setting.dtype), terminal_.columns));
  print_memory(place, plan);
}

void Printer::print_memory(const Place& place, const TrainingPlan& plan) const {
  Table table({{devices() > 1 ? "memory of each device" : "memory", Align::kLeft}, {"peak"}});
  for (const auto& [name, bytes] : plan.memory.classes) table.add({name, format_bytes(bytes)});
  table.add_rule();
  table.add({is_plain(request_.layout) ? "owned (store and arena)" : "all at their peaks",
             format_bytes(plan.memory.total)});
  table.add({"memory of the hardware", format_bytes(place.memory_bytes)});
  fmt::print("{}\n", table.text(terminal_));
}

std::string Printer::answers(const Place& place, const TrainingPlan& plan) const {
  const record::RunRecord& r = plan.record;
  std::string text;
  if (plan.fits) {
    text =
        fmt::format("{} tokens on {} {}: {} as predicted; {} at an assumed MFU of {:.0f}%\n",
                    format_count(request_.tokens), devices(), devices() == 1 ? "device" : "devices",
                    days_text(plan.days), days_text(plan.assumed_days), 100 * request_.assumed_mfu);
    if (const std::string spent = expense_text(request_.layout, plan.spent); !spent.empty())
      text += spent + "\n";
  }
  text += fmt::format("largest batch that fits: {}{} sequences of {}{}\n",
                      plan.largest_batch == kLargestBatch ? "at least " : "", plan.largest_batch,
                      r.setting.sequence, devices() > 1 ? " on each device" : "");
  const bool is_most = plan.longest_context > 0 && plan.longest_context == plan.most_context;
  text += fmt::format("longest context that fits: {}{} tokens in batches of {}\n",
                      is_most && plan.most_context == kMostContext ? "at least " : "",
                      is_most && plan.most_context != kMostContext
                          ? fmt::format("{} (all of the model's)", plan.longest_context)
                          : std::to_string(plan.longest_context),
                      r.setting.batch_size);
  if (place.memory_bytes > 0)
    text += fmt::format(
        "largest model that fits: {} parameters at {:.1f} bytes each (weights {:.1f}, gradients "
        "{:.1f}, moments {:.1f}; activations not counted){}\n",
        format_count(static_cast<double>(plan.largest_model)), plan.bytes_per_parameter.total(),
        plan.bytes_per_parameter.weights, plan.bytes_per_parameter.gradients,
        plan.bytes_per_parameter.moments,
        devices() > 1 ? " with " + zero_name(stages(request_.layout).back()) : "");
  return text + conventions(plan);
}

void Printer::print_one(const Place& place, const TrainingPlan& plan) const {
  const record::RunRecord& r = plan.record;
  std::string heading = fmt::format(
      "{}, {} parameters, on {}{}\nsource: {}\n", terminal_safe(r.setting.str()),
      format_integer(r.parameters), devices() > 1 ? fmt::format("{} x ", devices()) : "",
      terminal_safe(place.title), terminal_safe(place.source, kLongestMessage));
  heading += assumptions(place, plan);
  if (!plan.fits)
    heading += fmt::format("DOES NOT FIT: {} {}, the hardware has {}\nwould fit: {}\n",
                           is_plain(request_.layout) ? "the step owns" : "a device needs",
                           format_bytes(plan.memory.total), format_bytes(place.memory_bytes),
                           fmt::join(plan.would_fit, ", "));
  fmt::print("{}\n", wrap_lines(heading, terminal_.columns));
  print_step(place, plan);
  fmt::print("{}", wrap_lines(answers(place, plan), terminal_.columns));
}

void Printer::print_several(const std::vector<Place>& places,
                            const std::vector<TrainingPlan>& plans) const {
  const record::RunRecord& r = plans.front().record;
  fmt::print("{}\n",
             wrap_lines(fmt::format("{}, {} parameters, {} tokens on {} {} of each kind",
                                    terminal_safe(r.setting.str()), format_integer(r.parameters),
                                    format_count(request_.tokens), devices(),
                                    devices() == 1 ? "device" : "devices"),
                        terminal_.columns));
  Table table({{"hardware", Align::kLeft},
               {"step"},
               {"tokens/s", Align::kRight, 3},
               {"MFU", Align::kRight, 1},
               {"ZeRO", Align::kRight, 5},
               {"needs"},
               {"has"},
               {"time"},
               {"energy", Align::kRight, 2},
               {"cost", Align::kRight, 4},
               {"batch", Align::kRight, 6}});
  std::string notes;
  for (size_t i = 0; i < plans.size(); ++i) {
    const TrainingPlan& plan = plans[i];
    auto if_fits = [&](const std::string& text) { return plan.fits ? text : std::string("-"); };
    table.add(
        {terminal_safe(places[i].name), format_ns(plan.step_ns),
         format_count(plan.tokens_per_step(devices()) * 1e9 / plan.step_ns),
         fmt::format("{:.0f}%", 100 * plan.mfu()),
         devices() > 1 ? std::to_string(static_cast<int>(plan.zero)) : "-",
         format_bytes(plan.memory.total), format_bytes(places[i].memory_bytes),
         plan.fits ? days_text(plan.days) : "does not fit",
         if_fits(plan.spent.kilowatt_hours > 0 ? energy_text(plan.spent.kilowatt_hours) : "-"),
         if_fits(request_.layout.price > 0 ? format_count(plan.spent.price) : "-"),
         std::to_string(plan.largest_batch)});
    if (!plan.fits)
      notes += fmt::format("{} would fit: {}\n", terminal_safe(places[i].name),
                           fmt::join(plan.would_fit, ", "));
  }
  fmt::print("{}\n", table.text(terminal_));
  notes += fmt::format(
      "time, energy and cost at the predicted step; batch: the largest that fits, of {} tokens{}. "
      "Times assume shares of the data sheets' rates (--verbose lists them){}.\n",
      r.setting.sequence, devices() > 1 ? " on each device" : "",
      request_.layout.watts > 0 ? "" : ", energy their board power");
  notes += conventions(plans.front());
  if (request_.verbose)
    for (const Place& place : places) {
      notes += fmt::format("{}: {}\n", terminal_safe(place.title),
                           terminal_safe(place.source, kLongestMessage));
      for (const std::string& note : place.ceilings.notes)
        notes += "  " + terminal_safe(note, kLongestMessage) + "\n";
    }
  fmt::print("{}", wrap_lines(notes, terminal_.columns));
}

}  // namespace

void plan_training(const TrainingPlanRequest& request,
                   const std::vector<Place>& places,
                   const TerminalOptions& terminal) {
  TrainingPlanner planner(request, terminal);
  std::vector<TrainingPlan> plans;
  for (const Place& place : places) plans.push_back(planner.plan(place));
  const Printer printer(request, planner, terminal);
  if (request.json) {
    ordered_json json;
    for (size_t i = 0; i < plans.size(); ++i)
      json["plans"].push_back(printer.json(places[i], plans[i]));
    fmt::print("{}", report::json_text(plans.size() == 1 ? json["plans"][0] : json));
  } else if (plans.size() == 1) {
    printer.print_one(places.front(), plans.front());
  } else {
    printer.print_several(places, plans);
  }
}

}  // namespace ridge::apps
