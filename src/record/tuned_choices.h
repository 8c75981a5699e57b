// SPDX-License-Identifier: Apache-2.0
// The choices that a tuner made by timing on a machine.
#pragma once

#include <string>
#include <vector>

#include "record/figures.h"

namespace ridge::record {

struct TunedChoice {
  std::string problem;  // as the tuner names it
  std::string choice;   // a name, or the first word of an algorithm in hexadecimal
  double ns = 0;
  double default_ns = 0;  // the choice made without measuring

  double gain() const { return ns > 0 ? default_ns / ns : 1; }
};

template <class See>
void figures(const See& see, const TunedChoice& r) {
  see("problem", r.problem), see("choice", r.choice), see("ns", r.ns);
  see({"default_ns", "ns", "of the choice made without measuring"}, r.default_ns);
  see("gain", r.gain());
}

struct TunedChoices {
  std::string what = {}, file = {};
  std::string machine = {};               // its identity
  std::vector<TunedChoice> choices = {};  // by problem; those without times are left out
};

template <class See>
void figures(const See& see, const TunedChoices& r) {
  see("what", r.what), see("file", r.file), see("machine", r.machine), see("choices", r.choices);
}

}  // namespace ridge::record
