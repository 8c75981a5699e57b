// SPDX-License-Identifier: Apache-2.0
// Binds models, answers and their accounts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "python/answer.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/keywords.h"
#include "python/model.h"
#include "python/place.h"
#include "python/report.h"
#include "python/requests.h"
#include "python/type_names.h"
#include "report/terminal.h"
#include "serve/kept_sequence.h"
#include "serve/text_score.h"
#include "serve/text_values.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// The first rank would wait for one that fails.
void follow_or_fail(LoadOptions options, SharedRanks ranks) {
  const nb::gil_scoped_release release;
  try {
    follow(std::move(options), *ranks);
  } catch (const Error& error) {
    ranks->watch().fail(error.what(), static_cast<int>(error.code()));
  }
}

std::shared_ptr<Model> load(nb::handle path, const nb::kwargs& given) {
  LoadOptions options;
  serve::InferenceOptions& o = options.inference;
  o.model = path_of(path);
  Keywords keywords(given);
  std::string dtype;
  int64_t ranks = 1;
  keywords.take("tensor_parallel", ranks);
  take_machine(keywords, o.machine);
  take_dtype(keywords, "dtype", dtype), take_dtype(keywords, "cache_dtype", o.cache_dtype);
  keywords.take("context", o.context);
  keywords.take("random_weights", o.random_weights);
  keywords.take_path("tokenizer", o.tokenizer);
  keywords.take_path("adapter", o.adapter), keywords.take("level", o.level.level);
  keywords.take("passes", o.level.switches), keywords.take("attention", o.level.attention);
  keywords.take("chunk", o.chunk), keywords.take("fast_8bit", o.fast_8bit);
  keywords.take("max_sequences", options.max_sequences);
  keywords.take("prefix_caching", options.prefix_caching);
  keywords.expect_none_left();
  o.exact = expect_exact_or_default(dtype);
  SharedRanks joined = join_for_model(ranks, o.model, given, o.machine);
  if (joined != nullptr) serve::share_model(o, *joined);
  if (joined != nullptr && !joined->is_first()) {
    follow_or_fail(std::move(options), std::move(joined));
    end_follower();
  }
  const nb::gil_scoped_release release;
  return std::make_shared<Model>(std::move(options), std::move(joined));
}

std::shared_ptr<Answer> begin(std::shared_ptr<Model> model, serve::Request request) {
  model->tokenizer();
  const nb::gil_scoped_release release;
  return std::make_shared<Answer>(std::move(model), std::move(request));
}

Result finished(Answer& answer) {
  const nb::gil_scoped_release release;
  while (answer.next()) {
  }
  return answer.result();
}

serve::Request request_of_all(const nb::kwargs& given) {
  Keywords keywords(given);
  serve::Request request = request_of(keywords);
  keywords.expect_none_left();
  return request;
}

std::shared_ptr<Answer> begin_with(const std::shared_ptr<Model>& self,
                                   serve::Request request,
                                   nb::handle prompt) {
  request.prompt = prompt_ids(*self, prompt);
  return begin(self, std::move(request));
}

std::shared_ptr<Answer> stream(const std::shared_ptr<Model>& self,
                               nb::handle prompt,
                               const nb::kwargs& given) {
  return begin_with(self, request_of_all(given), prompt);
}

Result generate(const std::shared_ptr<Model>& self, nb::handle prompt, const nb::kwargs& given) {
  if (is_list_of_prompts(prompt)) throw nb::next_overload();
  return finished(*stream(self, prompt, given));
}

nb::list generate_each(const std::shared_ptr<Model>& self,
                       nb::handle prompts,
                       const nb::kwargs& given) {
  const serve::Request request = request_of_all(given);
  std::vector<std::shared_ptr<Answer>> answers;
  for (nb::handle each : prompts) answers.push_back(begin_with(self, request, each));
  nb::list results;
  for (const auto& each : answers) results.append(nb::cast(finished(*each)));
  return results;
}

nb::object chat(const std::shared_ptr<Model>& self, nb::handle messages, const nb::kwargs& given) {
  Keywords keywords(given);
  serve::ChatFormatOptions format;
  bool streams = false;
  keywords.take("chat_template", format.name);
  keywords.take("parse_special", format.parses_messages), keywords.take("stream", streams);
  serve::Request request = request_of(keywords);
  keywords.expect_none_left();
  const PythonTokenizer& tokenizer = *self->tokenizer();
  request.prompt =
      serve::encode_chat(messages_of(messages), serve::chat_format(format, tokenizer.chat_template),
                         tokenizer.tokenizer);
  std::shared_ptr<Answer> answer = begin(self, std::move(request));
  return streams ? nb::cast(std::move(answer)) : nb::cast(finished(*answer));
}

// Calls `make` with the session, without the GIL.
template <typename Make>
auto made_by(Model& self, const Make& make) {
  decltype(make(std::declval<serve::Session&>(), std::declval<const Model::Pause&>())) made{};
  const nb::gil_scoped_release release;
  self.with_session(
      [&](serve::Session& session, const Model::Pause& pause) { made = make(session, pause); });
  return made;
}

// [V] of a sequence, [B,V] of a batch; with all [T,V] and [B,T,V].
nb::object logits(Model& self, nb::handle ids, bool all) {
  const IdRows given = id_rows_of(ids, "ids");
  if (all && !given.are_equally_long())
    throw usage_error("[ids] expected rows of equal length with all=True");
  std::vector<float> values = made_by(self, [&](serve::Session& session, const auto& pause) {
    std::vector<float> rows;
    for (const std::vector<int32_t>& row : given.rows) {
      std::vector<float> one = all ? serve::logits_of_all(session, row, pause)
                                   : serve::KeptSequence(session).feed(row, pause);
      if (given.is_one) return one;
      rows.insert(rows.end(), one.begin(), one.end());
    }
    return rows;
  });
  std::vector<int64_t> shape;
  if (!given.is_one) shape.push_back(std::ssize(given.rows));
  if (all) shape.push_back(std::ssize(given.rows[0]));
  shape.push_back(self.config().vocabulary);
  return array_of(std::move(values), shape);
}

nb::object logprobs(Model& self, nb::handle text) {
  const std::vector<int32_t> ids = prompt_ids(self, text);
  std::vector<float> values = made_by(self, [&](serve::Session& session, const auto& pause) {
    return serve::log_probabilities(session, ids, pause);
  });
  const auto extent = static_cast<int64_t>(values.size());
  return array_of(std::move(values), {&extent, 1});
}

nb::object embed(Model& self, nb::handle text, const std::string& pooling, bool normalize) {
  const serve::Pooling how = serve::parse_pooling(pooling);
  const bool are_many = is_list_of_prompts(text);
  std::vector<std::vector<int32_t>> texts;
  if (are_many)
    for (nb::handle each : text) texts.push_back(prompt_ids(self, each));
  else
    texts.push_back(prompt_ids(self, text));
  std::vector<float> values = made_by(self, [&](serve::Session& session, const auto& pause) {
    std::vector<float> all;
    for (const std::vector<int32_t>& ids : texts) {
      const std::vector<float> one = serve::embedding(session, ids, how, normalize, pause);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  });
  std::vector<int64_t> shape = {std::ssize(texts), self.config().hidden};
  if (!are_many) shape.erase(shape.begin());
  return array_of(std::move(values), shape);
}

double perplexity(Model& self, nb::handle text) {
  const std::vector<int32_t> ids = prompt_ids(self, text);
  return made_by(self, [&](serve::Session& session, const auto& pause) {
    return serve::score_text(session, self.options().inference, ids, [&](int64_t) { pause(); })
        .perplexity();
  });
}

// Its account in one row.
std::string account_text(const Result& r) {
  const serve::RequestMetrics& m = r.metrics;
  const double rate = m.decode_ns > 0 ? static_cast<double>(r.tokens - 1) / m.decode_ns * 1e9 : 0;
  report::Table table(
      "prompt | tokens | prefill | decode | tokens/s | FLOPs | bytes | MFU | MBU | <ended by");
  const auto share = [](std::optional<double> value) {
    return value ? fmt::format("{:.1f}%", 100 * *value) : "";
  };
  table.add({format_integer(r.prompt_tokens), format_integer(r.tokens), format_ns(m.prefill_ns),
             format_ns(m.decode_ns), rate > 0 ? fmt::format("{:.1f}", rate) : "",
             format_count(static_cast<double>(m.cost.executed_flops)),
             format_bytes(m.cost.read_bytes + m.cost.written_bytes), share(r.if_known(m.mfu())),
             share(r.if_known(m.mbu())), r.finish_reason});
  return table.text();
}

std::string score_text(const serve::ScoredToken& token) {
  return fmt::format("{} ({:.3f})", token.id, token.logprob);
}

void bind_result(nb::module_& m) {
  nb::class_<serve::ScoredToken>(m, "ScoredToken", "A token and the logarithm of its probability.")
      .def_ro("id", &serve::ScoredToken::id)
      .def_ro("logprob", &serve::ScoredToken::logprob, "natural logarithm, before temperature")
      .def("__repr__",
           [](const serve::ScoredToken& t) { return "<ridge.ScoredToken " + score_text(t) + ">"; });
  nb::class_<serve::TokenScores>(m, "TokenScores", "The scores of one generated token.")
      .def_ro("chosen", &serve::TokenScores::chosen)
      .def_ro("top", &serve::TokenScores::top, "the most likely tokens, the likeliest first")
      .def("__repr__", [](const serve::TokenScores& t) {
        std::string text = "<ridge.TokenScores " + score_text(t.chosen);
        for (size_t i = 0; i < t.top.size(); ++i)
          text += (i == 0 ? " of " : ", ") + score_text(t.top[i]);
        return text + ">";
      });
  using R = Result;
  nb::class_<R>(m, "Result", "A generated text with its account. Times are in nanoseconds.")
      .def_ro("text", &R::text)
      .def_ro("finish_reason", &R::finish_reason,
              "'stop' (an end token or a stop text), 'length' or 'cancelled'")
      .def_ro("prompt_tokens", &R::prompt_tokens)
      .def_ro("tokens", &R::tokens, "generated tokens, with one that ended the text")
      .def_ro("ids", &R::ids, "of the generated tokens")
      .def_ro("cached_tokens", &R::cached_tokens, "prompt tokens that the prefix cache held")
      .def_ro("logprobs", &R::logprobs, "one TokenScores for each token, if logprobs= asked")
      .def_prop_ro(
          "flops", [](const R& r) { return r.metrics.cost.executed_flops; },
          "what the kernels executed for this text")
      .def_prop_ro(
          "model_flops", [](const R& r) { return r.metrics.cost.model.flops; },
          "what the model defines, whatever kernels run")
      .def_prop_ro(
          "bytes",
          [](const R& r) { return r.metrics.cost.read_bytes + r.metrics.cost.written_bytes; },
          "planned bytes that kernels read and wrote for this text")
      .def_prop_ro(
          "needed_bytes", [](const R& r) { return r.metrics.cost.needed_bytes; },
          "weights and attended KV entries, each once a step: those of MBU")
      .def_prop_ro(
          "prefill_ns", [](const R& r) { return r.metrics.prefill_ns; },
          "from its start to the first token")
      .def_prop_ro(
          "decode_ns", [](const R& r) { return r.metrics.decode_ns; },
          "from the first token to the last")
      .def_prop_ro("queue_ns", [](const R& r) { return r.metrics.queue_ns; })
      .def_prop_ro(
          "predicted_prefill_ns",
          [](const R& r) { return r.if_known(r.metrics.predicted_prefill_ns); },
          "None until `ridge.machine()` has measured the ceilings once")
      .def_prop_ro("predicted_decode_ns",
                   [](const R& r) { return r.if_known(r.metrics.predicted_decode_ns); })
      .def_prop_ro(
          "mfu", [](const R& r) { return r.if_known(r.metrics.mfu()); },
          "its MACs at their peak over the measured time; None without ceilings")
      .def_prop_ro(
          "mbu", [](const R& r) { return r.if_known(r.metrics.mbu()); },
          "its needed bytes at the read bandwidth over the measured time")
      .def("__str__", [](const R& r) { return r.text; })
      .def("_repr_html_", [](const R& r) { return html_text(r.text + "\n\n" + account_text(r)); })
      .def("__repr__", [](const R& r) {
        return fmt::format("<ridge.Result: {}, {}, {}>", counted(r.tokens, "token"),
                           r.finish_reason, printable(r.text));
      });
}

void bind_answer(nb::module_& m) {
  nb::class_<Answer>(m, "Stream",
                     "An iterator of the pieces of a text, as they are generated. `result` is "
                     "complete after the last one; `close` ends the text early.")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> Stream"))
      .def("__next__",
           [](Answer& self) {
             std::optional<std::string> piece;
             {
               const nb::gil_scoped_release release;
               piece = self.next();
             }
             if (!piece) throw nb::stop_iteration();
             return *piece;
           })
      .def("_poll", &Answer::poll, nb::sig("def _poll(self) -> str | None"))
      .def_prop_ro("_descriptor", &Answer::descriptor)
      .def_prop_ro("result", [](const Answer& self) { return self.result(); })
      .def("close",
           [](Answer& self) {
             const nb::gil_scoped_release release;
             self.cancel();
           })
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Stream"))
      .def("__exit__", [](Answer& self, const nb::args&) { self.cancel(); })
      .def("__repr__", [](const Answer& self) {
        const Result& r = self.result();
        return fmt::format("<ridge.Stream: {}{}>", counted(r.tokens, "token"),
                           r.finish_reason.empty() ? "" : ", " + r.finish_reason);
      });
}

constexpr const char* kLoad =
    "Loads a model: a .gguf file, or a folder with config.json and safetensors.\n\n"
    "device: 'cpu' or 'cuda' (default: a GPU if there is one). dtype: 'fp32' computes exactly "
    "(default: weights and activations as the command line has them). cache_dtype: 'fp32', 'bf16', "
    "'i8', or on a GPU 'fp8'. threads: of the CPU (default: all). context: positions for which the "
    "KV cache has room (default: 2048, or the model's). max_sequences: sequences for which the KV "
    "cache has room, prompts that are computed together and open sessions (1). "
    "prefix_caching: whether a prompt reuses the cached beginning of an earlier one. random_weights: "
    "the path is a config.json or a known shape, like 'llama-2-7b', with random weights. tokenizer: "
    "the path of another tokenizer than the model's. adapter: a folder with a LoRA adapter. level, passes, attention, chunk, isa, fast_8bit: as the options "
    "of `ridge generate`. tensor_parallel: processes that share the model (1), on GPUs one each. They "
    "are started here, unless mpirun or torchrun started them: then all run the script up to here, "
    "and the first alone goes on.\n\n"
    "Raises ModelError, UsageError, MemoryError.";

constexpr const char* kGenerate =
    "Continues a prompt, a text or a list of ids. A list of prompts gives a list of Results in "
    "their order, computed max_sequences at a time.\n\n"
    "max_tokens: at most so many (256). temperature: 0 takes the most likely token (the default). "
    "top_k, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty, seed: as the options "
    "of `ridge generate`. stop: a text or texts that end the answer. logprobs: this number of "
    "alternatives for each token. ignore_end: whether end tokens are ignored.\n\n"
    "Ctrl-C raises KeyboardInterrupt within a step; the model stays usable.";

}  // namespace

void bind_model(nb::module_& m) {
  bind_result(m);
  bind_answer(m);
  m.def("load", &load, "path"_a, "options"_a, kLoad,
        nb::sig("def load(path: str | os.PathLike[str], *, device: typing.Any = None, "
                "dtype: typing.Any = None, cache_dtype: typing.Any = None, threads: int = 0, "
                "context: int | None = None, max_sequences: int = 1, "
                "prefix_caching: bool = False, random_weights: bool = False, "
                "tokenizer: str | os.PathLike[str] | None = None, "
                "adapter: str | os.PathLike[str] | None = None, "
                "level: str = 'compiled', passes: str = '', attention: str = 'level', "
                "chunk: int | None = None, isa: str | None = None, fast_8bit: bool = False, "
                "tensor_parallel: int = 1) -> Model"));
  nb::class_<Model>(m, "Model", "A loaded model. Threads may share it; `with` closes it.")
      .def(
          "generate", &generate, "prompt"_a, "options"_a, kGenerate,
          nb::sig(
              "def generate(self, prompt: str | collections.abc.Sequence[int], **options: typing.Any) -> Result"))
      .def(
          "generate", &generate_each, "prompts"_a, "options"_a,
          nb::sig(
              "def generate(self, prompts: list[str] | list[list[int]], **options: typing.Any) -> list[Result]"))
      .def(
          "stream", &stream, "prompt"_a, "options"_a,
          "The same as an iterator of pieces of text, for one prompt.",
          nb::sig(
              "def stream(self, prompt: str | collections.abc.Sequence[int], **options: typing.Any) -> Stream"))
      // The same function twice: type checkers learn what stream= returns.
      .def(
          "chat", &chat, "messages"_a, "options"_a,
          nb::sig(
              "def chat(self, messages: collections.abc.Sequence[dict[str, str]], *, stream: typing.Literal[True], **options: typing.Any) -> Stream"))
      .def(
          "chat", &chat, "messages"_a, "options"_a,
          "Answers a conversation: a list of {'role': 'system', 'user' or 'assistant', 'content': "
          "text}. Takes the options of `generate`, and chat_template: another template by name; "
          "parse_special: whether control tokens in messages are tokens; stream: whether to "
          "return a Stream.",
          nb::sig(
              "def chat(self, messages: collections.abc.Sequence[dict[str, str]], *, stream: typing.Literal[False] = False, **options: typing.Any) -> Result"))
      .def("logits", &logits, "ids"_a, nb::kw_only(), "all"_a = false,
           "The logits [V] after a sequence of ids [T], float32; with all=True [T, V], those after "
           "each id. The array is the engine's vector, not a copy. Several sequences, as an array "
           "[B, T] or a list of lists, give [B, V] or [B, T, V]; they are computed one after the "
           "other. Raises UsageError for ids out of range or more than the context.",
           nb::sig("def logits(self, ids: typing.Any, *, all: bool = False) -> typing.Any"))
      .def(
          "logprobs", &logprobs, "text"_a,
          "The natural logarithms of the probabilities of the tokens of a text or of ids [T], each "
          "given those before it: [T-1], float32. The first token has none.",
          nb::sig("def logprobs(self, text: typing.Any) -> typing.Any"))
      .def(
          "embed", &embed, "text"_a, nb::kw_only(), "pooling"_a = "mean", "normalize"_a = true,
          "The hidden states [D] after the last norm, float32: their mean over a text's tokens, or "
          "with pooling='last' those of its last token; normalize: divided by their Euclidean "
          "norm. A list of texts or of lists of ids gives [n, D].",
          nb::sig("def embed(self, text: typing.Any, *, pooling: str = 'mean', "
                  "normalize: bool = True) -> typing.Any"))
      .def("session", &open_session, "prompt"_a = nb::none(),
           "A sequence of the KV cache that the caller feeds, forks and shortens; begins with the "
           "prompt, a text or ids, if there is one. It is one of the max_sequences= of "
           "`ridge.load` until it is closed.",
           nb::sig("def session(self, prompt: typing.Any = None) -> Session"))
      .def("perplexity", &perplexity, "text"_a,
           "The perplexity of a text or of ids, by natural logarithms. A text that is longer than "
           "the context is cut into independent pieces; the first token of each does not count.",
           nb::sig("def perplexity(self, text: typing.Any) -> float"))
      .def_prop_ro(
          "tokenizer", [](const Model& self) { return self.tokenizer(); },
          "Raises ModelError if the model has none.")
      .def_prop_ro(
          "vocabulary", [](const Model& self) { return self.config().vocabulary; },
          "V, the number of logits")
      .def_prop_ro("parameters", [](const Model& self) { return self.config().parameters(); })
      .def_prop_ro("context", &Model::context, "positions for which the KV cache has room")
      .def_prop_ro("device", &Model::device)
      .def(
          "close",
          [](Model& self) {
            const nb::gil_scoped_release release;
            self.close();
          },
          "Ends what runs and releases the memory. Later calls raise UsageError.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Model"))
      .def("__repr__",
           [](const Model& self) {
             return fmt::format("<ridge.Model: {} parameters, {} layers, context {}, {}{}>",
                                format_count(static_cast<double>(self.config().parameters())),
                                self.config().layers, format_integer(self.context()), self.device(),
                                self.is_closed() ? ", closed" : "");
           })
      .def("__exit__", [](Model& self, const nb::args&) {
        const nb::gil_scoped_release release;
        self.close();
      });
}

}  // namespace ridge::python
