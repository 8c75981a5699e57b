// SPDX-License-Identifier: Apache-2.0
// Chooses the reader of a file by its form.
#include "text/document_file.h"

#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::text {

void expect_form(const TextForm& form) {
  if (form.format != "auto" && form.format != "text" && form.format != "jsonl")
    throw usage_error("[text-format] expected auto, text or jsonl, got {}", printable(form.format));
}

bool is_json_lines(const TextForm& form, const std::filesystem::path& path) {
  if (form.format != "auto") return form.format == "jsonl";
  std::filesystem::path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

EncodeOptions document_options(const Tokenizer& tokenizer, const TextForm& form) {
  const TokenizerSpec& spec = tokenizer.spec();
  return {.parse_special = form.parse_special,
          .add_bos = spec.add_bos && spec.bos != kNoToken,
          .add_eos = form.has_end && spec.eos != kNoToken};
}

void read_documents(const std::filesystem::path& path,
                    const TextForm& form,
                    const DocumentStart& start,
                    int64_t input,
                    const TextSink& sink,
                    const std::function<void(int64_t)>& progress) {
  files::ByteStream stream(path);
  int64_t shown = 0;
  const TextSink counted = [&](const TextPart& part) {
    TextPart from = part;
    from.input = input;
    sink(from);
    if (progress) progress(stream.packed_bytes() - std::exchange(shown, stream.packed_bytes()));
  };
  if (is_json_lines(form, path))
    read_json_lines(stream, form.field, start, counted);
  else
    read_text(stream, start, counted);
}

}  // namespace ridge::text
