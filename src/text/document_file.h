// SPDX-License-Identifier: Apache-2.0
// Files of documents: texts or JSON Lines, as options name them, and how their documents are
// encoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "text/documents.h"
#include "text/tokenizer.h"

namespace ridge::text {

// How a file is split into documents.
struct TextForm {
  std::string format = "auto";  // text, jsonl, or by the file's name
  std::string field = "text";   // the key of the text in a line of JSON Lines
  bool has_end = true;          // the tokenizer's EOS ends each document
  bool parse_special = false;
};
// Throws a usage Error for an unknown format.
void expect_form(const TextForm& form);
bool is_json_lines(const TextForm& form, const std::filesystem::path& path);

// Each document gets BOS if the tokenizer's model expects it, and EOS if there is one.
EncodeOptions document_options(const Tokenizer& tokenizer, const TextForm& form);

// Reads a file's documents from `start` on; `input` is passed on with each part. Calls `progress`
// with the packed bytes read since the last call.
void read_documents(const std::filesystem::path& path,
                    const TextForm& form,
                    const DocumentStart& start,
                    int64_t input,
                    const TextSink& sink,
                    const std::function<void(int64_t)>& progress);

}  // namespace ridge::text
