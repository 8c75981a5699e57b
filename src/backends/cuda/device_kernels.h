// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity records tell this of the kernels, each kernel once. It keeps no times.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "record/profile.h"

namespace ridge::backends::cuda {

class DeviceKernels {
 public:
  // The index of the record's kernel in the list that `take` returns.
  int32_t index(const CUpti_ActivityKernel10& record);
  int32_t index(const CUpti_ActivityMemset4& record);
  int32_t index(const CUpti_ActivityMemcpy6& record);
  // Returns the kernels so far, and starts an empty list.
  std::vector<record::DeviceKernel> take();

 private:
  int32_t add(std::string key, const record::DeviceKernel& kernel);

  std::vector<record::DeviceKernel> kernels_;
  std::map<std::string, int32_t> index_of_;  // by name and launch geometry
};

}  // namespace ridge::backends::cuda
