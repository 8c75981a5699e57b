// SPDX-License-Identifier: Apache-2.0
// Counts what each step of an engine costs and shares it out among the requests of the step.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cost/ceilings.h"
#include "serve/account.h"
#include "serve/session.h"

namespace ridge::serve {

class Accounting {
 public:
  // Without ceilings nothing is predicted and there are no utilizations.
  Accounting(const Session& session, std::shared_ptr<const cost::Ceilings> ceilings)
      : session_(session), ceilings_(std::move(ceilings)) {}

  // Adds the session's last run, which computed these parts in `ns`, to their accounts, and returns
  // its cost.
  StepCost add(std::span<const PartExtent> parts, double ns, std::span<Account* const> accounts);

  // In which most MACs of the last run are.
  DType product_type() const { return product_type_; }
  // Over the last steps; none without ceilings.
  std::optional<double> mfu() const;
  std::optional<double> mbu() const;

 private:
  struct Facts {
    BucketCost cost;
    double predicted_ns = 0;
  };
  struct Recent {
    double ns = 0, least_multiply_ns = 0, least_read_ns = 0;
  };
  static constexpr size_t kRecentSteps = 64;

  const Facts& facts(const Bucket& bucket);
  std::optional<double> recent_share(double Recent::*least) const;

  const Session& session_;
  const std::shared_ptr<const cost::Ceilings> ceilings_;
  std::optional<LinearWork> model_;
  std::map<const Bucket*, Facts> facts_;
  std::deque<Recent> recent_;
  DType product_type_ = DType::kF32;
};

}  // namespace ridge::serve
