// SPDX-License-Identifier: Apache-2.0
// Text files as documents. Not a subcommand.
#include "apps/data_input.h"

#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/hash.h"

namespace ridge::apps {

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

text::EncodeOptions document_options(const text::Tokenizer& tokenizer, const TextForm& form) {
  const text::TokenizerSpec& spec = tokenizer.spec();
  return {.parse_special = form.parse_special,
          .add_bos = spec.add_bos && spec.bos != text::kNoToken,
          .add_eos = form.has_end && spec.eos != text::kNoToken};
}

void read_documents(const std::filesystem::path& path,
                    const TextForm& form,
                    const text::DocumentStart& start,
                    int64_t input,
                    const text::TextSink& sink,
                    const std::function<void(int64_t)>& progress) {
  files::ByteStream stream(path);
  int64_t shown = 0;
  const text::TextSink counted = [&](const text::TextPart& part) {
    text::TextPart from = part;
    from.input = input;
    sink(from);
    if (progress) progress(stream.packed_bytes() - std::exchange(shown, stream.packed_bytes()));
  };
  if (is_json_lines(form, path))
    text::read_json_lines(stream, form.field, start, counted);
  else
    text::read_text(stream, start, counted);
}

std::string tokenizer_hash(const text::TokenizerSpec& spec) {
  files::Hash128 hash;
  auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(std::as_bytes(std::span(text)));
  };
  for (const std::string& token : spec.tokens) add(token);
  hash.update(std::as_bytes(std::span(spec.types)));
  for (const int32_t id : {spec.bos, spec.eos, spec.unknown, static_cast<int32_t>(spec.kind),
                           static_cast<int32_t>(spec.pre_tokenizer)})
    hash.update(std::as_bytes(std::span(&id, 1)));
  return hash.hex();
}

}  // namespace ridge::apps
