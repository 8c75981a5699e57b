// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a data sheet, and as the ceilings of a machine, which the program
// also caches. They are refused as a bad file, or have finite rates.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cost/hardware.h"
#include "fuzz/refusal.h"

namespace {

using namespace ridge;  // NOLINT: a program of one file
using fuzz::allow_refusal;
using fuzz::expect;

void use(const cost::Ceilings& ceilings) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const double ridge = cost::ridge_point(ceilings, dtype);
    expect(std::isfinite(ridge) && ridge > 0);
    expect(ceilings.mfu_reference(dtype).per_ns > 0);
  }
  expect(ceilings.mbu_reference().per_ns > 0 && ceilings.machine.memory_bytes >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  allow_refusal([&] { use(cost::ceilings_of(cost::hardware_from_json(text, "fuzz.json"))); });
  allow_refusal([&] {
    const cost::Ceilings read = cost::ceilings_from_json(text, "fuzz.json");
    use(read);
    expect(cost::to_json(cost::ceilings_from_json(cost::to_json(read), "again.json")) ==
           cost::to_json(read));
  });
  return 0;
}
