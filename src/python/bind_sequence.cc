// SPDX-License-Identifier: Apache-2.0
// Binds the sequences that a caller feeds, and the engine of a server.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "python/answer.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/requests.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// Calls `use` with a model's sequences, without the GIL.
void with_sequences(Model& model, const Model::UseSequences& use) {
  const nb::gil_scoped_release release;
  model.with_sequences(use);
}

// A sequence of a model, by its number.
struct PythonSequence {
  PythonSequence(std::shared_ptr<Model> of, int64_t made) : model(std::move(of)), number(made) {}
  PythonSequence(const PythonSequence&) = delete;
  ~PythonSequence() { close(); }

  void close() {
    if (model->is_closed()) return;  // and the sequence with it
    try {
      with_sequences(*model, [&](serve::KeptSequences& all, serve::Session& session, const auto&) {
        all.close(session, number);
      });
    } catch (const std::exception&) {  // another thread has closed the model meanwhile
    }
  }
  // Calls `use` with the sequence. Throws a usage Error if it was closed.
  template <typename Use>
  void with(const Use& use) const {
    with_sequences(*model, [&](serve::KeptSequences& all, serve::Session&, const auto& pause) {
      use(all.at(number), pause);
    });
  }

  const std::shared_ptr<Model> model;
  const int64_t number;
};
using SharedSequence = std::shared_ptr<PythonSequence>;

nb::object feed(PythonSequence& self, nb::handle given) {
  // numpy's ints are ids too.
  int32_t one = 0;
  const bool is_id = !nb::hasattr(given, "__len__") && nb::try_cast(given, one);
  const std::vector<int32_t> ids = is_id ? std::vector{one} : prompt_ids(*self.model, given);
  std::vector<float> logits;
  self.with([&](serve::KeptSequence& sequence, const Model::Pause& pause) {
    logits = sequence.feed(ids, pause);
  });
  const auto extent = static_cast<int64_t>(logits.size());
  return array_of(std::move(logits), {&extent, 1});
}

SharedSequence session(const std::shared_ptr<Model>& model, nb::handle prompt) {
  int64_t number = 0;
  with_sequences(*model, [&](serve::KeptSequences& all, serve::Session& in, const auto&) {
    number = all.open(in);
  });
  auto made = std::make_shared<PythonSequence>(model, number);
  if (!prompt.is_none()) feed(*made, prompt);
  return made;
}

SharedSequence fork(const PythonSequence& self) {
  int64_t number = 0;
  with_sequences(*self.model, [&](serve::KeptSequences& all, serve::Session& in, const auto&) {
    number = all.fork(in, self.number);
  });
  return std::make_shared<PythonSequence>(self.model, number);
}

void truncate(const PythonSequence& self, int64_t length) {
  self.with([&](serve::KeptSequence& sequence, const auto&) { sequence.truncate(length); });
}

std::vector<int32_t> ids(const PythonSequence& self) {
  std::vector<int32_t> ids;
  self.with([&](serve::KeptSequence& sequence, const auto&) { ids = sequence.ids(); });
  return ids;
}

// The server's engine on a model.
struct PythonEngine {
  explicit PythonEngine(std::shared_ptr<Model> on) : model(std::move(on)) {}
  PythonEngine(const PythonEngine&) = delete;
  ~PythonEngine() { close(); }
  void close() {
    if (!std::exchange(is_open, false)) return;
    const nb::gil_scoped_release release;
    model->stop_engine();
  }
  void expect_open() const {
    if (!is_open) throw usage_error("[engine] expected an open engine, this one was closed");
  }

  const std::shared_ptr<Model> model;
  bool is_open = true;
};

std::shared_ptr<PythonEngine> make_engine(const std::shared_ptr<Model>& model,
                                          const nb::kwargs& given) {
  Keywords keywords(given);
  serve::EngineOptions o;
  o.max_batched_tokens = 0;  // a suitable number
  keywords.take("max_batched_tokens", o.max_batched_tokens);
  keywords.take("max_step_ms", o.step_ms), keywords.take("queue", o.queue);
  keywords.take("max_priority", o.most_priority), keywords.take("priority_ms", o.priority_ms);
  keywords.expect_none_left();
  {
    const nb::gil_scoped_release release;
    model->start_engine(std::move(o));
  }
  return std::make_shared<PythonEngine>(model);
}

std::shared_ptr<Answer> submit(const PythonEngine& self,
                               nb::handle prompt,
                               const nb::kwargs& given) {
  self.expect_open();
  Keywords keywords(given);
  serve::Request request = request_of(keywords);
  keywords.take("priority", request.priority), keywords.take("tenant", request.tenant);
  keywords.expect_none_left();
  request.prompt = prompt_ids(*self.model, prompt);
  const nb::gil_scoped_release release;
  return std::make_shared<Answer>(self.model, std::move(request), true);
}

nb::dict counts(const PythonEngine& self) {
  self.expect_open();
  serve::EngineCounts c;
  {
    const nb::gil_scoped_release release;
    c = self.model->counts();
  }
  nb::dict made;
  const std::pair<const char*, int64_t> numbers[] = {{"running", c.running},
                                                     {"waiting", c.waiting},
                                                     {"steps", c.steps},
                                                     {"prompt_tokens", c.prompt_tokens},
                                                     {"cached_tokens", c.cached_tokens},
                                                     {"generated_tokens", c.generated_tokens},
                                                     {"preemptions", c.preemptions},
                                                     {"refused", c.refused},
                                                     {"blocks", c.blocks},
                                                     {"blocks_in_use", c.blocks_in_use}};
  for (const auto& [name, number] : numbers) made[name] = number;
  made["mfu"] = c.mfu;
  made["mbu"] = c.mbu;
  return made;
}

void bind_engine(nb::module_& m) {
  nb::class_<PythonEngine>(m, "_Engine")
      .def(nb::new_(&make_engine), "model"_a, "options"_a)
      .def("submit", &submit, "prompt"_a, "options"_a,
           nb::sig("def submit(self, prompt: str | collections.abc.Sequence[int], **options: "
                   "typing.Any) -> Stream"))
      .def("counts", &counts, nb::sig("def counts(self) -> dict[str, typing.Any]"))
      .def("drain",
           [](const PythonEngine& self) {
             self.expect_open();
             const nb::gil_scoped_release release;
             self.model->drain();
           })
      .def("close", &PythonEngine::close);
}

constexpr const char* kSession =
    "A sequence of a model's KV cache that a caller feeds, forks and shortens. It is one of the "
    "max_sequences= of `ridge.load` until it is closed. Threads may share it.";

}  // namespace

nb::object open_session(const std::shared_ptr<Model>& model, nb::handle prompt) {
  return nb::cast(session(model, prompt));
}

void bind_sequence(nb::module_& m) {
  nb::class_<PythonSequence>(m, "Session", kSession)
      .def(
          "feed", &feed, "ids"_a,
          "Adds ids, one id, or a text to the sequence and returns the logits [V] after the last one, "
          "float32. Raises UsageError for more than the context has room for; the session stays "
          "as it was.",
          nb::sig("def feed(self, ids: typing.Any) -> typing.Any"))
      .def("fork", &fork,
           "A session with the same ids and a copy of their keys and values; nothing is computed "
           "again. Raises UsageError if all max_sequences are in use.")
      .def("truncate", &truncate, "length"_a,
           "Forgets the ids from `length` on. What a sliding window or a shared prefix no longer "
           "has is computed again by the next feed.")
      .def_prop_ro("ids", &ids, "the ids of the sequence")
      .def("__len__", [](const PythonSequence& self) { return ids(self).size(); })
      .def_prop_ro(
          "room",
          [](const PythonSequence& self) {
            return self.model->context() - static_cast<int64_t>(ids(self).size());
          },
          "the number of ids that the context has room for")
      .def("close", &PythonSequence::close, "Gives its place in the cache back.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Session"))
      .def("__repr__",
           [](const PythonSequence& self) {
             if (self.model->is_closed()) return std::string("<ridge.Session: closed>");
             try {
               return fmt::format("<ridge.Session: {} of {} ids>", ids(self).size(),
                                  self.model->context());
             } catch (const Error&) {
               return std::string("<ridge.Session: closed>");
             }
           })
      .def("__exit__", [](PythonSequence& self, const nb::args&) { self.close(); });
  bind_engine(m);
}

}  // namespace ridge::python
