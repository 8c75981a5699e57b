// SPDX-License-Identifier: Apache-2.0
// Binds labs, and demos where the program has courses.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "backends/machine.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "bench/inference_lab.h"
#include "bench/training_lab.h"
#include "bench/trial_runner.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/errors.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/report.h"
#include "python/this_machine.h"
#include "python/type_names.h"
#include "report/brief_report.h"
#include "report/inference_report.h"
#include "report/lab_files.h"
#ifdef RIDGE_COURSES
#include "courses/demos/demo.h"
#endif

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// A list as the command line has it: "4,8" from a text, a number or a list.
void take_list(Keywords& keywords, const char* name, std::string& list) {
  nb::object given;
  keywords.take(name, given);
  if (!given.is_valid() || nb::try_cast(given, list)) return;
  list.clear();
  const bool is_one = !nb::isinstance<nb::list>(given) && !nb::isinstance<nb::tuple>(given);
  const nb::object each_of = is_one ? nb::object(nb::make_tuple(given)) : given;
  for (nb::handle each : each_of)
    list += (list.empty() ? "" : ",") + nb::cast<std::string>(nb::str(each));
}

// The lab measures ceilings again if asked, ends after Ctrl-C, and says nothing.
bench::TrainingLabListener quiet_listener(const backends::MachineOptions& machine,
                                          const measure::CeilingsRequest& request,
                                          Interrupts& interrupts) {
  return {.remeasure =
              [machine, request] {
                measure::CeilingsRequest again = request;
                again.remeasure = true;
                return machine_ceilings(machine, again);
              },
          .note = [](const std::string&) {},
          .is_stopped = [&] { return interrupts.is_set(); },
          .tick = [](const bench::LabWork&, const std::string&) {},
          .measured = [] {},
          .advised = [] {},
          .tried = [] {}};
}

Report run_training_lab(const bench::TrainingLabOptions& o) {
  bench::TrainingLab training_lab(o);
  const measure::CeilingsRequest request{.tf32 = training_lab.has_tf32(), .has_inference = false};
  record::LabRecord lab = about("ridge.lab");
  lab.ceilings = machine_ceilings(o.machine, request);
  Interrupts interrupts;
  training_lab.run(quiet_listener(o.machine, request, interrupts), lab);
  interrupts.rethrow();
  if (lab.runs.empty()) throw runtime_error("[lab] expected more steps for a summary");
  lab.finished_at = utc_now();
  Report made;
  made.files = report::output_files(lab);
  made.json = report::performance_summary(lab);
  made.text = report::lab_text(lab, false, {});
  made.picture = roofline_picture(made.files);
  return made;
}

Report run_inference_lab(const serve::InferenceOptions& inference,
                         const bench::InferenceLabOptions& o) {
  record::InferenceRecord study;
  bench::InferenceLab lab(inference, o, study);
  const record::LabRecord head = about("ridge.lab");
  study.lab.program = head.program;
  study.lab.command = head.command;
  study.lab.ceilings = machine_ceilings(inference.machine, {});
  Interrupts interrupts;
  lab.run({.is_stopped = [&] { return interrupts.is_set(); },
           .announce = [](const std::string&, double) {}});
  interrupts.rethrow();
  if (study.lab.runs.empty()) throw runtime_error("[lab] expected more time for a summary");
  study.lab.finished_at = utc_now();
  Report made;
  made.files = report::study_files(study, {});
  made.json = report::inference_summary(study);
  made.text = report::study_text(study, false, {});
  made.picture = roofline_picture(made.files);
  return made;
}

Report inference_lab(Keywords& keywords, nb::handle model) {
  serve::InferenceOptions inference;
  bench::InferenceLabOptions o;
  inference.model = path_of(model);
  std::string dtype;
  take_machine(keywords, inference.machine);
  take_list(keywords, "level", o.levels), take_list(keywords, "batch_size", o.batch_sizes);
  take_list(keywords, "seq_len", o.lengths);
  take_list(keywords, "latency_batch_size", o.latency_batches);
  take_list(keywords, "attention_seq_len", o.attention_lengths);
  keywords.take("passes", inference.level.switches);
  take_dtype(keywords, "cache_dtype", inference.cache_dtype), take_dtype(keywords, "dtype", dtype);
  keywords.take("chunk", inference.chunk), keywords.take("fast_8bit", inference.fast_8bit);
  keywords.take("prompt_tokens", o.prompt), keywords.take("tokens", o.tokens);
  keywords.take("seconds", o.seconds);
  keywords.expect_none_left();
  inference.exact = expect_exact_or_default(dtype);
  const nb::gil_scoped_release release;
  return run_inference_lab(inference, o);
}

Report lab(const nb::kwargs& given) {
  Keywords keywords(given);
  bool inference = false, advice = true;
  nb::object model, config;
  keywords.take("inference", inference), keywords.take("model", model);
  if (inference) {
    if (!model.is_valid()) throw usage_error("[lab] expected model=, a file or folder to run");
    return inference_lab(keywords, model);
  }
  bench::TrainingLabOptions o;
  keywords.take("config", config), keywords.take("preset", o.model.preset);
  if (model.is_valid()) o.model.model_file = path_of(model);
  if (config.is_valid()) o.model.config_file = path_of(config);
  take_machine(keywords, o.machine);
  take_list(keywords, "level", o.levels), take_list(keywords, "batch_size", o.batch_sizes);
  take_list(keywords, "seq_len", o.lengths);
  take_list(keywords, "profile_level", o.profile_levels);
  keywords.take("passes", o.level.switches), take_dtype(keywords, "dtype", o.level.dtype);
  keywords.take("steps", o.steps), keywords.take("warmup", o.warmup);
  keywords.take("trials", o.trials), keywords.take("advice", advice);
  keywords.expect_none_left();
  o.no_advice = !advice;
  const nb::gil_scoped_release release;
  return run_training_lab(o);
}

#ifdef RIDGE_COURSES
Report demo(const std::string& name, const nb::kwargs& given) {
  Keywords keywords(given);
  backends::MachineOptions machine;
  double seconds = 10;
  keywords.take("seconds", seconds);
  take_machine(keywords, machine);
  keywords.expect_none_left();
  const courses::Demo* found = courses::find_demo(name);
  if (found == nullptr)
    throw usage_error("[demo] expected {}, got {}", courses::demo_names(), printable(name));
  const double budget = budget_ns(seconds);
  Interrupts interrupts;
  const nb::gil_scoped_release release;
  bench::TrialRunner trials(
      {.budget_ns = budget,
       .is_stopped = [&] { return interrupts.is_set(); },
       .make_backend =
           [&](const passes::Selection& s) { return backends::make_backend(machine, s); }});
  trials.backend(passes::Selection("baseline", ""));  // sets threads and ISA
  trials.set_ceilings(machine_ceilings(machine, {}));
  record::BenchRecord record = courses::show(
      *found,
      courses::Fixture(
          [&](const passes::Selection& s) -> backends::Backend& { return trials.backend(s); },
          trials.ceilings(), budget, [&] { return interrupts.is_set(); }));
  {
    const nb::gil_scoped_acquire gil;
    interrupts.rethrow();
  }
  record.threads = trials.ceilings().machine.threads;
  record.device = trials.ceilings().machine.device;
  record::LabRecord lab = about("ridge.demo(\"" + name + "\")");
  lab.ceilings = trials.ceilings();
  return bench_report(lab, record);
}
#endif

}  // namespace

void bind_lab(nb::module_& m) {
  m.def(
      "lab", &lab, "options"_a,
      "Trains at each level and shows the gains, the bottlenecks and advice, as `ridge lab`: "
      "preset, config or model; level, batch_size, seq_len: one or a list; profile_level, passes, "
      "dtype, steps, warmup, advice (True), trials (1); device, threads, isa. With "
      "inference=True, prefill and decode of model=, as `ridge infer-lab`: level, batch_size, "
      "seq_len, latency_batch_size, attention_seq_len, prompt_tokens, tokens, seconds (120), "
      "passes, dtype, cache_dtype, chunk, fast_8bit.",
      nb::sig("def lab(**options: typing.Any) -> Report"));
#ifdef RIDGE_COURSES
  m.def("demo", &demo, "name"_a, "options"_a,
        "A lesson about performance, predicted and measured here: 'fusion'. An unknown name raises "
        "UsageError with all of them. seconds: of measuring (10); device, threads, isa.",
        nb::sig("def demo(name: str, **options: typing.Any) -> Report"));
#endif
}

}  // namespace ridge::python
