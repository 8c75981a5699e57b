// SPDX-License-Identifier: Apache-2.0
// Reads names out of objects, so that neither numpy nor torch need be imported.
#include "python/type_names.h"

#include <nanobind/stl/string.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "python/arrays.h"

namespace ridge::python {
namespace nb = nanobind;
namespace {

// Other names than those of base/dtype.h.
constexpr std::array kOtherNames = {
    std::pair{"float32", DType::kF32},
    std::pair{"float", DType::kF32},
    std::pair{"fp32", DType::kF32},
    std::pair{"float16", DType::kF16},
    std::pair{"half", DType::kF16},
    std::pair{"fp16", DType::kF16},
    std::pair{"bfloat16", DType::kBF16},
    std::pair{"float64", DType::kF64},
    std::pair{"double", DType::kF64},
    std::pair{"fp64", DType::kF64},
    std::pair{"int8", DType::kI8},
    std::pair{"int16", DType::kI16},
    std::pair{"int32", DType::kI32},
    std::pair{"int", DType::kI32},
    std::pair{"int64", DType::kI64},
    std::pair{"uint8", DType::kU8},
    std::pair{"uint16", DType::kU16},
    std::pair{"uint32", DType::kU32},
    std::pair{"uint64", DType::kU64},
    std::pair{"float8_e4m3fn", DType::kF8E4M3},
    std::pair{"float8_e5m2", DType::kF8E5M2},
};

std::optional<DType> named_dtype(std::string_view name) {
  for (const auto& [other, dtype] : kOtherNames)
    if (name == other) return dtype;
  return parse_dtype(name);
}

// "torch.float32" and "<class 'numpy.float32'>" without what surrounds the name.
std::string name_of(nb::handle given) {
  std::string name;
  if (nb::try_cast(given, name)) return name;
  if (nb::isinstance<nb::type_object>(given)) return nb::cast<std::string>(given.attr("__name__"));
  if (!nb::try_cast(nb::str(given), name)) return "";
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

DType dtype_of(nb::handle given) {
  if (!given.is_none())
    if (const std::optional<DType> found = named_dtype(name_of(given))) return *found;
  throw usage_error("[dtype] expected a type such as 'f32', 'bf16', 'i32' or torch.float32, got {}",
                    printable(nb::repr(given).c_str()));
}

void take_dtype(Keywords& keywords, const char* name, std::string& value) {
  nb::object given;
  keywords.take(name, given);
  if (!given.is_valid()) return;
  value = name_of(given);
  const std::optional<DType> dtype = named_dtype(value);
  if (dtype == DType::kF32) value = "fp32";
  if (dtype == DType::kF16) value = "fp16";
  if (dtype == DType::kBF16) value = "bf16";
  if (dtype == DType::kI8) value = "i8";
  if (dtype == DType::kF8E4M3) value = "fp8";
}

void take_device(Keywords& keywords, std::string& device) {
  nb::object given;
  keywords.take("device", given);
  if (!given.is_valid()) return;
  if (!nb::try_cast(given, device)) {
    if (!nb::hasattr(given, "type") || !nb::hasattr(given, "index"))
      throw usage_error("[device] expected 'cpu', 'cuda' or a torch.device, got {}",
                        type_name_of(given));
    if (!nb::try_cast(nb::str(given), device)) device.clear();
  }
  if (device == "cuda:0") device = "cuda";
  if (device.starts_with("cuda:"))
    throw usage_error(
        "[device] expected 'cuda', the first GPU, got {}: CUDA_VISIBLE_DEVICES chooses another "
        "before Ridge starts",
        printable(device));
}

}  // namespace ridge::python
