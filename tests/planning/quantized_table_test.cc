// SPDX-License-Identifier: Apache-2.0
// The table of quantized GEMMs, as ridge explain prints it.
#include "planning/explain_text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ridge::planning {
namespace {

TEST(QuantizedTable, HasEachRowOfTheTable) {
  report::TerminalOptions wide;
  wide.columns = 200;
  const std::string text = quantized_table_text(backends::cpu::QuantizedIsa::kAvx2, wide);
  for (const backends::cpu::QuantizedRow& row : backends::cpu::quantized_rows())
    EXPECT_NE(text.find(std::string(row.kernel->file) + ".cc"), std::string::npos);
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'),
            static_cast<int64_t>(backends::cpu::quantized_rows().size()));
  EXPECT_NE(text.find("This machine runs avx2"), std::string::npos) << text;
  EXPECT_NE(text.find("quantize_activations=8: i8 for 1 token"), std::string::npos) << text;
  EXPECT_LT(text.find("quantize_activations=16: "), text.find("; quantize_activations=8: "));
}

// A row for formats of few bits says so, and no other row does.
TEST(QuantizedTable, NamesTheRowsOfSmallQuants) {
  report::TerminalOptions wide;
  wide.columns = 200;
  const std::string text = quantized_table_text(backends::cpu::QuantizedIsa::kAvx2, wide);
  int64_t named = 0;
  for (size_t at = 0; (at = text.find(" to 6 bits", at)) != std::string::npos; ++at) ++named;
  EXPECT_EQ(named, std::ranges::count_if(
                       backends::cpu::quantized_rows(), [](int most) { return most == 63; },
                       &backends::cpu::QuantizedRow::most_quant));
  EXPECT_GT(named, 0);
}

}  // namespace
}  // namespace ridge::planning
