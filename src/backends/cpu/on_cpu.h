// SPDX-License-Identifier: Apache-2.0
// Launchers of CPU kernels, which are synchronous: on_cpu<Glu>(RIDGE_KERNELS(glu)).
#pragma once

#include <type_traits>

#include "backends/cpu/kernels/cache/kv_cache.h"
#include "backends/cpu/kernels/index_check.h"
#include "backends/index_names.h"
#include "backends/launcher.h"
#include "base/error.h"

namespace ridge::backends::cpu {

// The kernels of one name, which the arguments' types select.
#define RIDGE_KERNELS(name) [](const auto& call) { return name(call); }

// A kernel may return the first row whose index is out of range, or kNoBadRow; `names` then name
// its indices.
template <typename Given, typename Kernel>
Launcher<Given> one_on_cpu(Kernel kernel, const IndexNames& names = {}) {
  return [=](const Given& call, const char*) -> Launch {
    return [=] {
      if constexpr (std::is_void_v<decltype(kernel(call))>) {
        kernel(call);
      } else if (const int64_t bad_row = kernel(call); bad_row != kNoBadRow) {
        throw runtime_error("[{}] expected {} from -1 to {}, {} {} has another", names.op,
                            names.noun, call.vocabulary - 1, names.row, bad_row);
      }
    };
  };
}

template <typename... Given, typename Kernels>
Launchers<Given...> all_on_cpu(std::type_identity<Launchers<Given...>>,
                               Kernels kernels,
                               const IndexNames& names) {
  return {one_on_cpu<Given>(kernels, names)...};
}
template <template <typename> typename Given, typename Kernels>
TypedLaunchers<Given> on_cpu(Kernels kernels, const IndexNames& names = {}) {
  return all_on_cpu(std::type_identity<TypedLaunchers<Given>>(), kernels, names);
}
template <template <typename, typename> typename Given, typename Kernels>
PairLaunchers<Given> pairs_on_cpu(Kernels kernels, const IndexNames& names = {}) {
  return all_on_cpu(std::type_identity<PairLaunchers<Given>>(), kernels, names);
}

// Throws if a position, a slot or a block is out of range.
void expect_cells(const char* op, const CacheCells& cells);

// For kernels on the cells of a cache, which are checked before they run.
template <template <typename, typename> typename Given, typename Kernels>
CacheLaunchers<Given> on_cells(Kernels kernels) {
  const auto checked = [kernels]<typename One>(const One&) -> Launcher<One> {
    return [kernels](const One& call, const char* op) -> Launch {
      return [=] {
        expect_cells(op, call.cells);
        kernels(call);
      };
    };
  };
  return {checked(Given<float, float>()), checked(Given<uint16_t, uint16_t>()),
          checked(Given<float, uint16_t>()), checked(Given<float, int8_t>())};
}

}  // namespace ridge::backends::cpu
