// SPDX-License-Identifier: Apache-2.0
// A kernel of a person's own in the place of an op: held against the op's reference in double
// precision, and timed next to Ridge's kernel. Compiles nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/source_kernel.h"
#include "bench/graph_trial.h"
#include "cost/ceilings.h"
#include "graph/op.h"
#include "record/bench_record.h"

namespace ridge::bench {

struct OwnKernel {
  std::string name;
  const Op* op = nullptr;
  std::vector<Type> inputs;
  Attrs attrs;
  // `launch` reads the inputs and writes all elements of the outputs; both may throw. On a CPU it
  // returns when that is done.
  backends::SourceKernel code = {.launch = {}, .wait = [] {}};

  // The types of the outputs, as the op infers them. Throws its usage Errors, and those of types
  // that are neither floats of 16 or 32 bits nor i32, and of ops that update an operand in place.
  std::vector<Type> outputs() const;
};

// The largest difference from the op's reference over the largest magnitude of an output, on random
// data in the memory of the backend, whose device runs the kernel. Throws a usage Error for an op
// without a reference.
double kernel_error(const OwnKernel& kernel, backends::Backend& backend);
// The relative error that sums and functions of the type have at most: 1e-4 for f32.
double usual_error(DType dtype);

// Times the kernel and the one that Ridge has at the setting's level, on the same sizes.
record::BenchRecord time_kernel(const OwnKernel& kernel,
                                const TrialSetting& setting,
                                backends::Backend& backend,
                                const cost::Ceilings* ceilings);

}  // namespace ridge::bench
