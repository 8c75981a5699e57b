// SPDX-License-Identifier: Apache-2.0
// Texts of the shares that a prefill or decode reaches of its machine's rates
// (record/rate_shares.h).
#pragma once

#include <string>
#include <vector>

#include "record/rate_shares.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// The columns of a table of shares, after those that name a run, and the cells of a run: shares of
// reading for a decode, else shares of multiplications.
inline constexpr const char* kSharesColumns =
    "multiplies ?2 | of theory | of multiply | reads ?3 | MBU | of limit | unpack-only ?1";
std::vector<std::string> shares_cells(const record::RateShares& shares, bool is_decode);

// The rates that the shares are of, by type, and the reasons of shares over 100%; sentences.
std::string shares_note(const std::vector<record::PhaseShares>& all,
                        const cost::Ceilings& ceilings);

}  // namespace ridge::report
