// SPDX-License-Identifier: Apache-2.0
// Runs the program as several ranks on CPUs, by mpirun.
#pragma once

#include <filesystem>

#include "apps/program_run.h"

namespace ridge::apps {

class RankTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (!std::filesystem::exists("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun is missing";
  }

  // A container's tests run as root; ranks that wait must not burn the cores of the others.
  static inline const std::vector<std::pair<std::string, std::string>> kOnAnyMachine = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
};

}  // namespace ridge::apps
