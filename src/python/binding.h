// SPDX-License-Identifier: Apache-2.0
// The parts of the module, a file each.
#pragma once

#include <nanobind/nanobind.h>

namespace ridge::python {

void bind_errors(nanobind::module_& m);
void bind_tokenizer(nanobind::module_& m);
void bind_model(nanobind::module_& m);
void bind_sequence(nanobind::module_& m);
void bind_value(nanobind::module_& m);
void bind_graph(nanobind::module_& m);
void bind_own(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_report(nanobind::module_& m);
void bind_import(nanobind::module_& m);
void bind_lab(nanobind::module_& m);
void bind_graph_cost(nanobind::module_& m);

}  // namespace ridge::python
