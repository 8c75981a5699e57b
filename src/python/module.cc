// SPDX-License-Identifier: Apache-2.0
// The module ridge._ridge: names what each file binds. No logic.
#include <nanobind/nanobind.h>

#include "python/binding.h"
#ifdef RIDGE_COURSES
#include "courses/courses.h"
#endif

NB_MODULE(_ridge, m) {
  using namespace ridge::python;
  nanobind::set_leak_warnings(false);  // a library prints nothing
  m.doc() = "Ridge's engine. Import `ridge` instead, which names what is public.";
  m.attr("__version__") = RIDGE_VERSION;
#ifdef RIDGE_COURSES
  ridge::courses::add_to_program();
#endif
  bind_errors(m);
  bind_tokenizer(m);
  bind_sequence(m);
  bind_model(m);
  bind_graph(m);
  bind_own(m);
  bind_training(m);
  bind_report(m);
  bind_import(m);
  bind_lab(m);
}
