// SPDX-License-Identifier: Apache-2.0
// Extreme numbers in every numeric option, which the programs' help texts list, and in every number
// of a file. Each run must answer or refuse within seconds and in little memory.
#pragma once

#include <fmt/format.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "apps/foreign_files.h"
#include "files/file_numbers.h"

namespace ridge::apps {

class NumberTrial : public ForeignFiles {
 protected:
  // The subcommands, "bench op" for a nested one, as help texts list them.
  std::vector<std::string> commands(const std::string& parent = "") const {
    std::vector<std::string> found;
    bool listing = false;
    for (const std::string& line : help(parent)) {
      if (!line.starts_with("  ")) listing = line.starts_with("Subcommands:");
      std::smatch name;
      static const std::regex kName("  ([a-z-]+) .*");
      if (!listing || !std::regex_match(line, name, kName)) continue;
      const std::string command = parent.empty() ? name[1].str() : parent + " " + name[1].str();
      std::vector<std::string> inner = commands(command);
      if (inner.empty()) inner = {command};
      found.insert(found.end(), inner.begin(), inner.end());
    }
    return found;
  }

  // The names of a command's numeric options: "--steps", or "-t" for one without a long name.
  std::vector<std::string> numeric_options(const std::string& command) const {
    static const std::regex kOption("  (?:(-[a-z]),?)?(--[a-z0-9-]+)? (INT|UINT|FLOAT).*");
    std::vector<std::string> names;
    for (const std::string& line : help(command)) {
      std::smatch parts;
      if (std::regex_match(line, parts, kOption))
        names.push_back(parts[2].matched ? parts[2].str() : parts[1].str());
    }
    return names;
  }

  // Runs each command with each of its numeric options at every n-th extreme. `base` has the other
  // arguments of the command, with which it succeeds quickly.
  void try_options(const std::map<std::string, std::vector<std::string>>& base, size_t every) {
    files::Sampling sampling(every);
    for (const std::string& command : commands()) {
      const std::vector<std::string> options = numeric_options(command);
      auto found = base.find(command);
      if (found == base.end()) {
        EXPECT_EQ(options, std::vector<std::string>())
            << "add arguments for `ridge " << command << "` to the test";
        continue;
      }
      expect_success(with(command, found->second));
      for (const std::string& option : options)
        sampling.each(files::extreme_numbers(), [&](const std::string& value) {
          expect_answer(with(command, found->second, option, value));
        });
    }
    EXPECT_GT(sampling.numbers(), 60u) << "the help texts list fewer options than they did";
  }

  // Runs the commands with each number of the files replaced by every n-th extreme.
  void try_files(const std::vector<ForeignFile>& all, size_t every) {
    files::Sampling sampling(every);
    for (const ForeignFile& file : all) {
      expect_fine(file);
      files::change_numbers(file.path, file.good, sampling, [&](const files::ChangedFile& changed) {
        SCOPED_TRACE(file.path + ": " + changed.what);
        expect_answers(file, changed.bytes);
      });
      files::write_plain(folder_ / file.path, file.good);
    }
    EXPECT_GT(sampling.numbers(), 0u);
  }

 private:
  static std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
  }

  std::vector<std::string> help(const std::string& command) const {
    std::vector<std::string> arguments = words(command), lines;
    arguments.emplace_back("--help");
    std::istringstream text(run(arguments).out);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  static std::vector<std::string> with(const std::string& command,
                                       const std::vector<std::string>& base) {
    std::vector<std::string> arguments = words(command);
    arguments.insert(arguments.end(), base.begin(), base.end());
    return arguments;
  }
  static std::vector<std::string> with(const std::string& command,
                                       const std::vector<std::string>& base,
                                       const std::string& option,
                                       const std::string& value) {
    std::vector<std::string> arguments = with(command, base);
    auto found = std::find(arguments.begin(), arguments.end(), option);
    if (found != arguments.end()) arguments.erase(found, found + 2);
    arguments.push_back(option + "=" + value);
    return arguments;
  }
};

}  // namespace ridge::apps
