// SPDX-License-Identifier: Apache-2.0
// Reads --shape and --sweep: extents by their letters, and the points that a sweep visits. Sizes
// that cannot be are refused here, before anything is allocated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/bench_record.h"

namespace ridge::bench {

// Far above any machine; products of six of them are checked where shapes are made.
inline constexpr int64_t kMostExtent = int64_t{1} << 40;
inline constexpr int64_t kMostPoints = 10'000;

// A letter of an op and the extent that it has unless --shape names another.
struct Letter {
  std::string name;
  int64_t usual = 1;
  std::string meaning;
};

// "n=1024,k=m=512". Throws usage Errors that name the option.
record::Extents parse_extents(const std::string& text, std::string_view option);

// The values that one or several letters take together.
struct Sweep {
  std::vector<std::string> letters;
  std::vector<int64_t> values;
};
// "n=k=m=256:4096*2,e=64,128" doubles three letters at once from 256 to 4096, and takes 64 and 128
// for e with each. "1:9+2" adds 2, "1:4" adds 1. Throws usage Errors.
std::vector<Sweep> parse_sweeps(const std::string& text, std::string_view option);

// Combines the sweeps' values, the last sweep fastest, over the usual extents and those of `shape`.
// Throws usage Errors for unknown letters, letters given twice, and above kMostPoints points.
std::vector<record::Extents> points(const std::vector<Letter>& letters,
                                    const record::Extents& shape,
                                    const std::vector<Sweep>& sweeps);

// The letter of the only sweep, by which points of a chart differ; empty for none or several.
std::string swept_letter(const std::vector<Sweep>& sweeps);

// "n (rows, 1024), d (columns, 1024)" for messages and help.
std::string describe(const std::vector<Letter>& letters);

// The lengths of prompts and contexts that are measured if none are chosen: 128 and 512, or less if
// the context of the model is shorter.
std::vector<int64_t> usual_lengths(int64_t context);

}  // namespace ridge::bench
