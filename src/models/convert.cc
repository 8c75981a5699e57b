// SPDX-License-Identifier: Apache-2.0
// Converts configuration, tokenizer and weights, each with its own writer.
#include "models/convert.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/dtype.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "models/config_gguf.h"
#include "models/config_json.h"
#include "models/rope_factors.h"
#include "models/stored_types.h"
#include "models/tokenizer_file.h"
#include "models/weight_names.h"
#include "models/weight_writer.h"
#include "text/tokenizer_tables.h"

namespace ridge::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFactors = "rope_freqs.weight";

// Resizes the vocabulary to the number of rows of the embedding table. Rows without a token become
// unused ids. A normal or byte token without a row is an Error, because text may produce it; others
// are left out.
void fit_vocabulary(text::TokenizerSpec& spec,
                    int64_t rows,
                    const std::string& source,
                    std::vector<std::string>& notes) {
  auto kept = static_cast<size_t>(rows);
  for (size_t id = kept; id < spec.tokens.size(); ++id) {
    text::TokenType type = text::type_of(spec, static_cast<int32_t>(id));
    if (type == text::TokenType::kNormal || type == text::TokenType::kByte)
      throw file_error(
          "[{}] expected at most {} tokens, one per row of the embedding table, found {}", source,
          rows, spec.tokens.size());
    notes.push_back(
        fmt::format("the token {} has no row in the table of embeddings and is left out",
                    printable(spec.tokens[id])));
  }
  spec.tokens.resize(kept);
  if (!spec.types.empty()) spec.types.resize(kept, text::TokenType::kUnused);
  if (!spec.scores.empty()) spec.scores.resize(kept);
  for (int32_t* id : {&spec.bos, &spec.eos, &spec.unknown, &spec.padding})
    if (*id >= rows) *id = text::kNoToken;
  std::erase_if(spec.end_of_generation, [&](int32_t id) { return id >= rows; });
  spec.add_bos = spec.add_bos && spec.bos != text::kNoToken;
  spec.add_eos = spec.add_eos && spec.eos != text::kNoToken;
}

// The state of one conversion that both formats share.
class Conversion {
 public:
  Conversion(const ModelFile& file, const ModelConfig& form, const ConvertOptions& options)
      : file_(file),
        options_(options),
        form_(form),
        parameters_(parameters_of(file.config())),
        weights_(
            file,
            form_,
            options.seed,
            [this](int64_t bytes) {
              done_ += bytes;
              if (options_.progress) options_.progress(done_, result_.bytes);
            },
            options.adapter) {
    if (options.adapter != nullptr) options.adapter->expect_all_of(parameters_);
  }

  const ModelConfig& form() const { return form_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // A matrix with columns in another order cannot keep its blocks.
  DType stored(const Parameter& parameter) const {
    const StoredWeight weight = file_.lookup()(parameter.name, parameter.shape);
    return weight.order.empty() ? weight.dtype : DType::kQ4_G128;
  }

  void add(const Parameter& parameter, std::string name, DType type) {
    const StoredWeight weight = file_.lookup()(parameter.name, parameter.shape);
    read_.insert({weight.name, weight.order});
    add(weights_.source(parameter, std::move(name), type));
  }
  void add(files::TensorSource source) {
    result_.tensors += 1;
    result_.bytes += source.bytes();
    sources_.push_back(std::move(source));
  }
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  // Adds a note for each tensor of the file that is not written.
  void note_unread() {
    if (!file_.has_weights()) return;
    for (const files::FileTensor& tensor : file_.tensors().all())
      if (!read_.contains(tensor.name) && tensor.name != kFactors)
        note(fmt::format("the tensor {} is no part of the model and is left out",
                         printable(tensor.name)));
  }

  std::vector<std::string>& notes() { return result_.notes; }
  std::span<const files::TensorSource> sources() const { return sources_; }
  ConvertResult result() && { return std::move(result_); }

 private:
  const ModelFile& file_;
  const ConvertOptions& options_;
  ModelConfig form_;
  std::vector<Parameter> parameters_;
  WeightWriter weights_;
  std::vector<files::TensorSource> sources_;
  std::set<std::string> read_;
  ConvertResult result_;
  int64_t done_ = 0;
};

// config.json has no name, so its folder's name is used, or that of a configuration in a file of
// another name.
std::string name_of(const ModelFile& file) {
  fs::path path = fs::absolute(file.path() / "").lexically_normal().parent_path();
  if (fs::is_directory(path)) return path.filename().string();
  const bool is_named = !file.has_weights() && path.filename() != "config.json";
  return is_named ? path.stem().string() : path.parent_path().filename().string();
}

ModelConfig gguf_form(const ModelFile& file) {
  ModelConfig form = file.config();
  form.rope_interleaved = facts(form.family).gguf_interleaves;
  form.norm_offset = 0;
  if (!file.is_gguf() && form.name == facts(form.family).model_type) form.name = name_of(file);
  return form;
}

// Adds the parameters, and notes for the types that differ from the requested one. Returns the
// requested type, or the type of most matrix elements if none is requested.
DType add_gguf_parameters(Conversion& made, const ConvertOptions& options) {
  std::map<DType, int64_t> elements, matrices;
  for (const Parameter& parameter : made.parameters()) {
    DType type = gguf_type(made.form(), parameter, made.stored(parameter), options.type);
    made.add(parameter, gguf_name(made.form().family, parameter.name), type);
    if (parameter.shape.rank() < 2) continue;
    elements[type] += parameter.shape.elements();
    matrices[type] += 1;
  }
  for (const auto& [type, count] : matrices)
    if (options.type && type != *options.type)
      made.note(fmt::format("{} matri{} {} and not {}", count, count == 1 ? "x is" : "ces are",
                            name(type), name(*options.type)));
  auto most = std::max_element(elements.begin(), elements.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return options.type.value_or(most->first);
}

void set_vocabulary(files::GgufWriter& writer, const ModelFile& file, Conversion& made) {
  std::optional<TokenizerFile> tokenizer = find_tokenizer(file);
  if (!tokenizer) {
    made.note("no tokenizer.json was found: the file has no vocabulary");
    writer.set("tokenizer.ggml.model", files::GgufValue("no_vocab"));
    return;
  }
  fit_vocabulary(tokenizer->spec, made.form().vocabulary, tokenizer->source, made.notes());
  set_tokenizer(writer, tokenizer->spec, tokenizer->chat_template);
}

}  // namespace

ConvertResult convert_to_gguf(const ModelFile& file,
                              const fs::path& out,
                              const ConvertOptions& options) {
  Conversion made(file, gguf_form(file), options);
  // This comes first, because it checks that the embedding table has the length of the configured
  // vocabulary; only then is a vocabulary of that length made.
  DType most = add_gguf_parameters(made, options);
  files::GgufWriter writer;
  std::vector<float> factors;
  if (file.is_gguf()) {
    writer.set_all(file.gguf().metadata());
    if (const files::FileTensor* kept = file.tensors().find(kFactors))
      made.add(files::source_of(*kept));
  } else {
    set_config(writer, made.form());
    set_vocabulary(writer, file, made);
    if (made.form().rope_scaling.kind == "llama3") {
      factors =
          rope_factors(made.form().rope_scaling, made.form().head_size, made.form().rope_theta);
      auto read = [&factors] { return std::as_bytes(std::span<const float>(factors)); };
      made.add({kFactors, DType::kF32, Shape{static_cast<int64_t>(factors.size())}, read});
    }
  }
  made.note_unread();
  writer.set("general.file_type", gguf_file_type(most));
  writer.set("general.quantization_version", uint32_t{2});
  writer.write(out, made.sources());
  return std::move(made).result();
}

ConvertResult convert_to_folder(const ModelFile& file,
                                const fs::path& out,
                                const ConvertOptions& options) {
  Conversion made(file, folder_form(file.config()), options);
  DType type = folder_type(file, made.parameters(), options.type);
  for (const Parameter& parameter : made.parameters()) made.add(parameter, parameter.name, type);
  made.note_unread();
  std::optional<TokenizerFile> tokenizer = find_tokenizer(file);
  files::AtomicFolder folder(out);
  if (tokenizer) {
    for (const auto& [name, text] : tokenizer_files(tokenizer->spec, tokenizer->chat_template))
      files::write_file(folder.inside() / name, text);
  } else {
    made.note("the model comes without a tokenizer: the folder has none");
  }
  files::write_file(folder.inside() / "config.json",
                    config_json(made.form(), type, tokenizer ? &tokenizer->spec : nullptr));
  files::write_safetensors_folder(folder.inside(), made.sources(), options.max_shard_bytes);
  folder.commit();
  return std::move(made).result();
}

}  // namespace ridge::models
