// SPDX-License-Identifier: Apache-2.0
// Ranks that share a model run the same steps: the first one, which schedules, tells the others
// what it writes before each step and which bucket it runs.
#pragma once

#include <string>

#include "backends/collectives/communicator.h"
#include "serve/model_runner.h"

namespace ridge::serve {

// The first rank's side. It and the others' runners must have done the same before. Only one thread
// may use it and the runner.
class StepLeader : private runtime::StoreWatcher {
 public:
  StepLeader(ModelRunner& runner, backends::Communicator& ranks);
  ~StepLeader();
  StepLeader(const StepLeader&) = delete;

  // Tells the others that it is there while there is nothing to run; they wait only so long.
  void beat() { send('w'); }
  // Tells the others that there are no more steps.
  void end() { send('e'); }

 private:
  void wrote(std::string_view name, int64_t begin, std::span<const std::byte> bytes) override;
  void copied(runtime::Store::PartAt from, runtime::Store::PartAt to, int64_t bytes) override;
  void send(char what);

  ModelRunner& runner_;
  backends::Communicator& ranks_;
  std::string changes_;  // since the last step
};

// The other ranks' side: runs the steps until the first rank ends them.
void follow_steps(ModelRunner& runner, backends::Communicator& ranks);

}  // namespace ridge::serve
