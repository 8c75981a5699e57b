// SPDX-License-Identifier: Apache-2.0
// Formats numbers for people: three significant digits, binary units for bytes of memory, decimal
// prefixes for counts and rates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

std::string format_bytes(int64_t bytes);  // "122 MiB"
// "4GiB", "1.5 GB", "500000": a number of bytes, KB to TB or KiB to TiB. Throws a usage Error that
// names the option.
int64_t parse_bytes(const std::string& text, std::string_view option);
// "60s", "2m" or "0.5": seconds without a unit; at most a day. Throws a usage Error that names the
// option.
double parse_budget_ns(const std::string& text, std::string_view option);
std::string format_count(double count);                        // "32.0 M", "203 G"
std::string format_rate(double per_second, const char* unit);  // "214 GFLOP/s" for unit "FLOP/s"
std::string format_ns(double ns);                              // "1.43 s", "12.1 ms", "850 us"
std::string format_integer(int64_t value);                     // "31,977,984"
std::string counted(int64_t count, std::string_view noun);     // "1 step", "1,024 steps"

}  // namespace base
}  // namespace ridge
