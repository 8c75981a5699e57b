// SPDX-License-Identifier: Apache-2.0
// The commands of help texts and guides at a size that a test has time for.
#pragma once

#include <regex>
#include <string>
#include <string_view>

namespace ridge::apps {

struct Change {
  const char* command;
  const char* option;
  const char* value;
};

// The same work at a smaller size: each option replaces the example's own or is added to it.
constexpr Change kSmaller[] = {
    {"train", "--preset", "tiny"},
    {"train", "--steps", "2"},
    {"train", "--warmup", "0"},
    {"train", "--batch-size", "1"},
    {"train", "--seq-len", "16"},
    {"lab", "--preset", "tiny"},
    {"lab", "--steps", "2"},
    {"lab", "--warmup", "0"},
    {"lab", "--batch-size", "1"},
    {"lab", "--seq-len", "16"},
    {"lab", "--no-advice", ""},
    {"infer-lab", "--seconds", "1"},
    {"infer-lab", "--seq-len", "16"},
    {"bench model", "-p", "4"},
    {"bench model", "-n", "2"},
    {"bench model", "-r", "1"},
    {"generate", "--max-tokens", "4"},
    {"bench model", "--device", "cpu"},
    {"serve", "--port", "0"},
    {"serve", "--max-sequences", "2"},
    {"bench serve", "--seconds", "1"},
    {"bench graph", "--seconds", "0.01"},
    {"study inference", "--budget", "1s"},
    {"study inference", "--batch-size", "1"},
    {"study inference", "--seq-len", "16"},
    {"plan --inference", "--batch-size", "1"},
    {"plan --inference", "--seq-len", "16"},
    {"demo (?!list)\\S+", "--budget", "1s"},
    {"bench attention", "--budget", "1"},
    {"bench attention", "--seq-len", "32,64"},
    {"bench op(?=.* --(shape|sweep) )", "--seconds", "0.01"},
    {"bench module", "--seconds", "0.01"},
};

inline std::string smaller(std::string line, const std::string& server) {
  const bool runs_nothing = std::regex_search(
      line, std::regex(" --(plan|counts|source)\\b| --value | --hardware (?!this\\b)"));
  for (const Change& change : kSmaller) {
    const std::regex command(std::string("ridge ") + change.command + "\\b(?!-)");
    if (!std::regex_search(line, command)) continue;
    const bool is_flag = *change.value == 0;
    if (is_flag && line.find(change.option) != line.npos) continue;
    if (change.option == std::string_view("--seconds") && runs_nothing) continue;
    const std::regex given(std::string(" ") + change.option + "[ =]\\S+");
    const std::string option = std::string(" ") + change.option + " " + change.value;
    line = std::regex_search(line, given) ? std::regex_replace(line, given, option)
                                          : std::regex_replace(line, command, "$&" + option);
  }
  // The user's data have no warm-up steps.
  line = std::regex_replace(line, std::regex(" --warmup 0(?=.* --data )"), "");
  // A model has its own size.
  line = std::regex_replace(line, std::regex(" --preset tiny(?=.* --model )"), "");
  // These run advice.
  if (line.find(" --try ") != std::string::npos)
    line = std::regex_replace(line, std::regex(" --no-advice"), "");
  line = std::regex_replace(line, std::regex("http://localhost:8080"), server);
  // A server runs until it is told to finish: once, where `timeout` would tell its group as well.
  line = std::regex_replace(line, std::regex("^ridge serve\\b"),
                            "timeout --foreground --preserve-status 5 $&");
  // A measurement under the load of tests would replace the ceilings that the user's runs read.
  return std::regex_replace(line, std::regex(" --remeasure"), "");
}

}  // namespace ridge::apps
