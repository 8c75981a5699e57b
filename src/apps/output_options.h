// SPDX-License-Identifier: Apache-2.0
// The options that name a folder of results and the form of its files. Not a subcommand.
#pragma once

#include <string>

#include "apps/command.h"
#include "report/output_folder.h"

namespace ridge::apps {

using report::OutputFolder;
using report::OutputOptions;
using report::requested_folder;
using report::written_text;

// --out, --force. `help` describes --out. Returns --out.
Option add_output_options(Command app, OutputOptions& options, const std::string& help);
// --force does nothing without --out.
Mode without_folder(const OutputOptions& options);

// --gzip, --format
struct FormatOptions {
  bool gzip = false;
  std::string name = "ridge";

  report::OutputFormat chosen() const { return report::output_format(name, gzip); }
};
void add_gzip_option(Command app, bool& gzip);
void add_format_options(Command app, FormatOptions& options);

}  // namespace ridge::apps
