// SPDX-License-Identifier: Apache-2.0
// Binds passes and kernels of a person's own.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/source_kernel.h"
#include "base/error.h"
#include "base/printable.h"
#include "bench/graph_file.h"
#include "bench/own_kernel.h"
#include "bench/own_pass.h"
#include "graph/text_form.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/errors.h"
#include "python/graph.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/report.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// A graph from its text form or as it was built. Results that nothing reads are outputs.
Graph graph_of(nb::handle given, const char* what) {
  std::string text;
  std::shared_ptr<PythonGraph> built;
  if (nb::try_cast(given, text))
    return bench::trial_of_outputs(parse_graph(text, ops::table())).graph;
  if (!nb::try_cast(given, built) || built == nullptr)
    throw usage_error("[{}] expected a Graph or its text form, got {}", what, type_name_of(given));
  return bench::trial_of_outputs(built->graph).graph;
}

std::shared_ptr<PythonPass> make_pass(std::string name,
                                      nb::handle pattern,
                                      nb::handle replacement,
                                      double tolerance) {
  auto made = std::make_shared<PythonPass>();
  made->rule = {std::move(name), graph_of(pattern, "pattern"),
                graph_of(replacement, "replacement")};
  const nb::gil_scoped_release release;
  const auto backend = backends::make_backend({.device = "cpu"}, passes::Selection("baseline", ""));
  made->error = bench::rule_error(made->rule, *backend);
  if (!(made->error <= tolerance))
    throw usage_error(
        "[{}] expected a replacement that computes what the pattern does, it differs by {:.3g} of "
        "the largest value (tolerance {:.3g})",
        made->rule.name, made->error, tolerance);
  return made;
}

// A function of Python gets the arrays of its inputs and returns those of its outputs.
void call_function(const nb::object& function,
                   const bench::OwnKernel& kernel,
                   const std::vector<Type>& outputs,
                   const backends::KernelTensor* from,
                   const backends::KernelTensor* to) {
  const nb::gil_scoped_acquire gil;
  nb::list arguments;
  const auto array = [](const backends::KernelTensor& tensor, DType dtype) {
    const std::vector<size_t> shape(tensor.shape, tensor.shape + tensor.rank);
    const nb::dlpack::dtype type = dtype == DType::kI32   ? nb::dtype<int32_t>()
                                   : dtype == DType::kF32 ? nb::dtype<float>()
                                                          : nb::dtype<uint16_t>();
    return nb::ndarray<nb::numpy>(tensor.data, shape.size(), shape.data(), nb::handle(), nullptr,
                                  type)
        .cast(nb::rv_policy::reference);
  };
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    arguments.append(array(from[i], kernel.inputs[i].dtype));
  nb::object made = function(*arguments);
  if (outputs.size() == 1) made = nb::make_tuple(made);
  if (!nb::isinstance<nb::sequence>(made) || nb::len(made) != outputs.size())
    throw usage_error("[{}] expected {} arrays of the function, got {}", kernel.name,
                      outputs.size(), type_name_of(made));
  const nb::object numpy = nb::module_::import_("numpy");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const nb::object target = array(to[i], outputs[i].dtype);
    numpy.attr("copyto")(target, made[i]);
  }
}

// A kernel in CUDA C++ that was compiled.
struct PythonSource {
  backends::SourceKernel code;
};

// The call of an op. The function comes with each use: Python's collector sees who holds it.
struct PythonKernel {
  bench::OwnKernel kernel;
  std::vector<Type> outputs;

  // With what computes it: a PythonSource, the address of a function in C, or a function of Python.
  bench::OwnKernel with(const nb::object& function) const {
    bench::OwnKernel made = kernel;
    if (std::shared_ptr<PythonSource> source; nb::try_cast(function, source) && source != nullptr) {
      made.code = source->code;
    } else if (nb::isinstance<nb::int_>(function)) {
      using InC = void (*)(const backends::KernelTensor*, const backends::KernelTensor*);
      const auto in_c = reinterpret_cast<InC>(nb::cast<uintptr_t>(function));
      made.code.launch = [in_c, inputs = kernel.inputs.size()](auto operands) {
        in_c(operands.data(), operands.data() + inputs);
      };
    } else {
      made.code.launch = [this, &function](auto operands) {
        call_function(function, kernel, outputs, operands.data(),
                      operands.data() + kernel.inputs.size());
      };
    }
    return made;
  }
};

// Where it runs.
std::string device_of(const nb::object& function) {
  return nb::isinstance<PythonSource>(function) ? "cuda" : "cpu";
}

using Operands = std::vector<std::pair<nb::object, std::vector<int64_t>>>;

std::shared_ptr<PythonKernel> make_kernel(std::string name,
                                          const std::string& like,
                                          const Operands& inputs,
                                          const nb::dict& attributes) {
  auto made = std::make_shared<PythonKernel>();
  bench::OwnKernel& kernel = made->kernel;
  kernel.name = std::move(name);
  kernel.op = &ops::table().at(like);
  for (const auto& [dtype, shape] : inputs)
    kernel.inputs.push_back(type_of(dtype, nb::cast(shape)));
  kernel.attrs = attrs_of(*kernel.op, nb::borrow<nb::kwargs>(attributes));
  made->outputs = kernel.outputs();
  return made;
}

std::array<int64_t, 3> extents(const std::vector<int64_t>& given, const char* what) {
  if (given.empty() || given.size() > 3)
    throw usage_error("[{}] expected an int or 1 to 3 of them, got {}", what, given.size());
  std::array<int64_t, 3> made = {1, 1, 1};
  std::ranges::copy(given, made.begin());
  return made;
}

// An empty grid: as many blocks as the elements of the first output need.
std::shared_ptr<PythonSource> compile_cuda(const PythonKernel& self,
                                           std::string text,
                                           const std::vector<int64_t>& grid,
                                           const std::vector<int64_t>& block,
                                           int64_t shared_bytes,
                                           std::vector<std::string> flags) {
  backends::KernelSource source{self.kernel.name, std::move(text)};
  source.block = extents(block, "block");
  const int64_t threads = source.block[0] * source.block[1] * source.block[2];
  source.grid =
      grid.empty() && threads > 0
          ? std::array<int64_t, 3>{ceil_div(self.outputs.at(0).shape.elements(), threads), 1, 1}
          : extents(grid, "grid");
  source.shared_bytes = shared_bytes;
  source.flags = std::move(flags);
  const nb::gil_scoped_release release;
  const auto operands = static_cast<int>(self.kernel.inputs.size() + self.outputs.size());
  return std::make_shared<PythonSource>(backends::cuda::compile_source(source, operands));
}

double kernel_error(const PythonKernel& self, const nb::object& function) {
  const bench::OwnKernel kernel = self.with(function);
  const std::string device = device_of(function);
  const nb::gil_scoped_release release;
  const auto backend =
      backends::make_backend({.device = device}, passes::Selection("baseline", ""));
  return bench::kernel_error(kernel, *backend);
}

Report kernel_profile(const PythonKernel& self,
                      const nb::object& function,
                      const nb::kwargs& given) {
  Keywords keywords(given);
  bench::TrialSetting setting;
  double seconds = 0.5;
  keywords.take("seconds", seconds);
  const std::string device = device_of(function);
  const Place place(keywords, device);
  keywords.expect_none_left();
  setting.budget_ns = budget_ns(seconds);
  setting.selection = place.selection;
  if (place.machine.device != device)
    throw usage_error("[device] expected {}, where this kernel runs, got {}", device,
                      printable(place.machine.device));
  Interrupts interrupts;
  setting.is_stopped = [&] { return interrupts.is_set(); };
  const std::optional<cost::Ceilings> ceilings = place.ceilings();
  const bench::OwnKernel kernel = self.with(function);
  record::BenchRecord record;
  {
    const nb::gil_scoped_release release;
    record = bench::time_kernel(kernel, setting, *place.backend, ceilings ? &*ceilings : nullptr);
  }
  interrupts.rethrow();
  record::LabRecord lab = about("ridge.kernel(\"" + self.kernel.name + "\")");
  lab.ceilings = ceilings;
  return bench_report(lab, record);
}

constexpr const char* kPass =
    "A pass of your own: where the nodes of `pattern` are found, those of `replacement` come in "
    "their place. Both are graphs with one output, built or in the text form; operands of the same "
    "name are the same value, and in the pattern each stands for any value. A node fits if its op "
    "and its attributes are the pattern's; extents may differ.\n\n"
    "Both are run on random data in double precision: `error` is the largest difference over the "
    "largest value. Raises UsageError if it is above `tolerance`, and for graphs that are no rule. "
    "`Graph.apply` applies it and verifies the result.";

}  // namespace

void bind_own(nb::module_& m) {
  nb::class_<PythonPass>(m, "Pass", kPass)
      .def(nb::new_(&make_pass), "name"_a, "pattern"_a, "replacement"_a, nb::kw_only(),
           "tolerance"_a = 1e-9)
      .def_prop_ro("name", [](const PythonPass& self) { return self.rule.name; })
      .def_ro("error", &PythonPass::error)
      .def(
          "matches",
          [](const PythonPass& self, const PythonGraph& graph) {
            return count_matches(graph.graph, self.rule);
          },
          "graph"_a, "The number of places of a graph where the pattern is found.",
          nb::sig("def matches(self, graph: Graph) -> int"))
      .def("__repr__",
           [](const PythonPass& self) { return "<ridge.Pass: " + self.rule.name + ">"; });
  nb::class_<PythonSource>(m, "_CudaKernel");
  nb::class_<PythonKernel>(m, "_Kernel")
      .def(nb::new_(&make_kernel), "name"_a, "like"_a, "inputs"_a, "attributes"_a)
      .def("cuda", &compile_cuda, "text"_a, "grid"_a, "block"_a, "shared_bytes"_a, "flags"_a)
      .def("error", &kernel_error, "function"_a)
      .def("usual_error",
           [](const PythonKernel& self) {
             return bench::usual_error(self.kernel.inputs.empty() ? DType::kF32
                                                                  : self.kernel.inputs[0].dtype);
           })
      .def("profile", &kernel_profile, "function"_a, "options"_a,
           nb::sig("def profile(self, function: typing.Any, **options: typing.Any) -> Report"));
}

}  // namespace ridge::python
