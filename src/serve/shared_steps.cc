// SPDX-License-Identifier: Apache-2.0
// Packs steps into messages and unpacks them. The ranks run the same program on the same kind of
// machine, so numbers are sent as they are in memory.
#include "serve/shared_steps.h"

#include <cstring>

#include "base/error.h"

namespace ridge::serve {
namespace {

// A message is a character that says what it is; of a step follow the choice of its bucket and the
// changes of the store.
constexpr char kStep = 's', kWrite = 'w', kCopy = 'c', kEnd = 'e';

void put(std::string& text, int64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& text, std::string_view part) {
  put(text, std::ssize(part));
  text += part;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool at_end() const { return text_.empty(); }
  char character() { return part(1)[0]; }
  int64_t number() {
    int64_t number = 0;
    std::memcpy(&number, part(sizeof number).data(), sizeof number);
    return number;
  }
  std::string_view text() { return part(static_cast<size_t>(number())); }

 private:
  std::string_view part(size_t bytes) {
    RIDGE_CHECK(bytes <= text_.size(), "a step of {} bytes ends early", text_.size());
    const std::string_view part = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return part;
  }

  std::string_view text_;
};

void apply(Reader& changes, runtime::Store& store) {
  while (!changes.at_end()) {
    const char what = changes.character();
    const std::string_view name = changes.text();
    const int64_t begin = changes.number();
    if (what == kWrite) {
      const std::string_view bytes = changes.text();
      store.write_part(name, begin, bytes.data(), std::ssize(bytes));
    } else {
      const std::string_view to = changes.text();
      const int64_t to_begin = changes.number();
      store.copy({name, begin}, {to, to_begin}, changes.number());
    }
  }
}

}  // namespace

StepLeader::StepLeader(ModelRunner& runner, backends::Communicator& ranks)
    : runner_(runner), ranks_(ranks) {
  runner_.store().watch(this);
  runner_.announce([this](const BucketChoice& choice) {
    std::string head;
    for (const int64_t number :
         {static_cast<int64_t>(choice.task), choice.tokens, choice.context, choice.rows})
      put(head, number);
    changes_.insert(0, head);
    send(kStep);
  });
}

StepLeader::~StepLeader() {
  runner_.store().watch(nullptr);
  runner_.announce(nullptr);
}

void StepLeader::wrote(std::string_view name, int64_t begin, std::span<const std::byte> bytes) {
  changes_ += kWrite;
  put(changes_, name);
  put(changes_, begin);
  put(changes_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void StepLeader::copied(runtime::Store::PartAt from, runtime::Store::PartAt to, int64_t bytes) {
  changes_ += kCopy;
  put(changes_, from.name);
  put(changes_, from.begin_bytes);
  put(changes_, to.name);
  put(changes_, to.begin_bytes);
  put(changes_, bytes);
}

// Changes before a message that is no step go with the next step.
void StepLeader::send(char what) {
  std::string message(1, what);
  if (what == kStep) message += std::exchange(changes_, "");
  ranks_.gather(message);
}

void follow_steps(ModelRunner& runner, backends::Communicator& ranks) {
  for (;;) {
    const std::string message = ranks.gather("")[0];
    Reader reader(message);
    const char what = reader.character();
    if (what == kEnd) return;
    if (what != kStep) continue;
    BucketChoice choice;
    choice.task = static_cast<models::InferenceTask>(reader.number());
    choice.tokens = reader.number();
    choice.context = reader.number();
    choice.rows = reader.number();
    runner.run(choice, [&] { apply(reader, runner.store()); });
  }
}

}  // namespace ridge::serve
