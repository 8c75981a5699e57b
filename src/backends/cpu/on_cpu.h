// SPDX-License-Identifier: Apache-2.0
// Launchers of CPU kernels, which are synchronous: on_cpu(glu<float>, glu<uint16_t>, glu<Float16>).
#pragma once

#include "backends/cpu/kernels/cache/kv_cache.h"
#include "backends/cpu/kernels/index_check.h"
#include "backends/index_names.h"
#include "backends/launcher.h"
#include "base/error.h"

namespace ridge::backends::cpu {

template <typename Given>
Launcher<Given> on_cpu(void (*kernel)(const Given&)) {
  return [kernel](const Given& call, const char*) -> Launch {
    return [kernel, call] { kernel(call); };
  };
}

template <typename F32, typename BF16, typename F16>
FloatLaunchers<F32, BF16, F16> on_cpu(void (*f32)(const F32&),
                                      void (*bf16)(const BF16&),
                                      void (*f16)(const F16&)) {
  return {{on_cpu(f32), on_cpu(bf16)}, on_cpu(f16)};
}

// For a kernel that returns the first row whose index is out of range, or kNoBadRow.
template <typename Given>
Launcher<Given> on_cpu(const IndexNames& names, int64_t (*kernel)(const Given&)) {
  return [names, kernel](const Given& call, const char*) -> Launch {
    return [names, kernel, call] {
      const int64_t bad_row = kernel(call);
      if (bad_row != kNoBadRow)
        throw runtime_error("[{}] expected {} from -1 to {}, {} {} has another", names.op,
                            names.noun, call.vocabulary - 1, names.row, bad_row);
    };
  };
}

template <typename F32, typename BF16, typename F16>
FloatLaunchers<F32, BF16, F16> on_cpu(const IndexNames& names,
                                      int64_t (*f32)(const F32&),
                                      int64_t (*bf16)(const BF16&),
                                      int64_t (*f16)(const F16&)) {
  return {{on_cpu(names, f32), on_cpu(names, bf16)}, on_cpu(names, f16)};
}

// Throws if a position, a slot or a block is out of range.
void expect_cells(const char* op, const CacheCells& cells);

// For a kernel on the cells of a cache, which are checked before it runs.
template <typename Given>
Launcher<Given> on_cells(void (*kernel)(const Given&)) {
  return [kernel](const Given& call, const char* op) -> Launch {
    return [op, kernel, call] {
      expect_cells(op, call.cells);
      kernel(call);
    };
  };
}

template <template <typename, typename> typename Given>
CacheLaunchers<Given> on_cells(void (*f32)(const Given<float, float>&),
                               void (*bf16)(const Given<uint16_t, uint16_t>&),
                               void (*f32_in_bf16)(const Given<float, uint16_t>&),
                               void (*f32_in_i8)(const Given<float, int8_t>&)) {
  return {{on_cells(f32), on_cells(bf16)}, on_cells(f32_in_bf16), on_cells(f32_in_i8)};
}

}  // namespace ridge::backends::cpu
