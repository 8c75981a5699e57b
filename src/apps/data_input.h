// SPDX-License-Identifier: Apache-2.0
// Text files and data sets that options name, as token ids. Not a subcommand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "text/documents.h"
#include "text/token_set.h"
#include "text/token_stream.h"
#include "text/tokenizer.h"

namespace ridge::apps {

// How a file is split into documents.
struct TextForm {
  std::string format = "auto";  // text, jsonl, or by the file's name
  std::string field = "text";   // of JSON Lines
  bool has_end = true;          // the tokenizer's EOS ends each document
  bool parse_special = false;
};
// Throws a usage Error for an unknown format.
void expect_form(const TextForm& form);
bool is_json_lines(const TextForm& form, const std::filesystem::path& path);

// What each document gets: BOS if the tokenizer's model expects it, EOS if there is one.
text::EncodeOptions document_options(const text::Tokenizer& tokenizer, const TextForm& form);

// Reads a file's documents from `start` on; `input` is passed on with each part. Calls `progress`
// with the packed bytes read since the last call.
void read_documents(const std::filesystem::path& path,
                    const TextForm& form,
                    const text::DocumentStart& start,
                    int64_t input,
                    const text::TextSink& sink,
                    const std::function<void(int64_t)>& progress);

// Identifies a tokenizer: the same vocabulary, merges and special tokens give the same hash.
std::string tokenizer_hash(const text::TokenizerSpec& spec);

}  // namespace ridge::apps
