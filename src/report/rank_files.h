// SPDX-License-Identifier: Apache-2.0
// The files that the folder of a run of several ranks has beside those of one: ranks.json with the
// times of each rank and each kind of collective, and traces with all ranks and with each.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/json_field.h"
#include "record/exchange_record.h"
#include "report/json_text.h"
#include "report/output_files.h"

namespace ridge::report {

inline constexpr const char* kRanksFile = "ranks.json";

// {version, clock, clock_error_ns, ranks, collectives, lanes of {rank, ops, slices of [op, begin,
// end]}}, in ns.
std::string ranks_json(const record::ExchangeRecord& exchange);

// The files of a lab of one run with those of its ranks: trace.json then has all of them, each also
// has a file of its own in "ranks", and the page shows them. Without ranks the files stay as they
// are.
std::vector<OutputFile> with_ranks(record::LabRecord& lab,
                                   const record::ExchangeRecord& exchange,
                                   const OutputFormat& format,
                                   std::vector<OutputFile> files);

// Adds "ranks" to the JSON of a summary, if there are any.
Json add_ranks(const std::optional<record::ExchangeRecord>& exchange, Json summary);

// Reads ranks.json. Throws bad-file Errors that name the field.
record::ExchangeRecord read_exchange(const files::JsonField& document);
// Reads a folder's file, if it has one.
std::optional<record::ExchangeRecord> read_exchange(const std::filesystem::path& folder);

}  // namespace ridge::report
