// SPDX-License-Identifier: Apache-2.0
// Limits Highway and oneDNN to one instruction set.
#include "backends/cpu/isa.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"

namespace ridge::backends::cpu {

void set_isa(std::string_view isa) {
  if (isa.empty()) return;
  bool has_avx512 = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL)) != 0;
  if (isa == "avx2") {
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  } else if (isa == "avx512") {
    if (!has_avx512) throw usage_error("[isa] this machine has no AVX-512");
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
  } else if (isa == "amx") {
    if (!__builtin_cpu_supports("amx-bf16")) throw usage_error("[isa] this machine has no AMX");
  } else {
    throw usage_error("[isa] expected one of avx2, avx512, amx; got '{}'", isa);
  }
}

std::string isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_amx:
      return "amx";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_bf16";
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core:
      return "avx512";
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx2:
      return "avx2";
    default:
      return "sse4.1";
  }
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string gemm_library() {
  const dnnl_version_t* version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

bool has_bf16_products() {
  std::string isa = isa_name();
  return isa == "amx" || isa == "avx512_bf16";
}

bool has_bf16_tiles() { return isa_name() == "amx"; }

QuantizedIsa quantized_isa() { return has_bf16_tiles() ? QuantizedIsa::kAmx : vector_isa(); }

}  // namespace ridge::backends::cpu
