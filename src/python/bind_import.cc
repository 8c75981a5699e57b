// SPDX-License-Identifier: Apache-2.0
// Binds the traces of other programs as reports.
#include <nanobind/nanobind.h>

#include <string>

#include "cost/hardware.h"
#include "planning/target_hardware.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/keywords.h"
#include "python/report.h"
#include "python/this_machine.h"
#include "record/import/imported_run.h"
#include "record/import/trace_file.h"
#include "report/import_text.h"
#include "report/lab_files.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

Report import_trace(nb::handle path, const nb::kwargs& given) {
  Keywords keywords(given);
  std::string hardware;
  keywords.take("hardware", hardware);
  keywords.expect_none_left();
  const std::string file = path_of(path);
  const nb::gil_scoped_release release;
  const record::ForeignTrace trace = record::read_trace(file);
  const record::ImportedSteps steps = record::imported_steps(trace);
  record::LabRecord lab = about("ridge.import_trace");
  if (!hardware.empty()) {
    backends::MachineOptions machine;
    if (!steps.is_on_device) machine.device = "cpu";
    const passes::Selection plain("baseline", "");
    lab.ceilings =
        planning::choose_hardware(hardware, this_machine(machine, plain), false).ceilings;
  }
  lab.runs.push_back(record::imported_run(trace, steps, lab.limits()));
  lab.detailed.push_back(0);
  const record::ImportSummary summary = record::import_summary(trace, steps.attribution);
  Report made;
  made.files = report::output_files(lab);
  made.json = report::performance_summary(lab);
  made.text = report::import_text(summary, lab.runs[0], false, {});
  if (lab.ceilings) made.picture = roofline_picture(made.files);
  return made;
}

}  // namespace

void bind_import(nb::module_& m) {
  m.def(
      "import_trace", &import_trace, "path"_a, "options"_a,
      "A trace of torch.profiler, Nsight Systems or rocprofv3 as a report. hardware: its machine, "
      "for rooflines and MFU. Raises ModelError for a file that is none.",
      nb::sig("def import_trace(path: str | os.PathLike[str], **options: typing.Any) -> Report"));
}

}  // namespace ridge::python
