// SPDX-License-Identifier: Apache-2.0
// The figures of a point of a bench.
#pragma once

#include "record/bench_record.h"
#include "record/run_figures.h"

namespace ridge::record {

template <class See>
void figures(const See& see, const BenchPoint& r) {
  see({"name", "", "op, module or case"}, r.name);
  see({"shape", "", "extents by letter; empty for the cases of an op"}, r.extents);
  see({"form", "", "the implementation: onednn, flash; empty if there is only one"}, r.form);
  see({"phase", "", "forward, forward+backward, prefill, decode; may be empty"}, r.phase);
  see({"dtype", "", "as --dtype spells it"}, r.dtype);
  see({"inputs", "", "types of the operands"}, r.inputs);
  see({"caches", "", "warm, or cold with how; empty if nothing ran"}, r.cache);
  see({"refused", "", "why it was not planned or not run; empty if it was"}, r.refused);
  figures(see, r.time), see("flops", r.work.flops), see("macs", r.work.macs);
  see({"bytes", "", "planned: each operand of each kernel once"}, r.planned_bytes);
  see("compulsory_bytes", r.compulsory_bytes);
  see({"unfused_bytes", "", "by that convention (docs/accounting.md)"}, r.unfused_bytes);
  see({"owned_bytes", "", "arena and store"}, r.owned_bytes);
  see("kernel_calls", r.launches);
  see({"kernels", "", "launches by op"}, r.kernels);
  see("flops_per_byte", r.planned_intensity()),
      see("flops_per_compulsory_byte", r.compulsory_intensity()),
      see("flops_per_unfused_byte", r.unfused_intensity()),
      see("flops_per_s", r.flops_per_s(), Unknown::kNull),
      see("bytes_per_s", r.bytes_per_s(), Unknown::kNull);
  see({"predicted_ns", "", "0 if no ceilings are known"}, r.predicted_ns);
  see("limit_ns", r.limit_ns), see("bound", r.bound);
  see({"level", "", "of memory that holds the operands; empty without levels"}, r.level);
  see({"speedup", "x", "time of the first form of the same size over this one's"}, r.speedup);
  see({"published_ns", "", "of other software on other machines"}, r.published_ns);
  see({"share_of_limit", "share", "limit over time, up to 1"}, r.limit_share());
}

template <class See>
void figures(const See& see, const BenchFit& r) {
  see("form", r.form), see("letter", r.letter), see("factor_ns", r.factor), see("power", r.power),
      see("residual", r.residual), see("points", r.points);
}

template <class See>
void figures(const See& see, const BenchCliff& r) {
  see("point", r.point), see("ratio", r.ratio), see("reason", r.reason);
}

struct NamedValue {
  const std::string& name;
  double value;
};
template <class See>
void figures(const See& see, const NamedValue& r) {
  see("name", r.name), see("value", r.value);
}

template <class See>
void figures(const See& see, const BenchRecord& r) {
  see(r.kind.c_str(), r.name), see("dtype", r.dtype), see("device", r.device),
      see("threads", r.threads), see("swept", r.swept),
      see({"byte_convention", "",
           "of the bytes that tables and rooflines show: ridge, or another's"},
          r.bytes),
      see({"axis", "", "what the letter that varies stands for"}, r.axis),
      see("interrupted", r.is_interrupted), see("cases", r.points), see("fits", r.fits),
      see("cliffs", r.cliffs), see("notes", r.notes);
  if (r.claim.empty()) return;  // it is not a demo
  see("claim", r.claim), see("prediction", r.prediction), see("finding", r.finding),
      see("teaches", r.teaches);
  if (r.values.empty()) return;
  std::vector<NamedValue> values;
  for (const auto& [name, value] : r.values) values.push_back({name, value});
  see("quantity", r.quantity), see("values", values);
}

}  // namespace ridge::record
