// SPDX-License-Identifier: Apache-2.0
// The form of a file of documents, and the identity of a tokenizer.
#include "text/document_file.h"

#include <gtest/gtest.h>

#include "files/scratch.h"
#include "serve/bytes_tokenizer.h"

namespace ridge::text {
namespace {

TEST(DocumentFile, ItsNameOrTheOptionTellsTheForm) {
  EXPECT_TRUE(is_json_lines({}, "a/b.jsonl"));
  EXPECT_TRUE(is_json_lines({}, "b.ndjson.gz"));
  EXPECT_TRUE(is_json_lines({.format = "jsonl"}, "b.txt"));
  EXPECT_FALSE(is_json_lines({}, "b.txt.zst"));
  EXPECT_FALSE(is_json_lines({.format = "text"}, "b.jsonl"));
  EXPECT_FALSE(is_json_lines({}, "jsonl"));
  expect_form({.format = "auto"});
  files::expect_error([] { expect_form({.format = "json"}); }, ExitCode::kUsage,
                      "[text-format] expected auto, text or jsonl, got \"json\"");
}

TEST(DocumentFile, PartsSayWhichInputTheyAreFrom) {
  const files::ScratchFolder folder;
  files::write_plain(folder / "a.jsonl", "{\"line\": \"one\"}\n{\"line\": \"two\"}\n");
  std::vector<std::string> documents;
  int64_t bytes = 0;
  TextForm form;
  form.field = "line";
  read_documents(
      folder / "a.jsonl", form, {}, 5,
      [&](const TextPart& part) {
        EXPECT_EQ(part.input, 5);
        if (part.begins) documents.emplace_back();
        documents.back() += part.text;
      },
      [&](int64_t read) { bytes += read; });
  EXPECT_EQ(documents, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(bytes, 32);
}

TEST(DocumentFile, DocumentsEndWithTheTokenizersEnd) {
  const Tokenizer ends = serve::bytes_tokenizer(258), none = serve::bytes_tokenizer(258, false);
  EXPECT_TRUE(document_options(ends, {}).add_eos);
  EXPECT_FALSE(document_options(none, {}).add_eos);
  EXPECT_FALSE(document_options(ends, {.has_end = false}).add_eos);
  EXPECT_FALSE(document_options(ends, {}).add_bos);
}

TEST(TokenizerHash, TellsVocabulariesApart) {
  const TokenizerSpec spec = serve::bytes_tokenizer(258).spec();
  TokenizerSpec other = spec;
  EXPECT_EQ(tokenizer_hash(spec), tokenizer_hash(other));
  other.tokens[5] += "x";
  EXPECT_NE(tokenizer_hash(spec), tokenizer_hash(other));
  other = spec;
  other.eos = 0;
  EXPECT_NE(tokenizer_hash(spec), tokenizer_hash(other));
}

}  // namespace
}  // namespace ridge::text
