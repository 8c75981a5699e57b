// SPDX-License-Identifier: Apache-2.0
// The table of core widths.
#include "backends/cpu/calibration/core_widths.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

namespace ridge::backends::cpu {
namespace {

constexpr std::string_view kAmd = "AuthenticAMD", kIntel = "GenuineIntel";

constexpr std::string_view kZen1 =
    "AMD: Software Optimization Guide for Family 17h (55723): 128-bit units, one for integer products";
constexpr std::string_view kZen2 =
    "AMD: Software Optimization Guide for Family 17h Models 30h and greater (56305); integer products "
    "on one pipe as in LLVM's model of Zen 2";
constexpr std::string_view kZen3 =
    "AMD: Software Optimization Guide for Family 19h (56665): FMA on pipes 0 and 1, integer products "
    "on pipes 0 and 3; measured 2.00 of each per cycle";
constexpr std::string_view kZen4 =
    "AMD: Software Optimization Guide for Zen 4 (57647): a 512-bit instruction takes a 256-bit unit "
    "for two cycles";
constexpr std::string_view kZen5 =
    "AMD: Software Optimization Guide for Zen 5 (58455): 512-bit units, two that multiply";
constexpr std::string_view kZen5Mobile =
    "AMD: Software Optimization Guide for Zen 5 (58455); Chips and Cheese on Strix Point: units of 256 "
    "bits";
constexpr std::string_view kHaswell =
    "Intel: Optimization Reference Manual (248966), Haswell: FMA on ports 0 and 1, integer products on "
    "port 0";
constexpr std::string_view kSkylake =
    "Intel: Optimization Reference Manual (248966), Skylake: FMA and integer products on ports 0 and 1";
constexpr std::string_view kSkylakeServer =
    "Intel: Optimization Reference Manual (248966), Skylake Server: 512-bit products on ports 0 and 5; "
    "some models have only port 0";
constexpr std::string_view kCooperLake =
    "Intel: Optimization Reference Manual (248966), Skylake Server and Ice Lake: 512-bit products on "
    "ports 0 and 5; vdpbf16ps unknown";
constexpr std::string_view kIceLakeClient =
    "Intel: Optimization Reference Manual (248966), Ice Lake Client: 512-bit products on port 0, which "
    "joins ports 0 and 1";
constexpr std::string_view kSapphireRapids =
    "Intel: Optimization Reference Manual (248966), Sapphire Rapids: 512-bit products on ports 0 and 5, "
    "a tile product every 16 cycles; vdpbf16ps measured: one every two cycles";
constexpr std::string_view kGoldenCove =
    "Intel: Optimization Reference Manual (248966), Golden Cove: FMA and integer products on ports 0 "
    "and 1, of the performance cores; efficient cores are narrower";

constexpr double kTile = 1.0 / 16;

// In the order of Multiplier: vfmadd ymm, zmm; vpmaddwd ymm, zmm; vpdpwssd zmm; vpmaddubsw ymm,
// zmm; vpdpbusd zmm; vdpbf16ps zmm; tdpbf16ps; tdpbusd.
using Widths = std::array<double, kMultipliers>;
constexpr Widths kHalf256 = {1, 0, 0.5, 0, 0, 0.5, 0, 0, 0, 0, 0};
constexpr Widths kOneInteger256 = {2, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0};
constexpr Widths kTwo256 = {2, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0};
constexpr Widths kOne512 = {2, 1, 2, 1, 1, 2, 1, 1, 1, 0, 0};
constexpr Widths kOne512Vnni = {2, 1, 2, 1, 1, 2, 1, 1, 0, 0, 0};
constexpr Widths kTwo512 = {2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0};
constexpr Widths kTwo512Vnni = {2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0};
constexpr Widths kTwo512Tiles = {2, 2, 2, 2, 2, 2, 2, 2, 0.5, kTile, kTile};

// Models by the numbers in Linux's arch/x86/include/asm/intel-family.h and
// arch/x86/kernel/cpu/amd.c.
constexpr CoreWidths kTable[] = {
    {"Zen", kAmd, 0x17, 0x00, 0x2f, kHalf256, kZen1},
    {"Zen 2", kAmd, 0x17, 0x30, 0xaf, kOneInteger256, kZen2},
    {"Zen 3", kAmd, 0x19, 0x00, 0x0f, kTwo256, kZen3},
    {"Zen 4", kAmd, 0x19, 0x10, 0x1f, kOne512, kZen4},
    {"Zen 3", kAmd, 0x19, 0x20, 0x5f, kTwo256, kZen3},
    {"Zen 4", kAmd, 0x19, 0x60, 0xaf, kOne512, kZen4},
    {"Zen 5", kAmd, 0x1a, 0x00, 0x1f, kTwo512, kZen5},               // servers
    {"Zen 5 mobile", kAmd, 0x1a, 0x20, 0x2f, kOne512, kZen5Mobile},  // Strix Point
    {"Zen 5", kAmd, 0x1a, 0x40, 0x4f, kTwo512, kZen5},               // desktops
    {"Zen 5 mobile", kAmd, 0x1a, 0x60, 0x6f, kOne512, kZen5Mobile},  // Krackan Point
    {"Zen 5", kAmd, 0x1a, 0x70, 0x7f, kTwo512, kZen5},               // Strix Halo
    {"Haswell", kIntel, 6, 0x3c, 0x3d, kOneInteger256, kHaswell},    // and Broadwell
    {"Haswell", kIntel, 6, 0x3f, 0x3f, kOneInteger256, kHaswell},
    {"Haswell", kIntel, 6, 0x45, 0x47, kOneInteger256, kHaswell},
    {"Skylake", kIntel, 6, 0x4e, 0x4e, kTwo256, kSkylake},
    {"Broadwell", kIntel, 6, 0x4f, 0x4f, kOneInteger256, kHaswell},
    {"Skylake Server", kIntel, 6, 0x55, 0x55, kTwo512Vnni, kSkylakeServer},  // and Cascade Lake
    {"Broadwell", kIntel, 6, 0x56, 0x56, kOneInteger256, kHaswell},
    {"Skylake", kIntel, 6, 0x5e, 0x5e, kTwo256, kSkylake},
    {"Ice Lake Server", kIntel, 6, 0x6a, 0x6a, kTwo512Vnni, kCooperLake},
    {"Ice Lake Server", kIntel, 6, 0x6c, 0x6c, kTwo512Vnni, kCooperLake},
    {"Ice Lake", kIntel, 6, 0x7d, 0x7e, kOne512Vnni, kIceLakeClient},
    {"Tiger Lake", kIntel, 6, 0x8c, 0x8d, kOne512Vnni, kIceLakeClient},
    {"Skylake", kIntel, 6, 0x8e, 0x8e, kTwo256, kSkylake},
    {"Sapphire Rapids", kIntel, 6, 0x8f, 0x8f, kTwo512Tiles, kSapphireRapids},
    {"Alder Lake", kIntel, 6, 0x97, 0x97, kTwo256, kGoldenCove},
    {"Alder Lake", kIntel, 6, 0x9a, 0x9a, kTwo256, kGoldenCove},
    {"Skylake", kIntel, 6, 0x9e, 0x9e, kTwo256, kSkylake},
    {"Skylake", kIntel, 6, 0xa5, 0xa6, kTwo256, kSkylake},
    {"Rocket Lake", kIntel, 6, 0xa7, 0xa7, kOne512Vnni, kIceLakeClient},
    {"Granite Rapids", kIntel, 6, 0xad, 0xae, kTwo512Tiles, kSapphireRapids},
    {"Raptor Lake", kIntel, 6, 0xb7, 0xb7, kTwo256, kGoldenCove},
    {"Raptor Lake", kIntel, 6, 0xba, 0xba, kTwo256, kGoldenCove},
    {"Raptor Lake", kIntel, 6, 0xbf, 0xbf, kTwo256, kGoldenCove},
    {"Emerald Rapids", kIntel, 6, 0xcf, 0xcf, kTwo512Tiles, kSapphireRapids},
};

}  // namespace

Processor this_processor() {
  Processor found;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return found;
  char vendor[12];
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  found.vendor.assign(vendor, sizeof vendor);
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  const auto bits = [&](int from, int count) {
    return static_cast<int>(a >> from & ((1u << count) - 1));
  };
  found.family = bits(8, 4);
  found.model = bits(4, 4) | bits(16, 4) << 4;
  if (found.family == 15) found.family += bits(20, 8);
#endif
  return found;
}

const CoreWidths* core_widths(const Processor& processor) {
  for (const CoreWidths& each : kTable)
    if (each.vendor == processor.vendor && each.family == processor.family &&
        each.first_model <= processor.model && processor.model <= each.last_model)
      return &each;
  return nullptr;
}

double corrected_width(double per_cycle, double measured_per_cycle) {
  for (double factor : {1, 2, 4})
    if (measured_per_cycle <= kClockSlack * factor * per_cycle) return factor * per_cycle;
  return per_cycle;
}

}  // namespace ridge::backends::cpu
