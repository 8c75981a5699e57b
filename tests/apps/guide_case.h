// SPDX-License-Identifier: Apache-2.0
// The commands of docs/training.md and of docs/guides, read from the pages and run by a shell in a
// scratch folder.
#pragma once

#include <regex>
#include <sstream>

#include "apps/program_run.h"
#include "peer_python.h"
#include "test_paths.h"

namespace ridge::apps {

class GuideCase : public ProgramTest {
 protected:
  // The blocks of the page's first section that begin with ```sh: commands. Those of the other
  // blocks: what they printed.
  struct Block {
    bool is_command = false;
    std::string text;
  };
  static std::vector<Block> blocks() {
    std::istringstream page(files::contents(source_file("docs/training.md")));
    std::vector<Block> all;
    bool is_inside = false, is_guide = false;
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with("## ")) is_guide = line == "## From a text to a model";
      if (!is_guide) continue;
      if (line.starts_with("```")) {
        is_inside = !is_inside;
        if (is_inside) all.push_back({line == "```sh", ""});
      } else if (is_inside) {
        all.back().text += line + "\n";
      }
    }
    return all;
  }
  // The lines `$ ridge ...` of a page of docs/guides.
  static std::vector<std::string> commands(const std::filesystem::path& page) {
    std::istringstream text(files::contents(page));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("$ ridge ")) all.push_back(line.substr(2));
    return all;
  }
  static bool has_bible() { return !output_of("command -v bible").empty(); }
  // Runs the commands of a block; `ridge` is the built program. Returns stdout, or nothing if a
  // command fails.
  std::string run_block(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "bin");
    if (!std::filesystem::exists(folder_ / "bin/ridge"))
      std::filesystem::create_symlink(ridge_program(), folder_ / "bin/ridge");
    files::write_plain(folder_ / "commands.sh", "set -e\n" + text);
    const std::string out = output_of(fmt::format(
        "cd '{0}' && PATH='{0}/bin':\"$PATH\" sh commands.sh 2>err.txt", folder_.path().string()));
    EXPECT_FALSE(out.empty()) << text << files::contents(folder_ / "err.txt");
    return out;
  }
  // The last validation loss that an output has; -1 if none.
  static double validation_loss(const std::string& out) {
    const std::regex line("validation loss ([0-9.]+)");
    double loss = -1;
    for (std::sregex_iterator each(out.begin(), out.end(), line), end; each != end; ++each)
      loss = std::stod((*each)[1]);
    return loss;
  }
};

}  // namespace ridge::apps
