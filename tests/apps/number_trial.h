// SPDX-License-Identifier: Apache-2.0
// Extreme numbers in every numeric option, which the programs' help texts list, and in every number
// of a JSON file. Each run must answer or refuse within seconds and in little memory.
#pragma once

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "apps/program_run.h"

namespace ridge::apps {

class NumberTrial : public ProgramTest {
 protected:
  // As option values: the last ones are numbers only for some.
  static std::vector<std::string> option_values() {
    return {"-1",
            "0",
            "1",
            "2147483647",
            "2147483648",
            "4294967296",
            "9007199254740993",
            "4611686018427387904",
            "9223372036854775807",
            "9223372036854775808",
            "1e308",
            "nan",
            ""};
  }
  // As JSON text.
  static std::vector<std::string> field_values() {
    std::vector<std::string> values = option_values();
    values.resize(values.size() - 2);
    for (const char* each : {"1e999", "1e-300", "1.5", "null", "\"7\"", "[]", "{}", "true"})
      values.emplace_back(each);
    return values;
  }

  // Exit code 0, 2, 3 or 4; at most one message of one line; seconds; less than a GiB.
  void expect_answer(const std::vector<std::string>& arguments) {
#if defined(__SANITIZE_ADDRESS__)
    constexpr int64_t kSlower = 8, kMostBytes = int64_t{4} << 30;
#else
    constexpr int64_t kSlower = 1, kMostBytes = int64_t{1} << 30;
#endif
    constexpr size_t kLongestMessage = 2000;
    std::string line;
    for (const std::string& each : arguments) line += each + " ";
    Output output = run(arguments, {.cpu_seconds = 5 * kSlower});
    EXPECT_TRUE(output.code == 0 || (output.code >= 2 && output.code <= 4))
        << line << "ended with " << output.code << "\n"
        << output.err;
    EXPECT_LT(output.peak_bytes, kMostBytes) << line;
    if (output.code == 0) return;
    const size_t message = output.err.find("ridge: ");
    ASSERT_NE(message, std::string::npos) << line << "\n" << output.err;
    EXPECT_EQ(output.err.find("ridge: ", message + 1), std::string::npos) << output.err;
    EXPECT_LT(output.err.size(), kLongestMessage) << line;
  }

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

  // Runs each command with each of its numeric options at every n-th extreme, from another one on
  // for each option. `base` has the other arguments
  // of the command, so that it would succeed quickly.
  void try_options(const std::map<std::string, std::vector<std::string>>& base, size_t every) {
    const std::vector<std::string> values = option_values();
    size_t field = 0;
    for (const std::string& command : commands()) {
      auto found = base.find(command);
      if (found == base.end()) {
        EXPECT_EQ(numeric_options(command), std::vector<std::string>())
            << "add arguments for `ridge " << command << "` to the test";
        continue;
      }
      for (const std::string& option : numeric_options(command)) {
        for (size_t i = field++ % every; i < values.size(); i += every)
          expect_answer(with(command, found->second, option, values[i]));
      }
    }
    EXPECT_GT(field, 60u) << "the help texts list fewer options than they did";
  }

  // Runs each command with each number of `good` replaced by extremes. `file` is written for each
  // run.
  void try_fields(const nlohmann::json& good,
                  const std::string& file,
                  const std::vector<std::vector<std::string>>& commands,
                  size_t every) {
    const std::vector<std::string> values = field_values();
    size_t field = 0;
    for (const nlohmann::json::json_pointer& at : numbers_in(good)) {
      for (size_t i = field++ % every; i < values.size(); i += every) {
        nlohmann::json bad = good;
        bad[at] = "@number@";
        std::string text = bad.dump();
        const std::string mark = "\"@number@\"";
        text.replace(text.find(mark), mark.size(), values[i]);
        files::write_plain(folder_ / file, text);
        SCOPED_TRACE(at.to_string() + " = " + values[i]);
        for (const std::vector<std::string>& command : commands) expect_answer(command);
      }
    }
    EXPECT_GT(field, 0u);
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
                                       const std::vector<std::string>& base,
                                       const std::string& option,
                                       const std::string& value) {
    std::vector<std::string> arguments = words(command);
    arguments.insert(arguments.end(), base.begin(), base.end());
    auto found = std::find(arguments.begin(), arguments.end(), option);
    if (found != arguments.end()) arguments.erase(found, found + 2);
    arguments.push_back(option + "=" + value);
    return arguments;
  }

  // At most the first three elements of an array or a table, which are alike.
  static std::vector<nlohmann::json::json_pointer> numbers_in(
      const nlohmann::json& value,
      const nlohmann::json::json_pointer& at = nlohmann::json::json_pointer()) {
    if (value.is_number()) return {at};
    if (!value.is_structured()) return {};
    std::vector<nlohmann::json::json_pointer> found;
    auto add = [&](const std::vector<nlohmann::json::json_pointer>& more) {
      found.insert(found.end(), more.begin(), more.end());
    };
    constexpr size_t kAlike = 3, kRecord = 64;  // an object of more keys is a table, not a record
    size_t left = value.is_array() || value.size() > kRecord ? kAlike : value.size();
    for (const auto& [key, each] : value.items()) {
      if (left-- == 0) break;
      add(numbers_in(each, value.is_array() ? at / std::stoul(key) : at / key));
    }
    return found;
  }
};

}  // namespace ridge::apps
