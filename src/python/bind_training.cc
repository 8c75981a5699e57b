// SPDX-License-Identifier: Apache-2.0
// Binds trainers, their steps and their parameters.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/keywords.h"
#include "python/place.h"
#include "python/training.h"
#include "python/type_names.h"

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
  keywords.take("spike_guard", o.spike_guard),
      keywords.take("spike_deviations", o.spike_deviations);
  keywords.take("loss_scale", o.loss_scaling.initial);
  keywords.take("loss_scale_interval", o.loss_scaling.growth_interval);
}

void take_observers(Keywords& keywords, train::ObserverOptions& o) {
  keywords.take_path("checkpoints", o.checkpoints);
  keywords.take("save_every", o.save_every), keywords.take("keep", o.policy.keep);
  keywords.take("keep_best", o.policy.keep_best), keywords.take("resume", o.resume);
  keywords.take("val_every", o.validate_every);
}

// An option that would do nothing is a mistake, as on the command line.
void refuse_unused(const Keywords& given,
                   const char* needed,
                   std::initializer_list<const char*> names) {
  if (given.has(needed)) return;
  for (const char* name : names)
    if (given.has(name)) throw usage_error("[{}] has no effect without {}=", name, needed);
}

void take_data(Keywords& keywords, train::TrainingDataOptions& data) {
  take_paths(keywords, "data", data.data), keywords.take_path("val_data", data.validation);
  keywords.take("val_batches", data.validation_batches);
  keywords.take_path("tokenizer", data.tokenizer), keywords.take("pack", data.pack);
  keywords.take("text_format", data.form.format), keywords.take("field", data.form.field);
  keywords.take("seed", data.seed);
}

SharedTraining make(const nb::kwargs& given) {
  Keywords keywords(given);
  refuse_unused(keywords, "data",
                {"val_data", "checkpoints", "tokenizer", "text_format", "field", "pack", "seed"});
  refuse_unused(keywords, "val_data", {"val_every", "val_batches", "keep_best"});
  refuse_unused(keywords, "checkpoints", {"save_every", "keep", "keep_best", "resume"});
  refuse_unused(keywords, "spike_guard", {"spike_deviations"});
  if (keywords.has("model") + keywords.has("config") + keywords.has("preset") > 1)
    throw usage_error("[model] expected one of model, config and preset, got several");
  TrainerOptions o;
  train::TrainingOptions& t = o.training;
  take_data(keywords, o.data), take_observers(keywords, o.observers);
  keywords.take_path("model", t.model.model_file);
  keywords.take_path("config", t.model.config_file);
  keywords.take("preset", t.model.preset);
  keywords.take("level", t.level.level), keywords.take("passes", t.level.switches);
  take_dtype(keywords, "dtype", t.level.dtype), keywords.take("attention", t.level.attention);
  take_machine(keywords, t.machine);
  keywords.take("batch_size", t.batch_size), keywords.take("seq_len", t.sequence);
  keywords.take("micro_batches", t.micro_batches), keywords.take("freeze", t.freeze);
  keywords.take("lora_rank", t.lora.rank), keywords.take("lora_alpha", t.lora.alpha);
  keywords.take("lora_targets", t.lora_targets);
  take_schedule(keywords, o.schedule);
  keywords.take("gradients", o.gradients);
  const RankKeywords ranks(keywords);
  keywords.expect_none_left();
  if (o.gradients && ranks.layout.ranks() > 1)
    throw usage_error("[gradients] expected one rank, got {}", ranks.layout.ranks());
  o.ranks = join_launched(ranks.layout, t.machine);
  o.sharing = ranks.sharing;
  const nb::gil_scoped_release release;
  return std::make_shared<Training>(std::move(o));
}

std::vector<train::Batch> batches_of(const Training& self, nb::handle ids, nb::handle labels) {
  const train::StepOptions& options = self.step_options();
  const int64_t vocabulary = self.config().vocabulary;
  const Integers given = integers_of(ids, "ids");
  if (labels.is_none()) return batches_of_ids(options, vocabulary, given.values, nullptr);
  const Integers wanted = integers_of(labels, "labels");
  return batches_of_ids(options, vocabulary, given.values, &wanted.values);
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
      .def("__repr__",
           [](const Parameters& self) {
             int64_t elements = 0;
             const auto all = self.all();
             for (const train::SavedTensor& each : all) elements += each.shape.elements();
             return fmt::format("<ridge.Parameters: {} arrays, {} elements>", all.size(),
                                format_integer(elements));
           })
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
      .def_prop_ro("tokens_per_s", &Step::tokens_per_s)
      .def_prop_ro(
          "skipped", [](const Step& s) { return s.result.skipped; },
          "whether the update was left out, by spike_guard= or because gradients overflowed fp16")
      .def_ro("validation_loss", &Step::validation_loss,
              "after this step, if it was one to validate; else None")
      .def("__repr__", [](const Step& s) {
        return fmt::format(
            "<ridge.Step {}: loss {:.4f}{}, {}, {}>", s.index, s.result.loss,
            s.validation_loss ? fmt::format(", validation loss {:.4f}", *s.validation_loss) : "",
            format_ns(s.result.elapsed_ns), format_rate(s.tokens_per_s(), "tokens/s"));
      });
}

constexpr const char* kTrainer =
    "Trains a model; `for step in trainer` runs its steps. The arguments have the names and the "
    "defaults of `ridge train`:\n\n"
    "preset ('small'), config (a config.json) or model (a file or folder with weights); data (a "
    "text, data set or list of these; default: random ids); batch_size, seq_len, micro_batches, "
    "steps, tokens, batch_tokens; lr, clip, weight_decay, decay, lr_warmup, schedule, lr_decay, "
    "lr_decay_begin, min_lr, spike_guard, spike_deviations, loss_scale, loss_scale_interval; level, "
    "passes, dtype, attention; freeze, lora_rank, lora_alpha, lora_targets; tokenizer, text_format, "
    "field, pack, seed; val_data, val_every, val_batches; checkpoints (a folder), save_every, keep, "
    "keep_best, resume (True: goes on after the newest checkpoint, bit by bit); device, threads, "
    "isa; data_parallel, tensor_parallel, pipeline_parallel, pipeline_schedule, pipeline_chunks, "
    "zero, sequence_parallel, in a script that mpirun or torchrun starts so many times: each "
    "process has a trainer, and all make the same calls. "
    "gradients: whether `gradients` can read them, which makes the update a graph of its own.\n\n"
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
           "A step on these ids [micro_batches * batch_size, seq_len], ints; with data_parallel= "
           "each rank gives its own. labels: of the same "
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
      .def("checkpoint", &Training::save_checkpoint, nb::call_guard<nb::gil_scoped_release>(),
           "Saves a checkpoint into checkpoints= now, and returns when it is written.")
      .def("validate", &Training::validate, nb::call_guard<nb::gil_scoped_release>(),
           "The mean loss of val_data= with the present parameters.")
      .def_prop_ro("validations", &Training::validations,
                   "the losses of validations so far, by the number of steps done")
      .def_prop_ro("notes", &Training::notes,
                   "checkpoints that were refused or gone on from, settings that changed since")
      .def("__repr__",
           [](Training& t) {
             if (t.is_closed()) return std::string("<ridge.Trainer: closed>");
             return fmt::format("<ridge.Trainer: {} parameters, {} of {} steps>",
                                format_count(static_cast<double>(t.config().parameters())),
                                t.done(), t.steps());
           })
      .def_prop_ro("steps", &Training::steps, "the number of steps of the iteration")
      .def_prop_ro("done", &Training::done, "the number of steps so far")
      .def_prop_ro("rank", &Training::rank,
                   "this process's number among those that train; 0 is the first")
      .def_prop_ro("batch_size", [](const Training& t) { return t.step_options().batch_size; })
      .def_prop_ro("seq_len", [](const Training& t) { return t.step_options().sequence; })
      .def_prop_ro("micro_batches",
                   [](const Training& t) { return t.step_options().micro_batches; })
      .def_prop_ro("vocabulary", [](const Training& t) { return t.config().vocabulary; })
      .def("close", &Training::close, nb::call_guard<nb::gil_scoped_release>(),
           "Saves a checkpoint if there is a folder for them, and releases the memory. Later calls "
           "raise UsageError.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Trainer"))
      .def("__exit__", [](Training& self, const nb::args&) { self.close(); });
}

}  // namespace ridge::python
