// SPDX-License-Identifier: Apache-2.0
// Binds trainers, their steps and their parameters.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/training.h"

namespace ridge::python {
namespace nb = nanobind;
using namespace nb::literals;
using SharedTraining = std::shared_ptr<Training>;
namespace {

void take_paths(Keywords& keywords, const char* name, std::vector<std::string>& paths) {
  nb::object given;
  keywords.take(name, given);
  if (!given.is_valid()) return;
  if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))
    for (nb::handle each : given) paths.push_back(path_of(each));
  else
    paths.push_back(path_of(given));
}

void take_schedule(Keywords& keywords, train::ScheduleOptions& o) {
  keywords.take("steps", o.steps), keywords.take("tokens", o.tokens);
  keywords.take("batch_tokens", o.batch_tokens);
  keywords.take("lr", o.optimizer.learning_rate), keywords.take("clip", o.optimizer.clip_norm);
  keywords.take("weight_decay", o.optimizer.weight_decay), keywords.take("decay", o.decayed);
  keywords.take("lr_warmup", o.optimizer.warmup_steps), keywords.take("schedule", o.schedule);
  keywords.take("lr_decay", o.optimizer.decay_steps);
  keywords.take("lr_decay_begin", o.optimizer.decay_begin);
  keywords.take("min_lr", o.optimizer.minimum_rate);
}

SharedTraining make(const nb::kwargs& given) {
  Keywords keywords(given);
  TrainerOptions o;
  train::TrainingOptions& t = o.training;
  std::vector<std::string> model, config;
  take_paths(keywords, "model", model), take_paths(keywords, "config", config);
  take_paths(keywords, "data", o.data.data);
  if (model.size() + config.size() > 1 ||
      (given.contains("preset") && model.size() + config.size()))
    throw usage_error("[model] expected one of model, config and preset");
  if (!model.empty()) t.model.model_file = model[0];
  if (!config.empty()) t.model.config_file = config[0];
  keywords.take("preset", t.model.preset);
  keywords.take("level", t.level.level), keywords.take("passes", t.level.switches);
  keywords.take("dtype", t.level.dtype), keywords.take("attention", t.level.attention);
  take_machine(keywords, t.machine);
  keywords.take("batch_size", t.batch_size), keywords.take("seq_len", t.sequence);
  keywords.take("micro_batches", t.micro_batches), keywords.take("freeze", t.freeze);
  keywords.take("lora_rank", t.lora.rank), keywords.take("lora_alpha", t.lora.alpha);
  keywords.take("lora_targets", t.lora_targets);
  keywords.take("tokenizer", o.data.tokenizer), keywords.take("pack", o.data.pack);
  keywords.take("seed", o.data.seed);
  take_schedule(keywords, o.schedule);
  keywords.take("gradients", o.gradients);
  keywords.expect_none_left();
  const nb::gil_scoped_release release;
  return std::make_shared<Training>(std::move(o));
}

std::vector<train::Batch> batches_of(const Training& self, nb::handle ids, nb::handle labels) {
  const Integers given = integers_of(ids, "ids");
  if (labels.is_none()) return self.batches(given.values, nullptr);
  const Integers wanted = integers_of(labels, "labels");
  return self.batches(given.values, &wanted.values);
}

Step step(Training& self, nb::handle ids, nb::handle labels) {
  const std::vector<train::Batch> batches = batches_of(self, ids, labels);
  const nb::gil_scoped_release release;
  return self.step(batches);
}

nb::dict arrays_of(std::vector<train::SavedTensor> tensors) {
  nb::dict arrays;
  for (train::SavedTensor& each : tensors)
    arrays[each.name.c_str()] = array_of(std::move(each.values), each.shape.to_vector());
  return arrays;
}

nb::tuple gradients(Training& self, nb::handle ids, nb::handle labels) {
  const std::vector<train::Batch> batches = batches_of(self, ids, labels);
  train::LossGradients made;
  {
    const nb::gil_scoped_release release;
    made = self.gradients(batches);
  }
  return nb::make_tuple(made.loss, arrays_of(std::move(made.tensors)));
}

// The parameters as a mapping. Each look reads the store, so that it shows the state after the
// last step.
struct Parameters {
  SharedTraining training;

  std::vector<train::SavedTensor> all() const {
    const nb::gil_scoped_release release;
    return training->parameters();
  }
  nb::list names() const {
    nb::list names;
    for (const train::SavedTensor& each : all()) names.append(each.name);
    return names;
  }
  nb::object at(const std::string& name) const {
    for (train::SavedTensor& each : all())
      if (each.name == name) return array_of(std::move(each.values), each.shape.to_vector());
    throw nb::key_error(printable(name).c_str());
  }
  void set(const std::string& name, nb::handle value) const {
    Numbers numbers = numbers_of(value, name);
    const std::vector<train::SavedTensor> one = {{name, numbers.shape, std::move(numbers.values)}};
    const nb::gil_scoped_release release;
    training->replace(one);
  }
};

void bind_parameters(nb::module_& m) {
  nb::class_<Parameters>(m, "Parameters",
                         "The parameters of a trainer by their names in a model file, as float32 "
                         "arrays of the stored shape, copied from the device.")
      .def("keys", &Parameters::names, nb::sig("def keys(self) -> list[str]"))
      .def("__len__", [](const Parameters& self) { return nb::len(self.names()); })
      .def(
          "__iter__", [](const Parameters& self) { return nb::iter(self.names()); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__contains__",
           [](const Parameters& self, nb::handle name) {
             return nb::cast<bool>(self.names().attr("__contains__")(name));
           })
      .def("__getitem__", &Parameters::at, "name"_a,
           nb::sig("def __getitem__(self, name: str) -> typing.Any"))
      .def("__setitem__", &Parameters::set, "name"_a, "value"_a,
           nb::sig("def __setitem__(self, name: str, value: typing.Any) -> None"))
      .def(
          "arrays", [](const Parameters& self) { return arrays_of(self.all()); },
          "All of them in one dict, read once.",
          nb::sig("def arrays(self) -> dict[str, typing.Any]"));
}

void bind_step(nb::module_& m) {
  nb::class_<Step>(m, "Step", "A training step that has ended.")
      .def_ro("index", &Step::index, "0 is the first step")
      .def_ro("tokens", &Step::tokens, "in all its micro-batches")
      .def_ro("learning_rate", &Step::learning_rate)
      .def_prop_ro(
          "loss", [](const Step& s) { return s.result.loss; },
          "mean over the labels of its micro-batches, before the update")
      .def_prop_ro(
          "gradient_norm",
          [](const Step& s) {
            return s.result.gradient_norm < 0 ? std::optional<double>() : s.result.gradient_norm;
          },
          "before clipping; None without clip=")
      .def_prop_ro(
          "ns", [](const Step& s) { return s.result.elapsed_ns; }, "wall time")
      .def_prop_ro(
          "tokens_per_s",
          [](const Step& s) { return static_cast<double>(s.tokens) / s.result.elapsed_ns * 1e9; })
      .def("__repr__", [](const Step& s) {
        return fmt::format("<ridge.Step {}: loss {:.4f}>", s.index, s.result.loss);
      });
}

constexpr const char* kTrainer =
    "Trains a model; `for step in trainer` runs its steps. The arguments have the names and the "
    "defaults of `ridge train`:\n\n"
    "preset ('small'), config (a config.json) or model (a file or folder with weights); data (a "
    "text, data set or list of these; default: random ids); batch_size, seq_len, micro_batches, "
    "steps, tokens, batch_tokens; lr, clip, weight_decay, decay, lr_warmup, schedule, lr_decay, "
    "lr_decay_begin, min_lr; level, passes, dtype, attention; freeze, lora_rank, lora_alpha, "
    "lora_targets; tokenizer, pack, seed; device, threads, isa. gradients: whether `gradients` can "
    "read them, which makes the update a graph of its own.\n\n"
    "Raises UsageError, ModelError, MemoryError.";

}  // namespace

void bind_training(nb::module_& m) {
  bind_step(m);
  bind_parameters(m);
  nb::class_<Training>(m, "Trainer", kTrainer)
      .def(nb::new_(&make), "options"_a)
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> Trainer"))
      .def("__next__",
           [](Training& self) {
             throw_if_interrupted();
             std::optional<Step> step;
             {
               const nb::gil_scoped_release release;
               step = self.next();
             }
             if (!step) throw nb::stop_iteration();
             return *std::move(step);
           })
      .def("step", &step, "ids"_a, "labels"_a = nb::none(),
           "A step on these ids [micro_batches * batch_size, seq_len], ints. labels: of the same "
           "shape, -1 does not count (default: each token's next one; the last of a sequence has "
           "none).",
           nb::sig("def step(self, ids: typing.Any, labels: typing.Any = None) -> Step"))
      .def(
          "gradients", &gradients, "ids"_a, "labels"_a = nb::none(),
          "The loss of these ids, and its gradients by parameter, in a dict of float32 arrays; "
          "nothing is updated. Needs gradients=True.",
          nb::sig(
              "def gradients(self, ids: typing.Any, labels: typing.Any = None) -> tuple[float, dict[str, "
              "typing.Any]]"))
      .def_prop_ro(
          "parameters", [](const SharedTraining& self) { return Parameters{self}; },
          "A mapping from names to arrays, to read and to write.")
      .def(
          "save",
          [](Training& self, const nb::object& folder) {
            const std::string path = path_of(folder);
            const nb::gil_scoped_release release;
            self.save(path);
          },
          "folder"_a,
          "Writes config.json, model.safetensors and the tokenizer into a new folder, for Ridge "
          "and transformers; of LoRA the adapter.",
          nb::sig("def save(self, folder: str | os.PathLike[str]) -> None"))
      .def_prop_ro("steps", &Training::steps, "the number of steps of the iteration")
      .def_prop_ro("done", &Training::done, "the number of steps so far")
      .def_prop_ro("batch_size", [](const Training& t) { return t.step_options().batch_size; })
      .def_prop_ro("seq_len", [](const Training& t) { return t.step_options().sequence; })
      .def_prop_ro("micro_batches",
                   [](const Training& t) { return t.step_options().micro_batches; })
      .def_prop_ro("vocabulary", [](const Training& t) { return t.config().vocabulary; })
      .def("close", &Training::close, nb::call_guard<nb::gil_scoped_release>(),
           "Releases the memory. Later calls raise UsageError.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Trainer"))
      .def("__exit__", [](Training& self, const nb::args&) { self.close(); });
}

}  // namespace ridge::python
