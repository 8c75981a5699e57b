// SPDX-License-Identifier: Apache-2.0
// Binds tokenizers.
#include "python/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/printable.h"
#include "python/arrays.h"
#include "python/binding.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

std::shared_ptr<PythonTokenizer> open(const std::string& path) {
  models::TokenizerFile file = models::read_tokenizer(std::filesystem::path(path));
  std::string chat = file.chat_template;
  return std::make_shared<PythonTokenizer>(models::make_tokenizer(std::move(file)), chat);
}

std::vector<int32_t> encode(const PythonTokenizer& self,
                            std::string_view text,
                            std::optional<bool> add_bos,
                            bool parse_special) {
  const nb::gil_scoped_release release;
  return self.tokenizer.encode(text, {.parse_special = parse_special,
                                      .add_bos = add_bos.value_or(self.tokenizer.spec().add_bos)});
}

std::string decoded(const PythonTokenizer& self, nb::handle ids, bool special) {
  return self.tokenizer.decode(ids_of(ids, "ids"), {.special = special});
}

nb::object decode(const PythonTokenizer& self, nb::handle ids, bool special) {
  const std::string text = decoded(self, ids, special);
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::bytes decode_bytes(const PythonTokenizer& self, nb::handle ids, bool special) {
  const std::string text = decoded(self, ids, special);
  return nb::bytes(text.data(), text.size());
}

serve::ChatFormat format_of(const PythonTokenizer& self, const std::string& name) {
  return serve::chat_format({.name = name, .parses_messages = false}, self.chat_template);
}

std::vector<int32_t> encode_chat(const PythonTokenizer& self,
                                 nb::handle messages,
                                 const std::string& chat_template) {
  return serve::encode_chat(messages_of(messages), format_of(self, chat_template), self.tokenizer);
}

}  // namespace

std::vector<text::ChatMessage> messages_of(nb::handle messages) {
  std::vector<text::ChatMessage> all;
  if (!nb::isinstance<nb::list>(messages) && !nb::isinstance<nb::tuple>(messages))
    throw usage_error("[messages] expected a list of dicts with role and content, got {}",
                      type_name_of(messages));
  for (nb::handle each : messages) {
    text::ChatMessage message;
    nb::dict fields;
    if (!nb::try_cast(each, fields) || !fields.contains("role") || !fields.contains("content") ||
        !nb::try_cast(fields["role"], message.role) ||
        !nb::try_cast(fields["content"], message.content))
      throw usage_error("[messages] expected dicts with the texts role and content, got {}",
                        printable(nb::repr(each).c_str()));
    all.push_back(std::move(message));
  }
  return all;
}

void bind_tokenizer(nb::module_& m) {
  nb::class_<PythonTokenizer>(m, "Tokenizer",
                              "Text to token ids and back. Threads may share one object.")
      .def(nb::new_(&open), "path"_a,
           "Opens a .gguf file, a tokenizer.json or a folder that has one. Raises ModelError.")
      .def("encode", &encode, "text"_a, nb::kw_only(), "add_bos"_a = nb::none(),
           "parse_special"_a = false,
           "The ids of a text. `add_bos`: whether the id that begins a text comes first (default: "
           "as the model's file says). `parse_special`: whether control tokens that are written "
           "in the text, such as <|im_end|>, become their ids.")
      .def(
          "decode", &decode, "ids"_a, nb::kw_only(), "special"_a = false,
          "The text of ids; bytes that are no UTF-8 become U+FFFD. `special`: whether control "
          "tokens appear as text. Raises UsageError for an id out of range.",
          nb::sig(
              "def decode(self, ids: collections.abc.Sequence[int], *, special: bool = False) -> str"))
      .def("decode_bytes", &decode_bytes, "ids"_a, nb::kw_only(), "special"_a = false,
           "The same as bytes, which need not be UTF-8.")
      .def("encode_chat", &encode_chat, "messages"_a, nb::kw_only(), "chat_template"_a = "",
           "The ids of a conversation, a list of {'role': ..., 'content': ...}, up to the point "
           "where the next answer begins. `chat_template`: another template by name, such as "
           "'chatml' (default: the file's). Raises UsageError for an unknown template or role.")
      .def_prop_ro(
          "chat_template", [](const PythonTokenizer& self) { return self.chat_template; },
          "The Jinja source of the file's chat template; empty if it has none.")
      .def("__len__", [](const PythonTokenizer& self) { return self.tokenizer.vocab_size(); })
      .def("__repr__",
           [](const PythonTokenizer& self) {
             return fmt::format("<ridge.Tokenizer: {} tokens{}>", self.tokenizer.vocab_size(),
                                self.chat_template.empty() ? "" : ", chat template");
           })
      .def_prop_ro(
          "vocabulary", [](const PythonTokenizer& self) { return self.tokenizer.vocab_size(); },
          "The number of tokens.");
}

}  // namespace ridge::python
