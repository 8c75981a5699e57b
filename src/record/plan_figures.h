// SPDX-License-Identifier: Apache-2.0
// The figures of plans of training.
#pragma once

#include "record/plan_record.h"
#include "record/run_figures.h"

namespace ridge::record {

template <class See>
void figures(const See& see, const PlannedHardware& r) {
  see("hardware", r.title), see("hardware_source", r.source), see("assumptions", r.ceilings.notes),
      see("memory_capacity_bytes", r.memory_bytes);
}

template <class See>
void device_figures(const See& see, const DevicePlan& r) {
  figures(see, r.hardware), see("devices", r.layout.devices),
      see("price_per_device_hour", r.layout.price);
  see({"tokens", "", "the budget"}, r.tokens);
  see({"assumed_mfu", "share", "for a second estimate of the days"}, r.assumed_mfu);
  see({"zero", "", "the lowest stage that fits, or the last one"}, static_cast<int>(r.zero));
  see({"fits", "", "also if the hardware's memory is unknown"}, r.fits);
  see({"would_fit", "", "changes of options, each by itself"}, r.would_fit);
  see({"assumed_mfu_days", "d", "at the assumed MFU"}, r.if_fits(r.assumed_days));
  see("device_hours", r.if_fits(r.spent.device_hours));
  see({"watts", "W", "drawn by a device"}, r.spent.watts);
  see("energy_kwh", r.if_fits(r.spent.kilowatt_hours)), see("cost", r.if_fits(r.spent.price)),
      see("largest_model_parameters", r.largest_model);
}

template <class See>
void figures(const See& see, const ParameterPlan& r) {
  device_figures(see, r), see("parameters", r.parameters.all);
  see({"dtype", "", "the type of GEMMs"}, r.dtype);
  see("flops_per_token", r.flops_per_token), see("flops", r.flops()),
      see("bytes_per_parameter", r.types.total());
  see({"fewest_devices", "", "with ZeRO 3; 0: none"}, r.fewest_devices);
}

template <class See>
void figures(const See& see, const TrainingPlan& r) {
  device_figures(see, r);
  see({"recompute", "", "none, attention, block or full"}, r.recompute);
  see("clip", r.clip_norm), see("predicted_step_ns", r.step_ns);
  see({"sent_bytes", "", "of a step, by each device"}, r.sent_bytes);
  see({"exchange_ns", "", "at the assumed rate of the slowest link"}, r.exchange_ns);
  see({"exposed_exchange_ns", "", "does not overlap with the graph"}, r.exposed_ns);
  see("predicted_tokens_per_s", r.tokens_per_s()), see({"predicted_mfu", "share"}, r.mfu());
  see({"predicted_days", "d", "for the budget at the predicted rate"}, r.if_fits(r.days));
  see("largest_batch_size", r.largest_batch), see("longest_context", r.longest_context),
      see("bytes_per_parameter", r.bytes_per_parameter.total());
}

template <class See>
void figures(const See& see, const InferencePlan& r) {
  see("model", r.model), see("parameters", r.parameters), see("level", r.level);
  see({"chunk", "", "tokens of a prompt in one run"}, r.chunk);
  see({"ranks", "", "devices that share the model"}, r.ranks);
  see("cache_dtype", r.cache_dtype), figures(see, r.hardware);
}

template <class See>
void figures(const See& see, const LargestBatch& r) {
  see("sequence", r.length), see("batch_size", r.batch), see("predicted_decode_ns", r.decode_ns);
}

template <class See>
void figures(const See& see, const LongestContext& r) {
  see("batch_size", r.batch), see("sequence", r.length);
}

}  // namespace ridge::record
