// SPDX-License-Identifier: Apache-2.0
// Types and devices as Python's libraries name them: "float32", torch.float32, numpy.float32,
// numpy.dtype("float32"), torch.device("cuda"), "cuda:0".
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/dtype.h"
#include "python/keywords.h"

namespace ridge::python {

// The type that a name or an object of numpy, ml_dtypes or torch means. Throws a usage Error.
DType dtype_of(nanobind::handle given);

// Takes dtype= or another option of a type as the command line spells it: fp32, bf16, fp16, i8,
// fp8. Texts that name no type stay as they are. None leaves the value as it is.
void take_dtype(Keywords& keywords, const char* name, std::string& value);

// Takes device=: "cpu", "cuda", or the first GPU as "cuda:0". Throws a usage Error for another GPU,
// which an environment variable chooses.
void take_device(Keywords& keywords, std::string& device);

}  // namespace ridge::python
