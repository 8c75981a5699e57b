// SPDX-License-Identifier: Apache-2.0
// Binds what shows itself: plans, the machine, demos and the traces of other programs.
#include <nanobind/nanobind.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "backends/machine.h"
#include "base/error.h"
#include "base/printable.h"
#include "measure/machine_ceilings.h"
#include "planning/plans.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/errors.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/report.h"
#include "python/this_machine.h"
#include "python/type_names.h"
#include "report/command_text.h"
#include "report/plan_report.h"
#include "serve/session_choice.h"
#include "train/training_choice.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

Report machine(const nb::kwargs& given) {
  Keywords keywords(given);
  backends::MachineOptions machine;
  measure::CeilingsRequest request;
  take_machine(keywords, machine);
  keywords.take("remeasure", request.remeasure), keywords.take("tf32", request.tf32);
  keywords.expect_none_left();
  const nb::gil_scoped_release release;
  const auto backend = backends::make_backend(machine, passes::Selection("baseline", ""));
  const report::MeasuredCeilings measured{machine_ceilings(machine, request), request.tf32};
  return {cost::to_json(measured.ceilings), report::ceilings_text({&measured, 1}, false, {})};
}

void listen(std::string_view, std::string_view, const std::string&) { throw_if_interrupted(); }

Report plan_training(const train::TrainingOptions& options,
                     const std::string& hardware,
                     planning::TrainingPlanRequest request) {
  train::TrainingChoice choice(options);
  const auto places = planning::choose_hardware_list(
      hardware, this_machine(options.machine, choice.selection), choice.selection.has("tf32"));
  for (const planning::TargetHardware& place : places)
    passes::expect_effect(choice.switches, passes::Serves::kTraining, *place.planned);
  request.setup = choice.setup(options.machine);
  const auto plans = planning::plan_training(request, places, listen);
  return {report::training_plan_json(plans), report::training_plan_text(plans, false, {})};
}

Report plan_inference(const train::TrainingOptions& o, const std::string& hardware) {
  const models::ModelFile file = [&] {
    if (!o.model.model_file.empty()) return models::ModelFile::open(o.model.model_file);
    return models::ModelFile::of_shape(models::choose_model(o.model).config);
  }();
  const bool this_is_gpu = hardware == "this" && backends::is_gpu(o.machine);
  const serve::Arithmetic arithmetic{.on_gpu = planning::is_gpu_plan(hardware, this_is_gpu)};
  planning::InferencePlanRequest request;
  request.setup.chunk = serve::usual_chunk(arithmetic.on_gpu);
  request.setup.selection = serve::inference_selection(arithmetic, o.level.level, o.level.switches);
  const planning::TargetHardware place =
      planning::choose_hardware(hardware, this_machine(o.machine, request.setup.selection), false);
  request.setup.setting =
      backends::make_setting("model", o.machine, request.setup.selection, o.level.switches);
  const record::InferencePlan plan = planning::plan_inference(file, request, place, listen);
  return {report::inference_plan_json(plan), report::inference_plan_text(plan, false, {})};
}

Report plan(const nb::kwargs& given) {
  Keywords keywords(given);
  train::TrainingOptions o;
  std::string hardware = "this";
  bool inference = false;
  planning::TrainingPlanRequest request;
  request.tokens = 1e9, request.assumed_mfu = 0.4;  // as the command line
  keywords.take_path("model", o.model.model_file);
  keywords.take_path("config", o.model.config_file);
  keywords.take("preset", o.model.preset), keywords.take("hardware", hardware);
  keywords.take("inference", inference), keywords.take("recompute", request.recompute);
  keywords.take("tokens", request.tokens), keywords.take("mfu", request.assumed_mfu);
  keywords.take("devices", request.layout.devices);
  keywords.take("zero", request.layout.zero);
  keywords.take("level", o.level.level), keywords.take("passes", o.level.switches);
  take_dtype(keywords, "dtype", o.level.dtype);
  keywords.take("batch_size", o.batch_size), keywords.take("seq_len", o.sequence);
  keywords.take("micro_batches", o.micro_batches);
  take_machine(keywords, o.machine);
  keywords.expect_none_left();
  const nb::gil_scoped_release release;
  return inference ? plan_inference(o, hardware) : plan_training(o, hardware, std::move(request));
}

Report compare(const Report& self, const Report& other) {
  const nb::gil_scoped_release release;
  return compared(self, other);
}

void save(const Report& self, nb::handle path) {
  const std::string name = path_of(path);
  const std::string page = self.page();
  std::ofstream out(name, std::ios::binary);
  out << page;
  out.close();
  if (!out) throw runtime_error("[save] cannot write {}", printable(name));
}

// The whole page, in a browser.
void open(const Report& self) {
  const nb::object folder = nb::module_::import_("tempfile").attr("mkdtemp")("", "ridge-");
  const std::string path = path_of(folder) + "/report.html";
  save(self, nb::cast(path));
  nb::module_::import_("webbrowser").attr("open")("file://" + path);
}

void bind_records(nb::module_& m) {
  m.def("machine", &machine, "options"_a,
        "This machine's ceilings: bandwidths, GEMM rates and the costs of launches. Measures them "
        "once (4 to 15 s) and keeps them, which gives predictions, MFU and MBU everywhere. "
        "remeasure: again. tf32, device, threads, isa.",
        nb::sig("def machine(**options: typing.Any) -> Report"));
  m.def("plan", &plan, "options"_a,
        "Predicts memory and time of training, or with inference=True of inference, without a run. "
        "preset, config or model; hardware: 'this' or a data sheet such as 'h100'; batch_size, "
        "seq_len, micro_batches, dtype, level, passes, recompute, tokens, mfu, devices, zero.",
        nb::sig("def plan(**options: typing.Any) -> Report"));
}

}  // namespace

void bind_report(nb::module_& m) {
  nb::class_<Report>(m, "Report", "A record that shows itself, on a terminal and in a cell.")
      .def_prop_ro(
          "data",
          [](const Report& self) { return nb::module_::import_("json").attr("loads")(self.json); },
          "Its figures, as --json has them (docs/figures.md).",
          nb::sig("def data(self) -> typing.Any"))
      .def_ro("json", &Report::json)
      .def_ro("text", &Report::text)
      .def_ro("picture", &Report::picture, "SVG; empty if it has none")
      .def("compare", &compare, "other"_a,
           "The differences of another report's runs from those of this one, run by run and op by "
           "op, as `ridge diff` finds them; both are labs or imported traces. Raises UsageError if "
           "no runs have the same model, level, batch and length.")
      .def("page", &Report::page,
           "The whole report as one HTML page, which needs no network. Raises UsageError if the "
           "record is a text alone.")
      .def("save", &save, "path"_a, "Writes the page to a file.",
           nb::sig("def save(self, path: str | os.PathLike[str]) -> None"))
      .def("open", &open, "Opens the page in a browser.")
      .def("_repr_html_", &Report::html)
      .def("__str__", [](const Report& self) { return self.text; })
      .def("__repr__", [](const Report& self) { return self.text; });
  bind_records(m);
}

}  // namespace ridge::python
