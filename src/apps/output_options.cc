// SPDX-License-Identifier: Apache-2.0
// Declares the options. Not a subcommand.
#include "apps/output_options.h"

#include <fmt/format.h>

namespace ridge::apps {

Option add_output_options(Command app, OutputOptions& options, const std::string& help) {
  app.add_flag("--force", options.overwrite, "overwrite files in an existing --out folder");
  return app.add_option("--out", options.folder, help);
}

Mode without_folder(const OutputOptions& options) {
  return {!options.folder, "without --out, which names the folder to overwrite", {"--force"}};
}

void add_gzip_option(Command app, bool& gzip) {
  app.add_flag("--gzip", gzip, "compress the traces with gzip: trace.json.gz");
}

void add_format_options(Command app, FormatOptions& options) {
  add_gzip_option(app, options.gzip);
  std::string help = "ridge";
  for (const report::FileFormat& each : report::file_formats())
    help += fmt::format(", or {}: {}", each.name, each.summary);
  app.add_option("--format", options.name, help);
}

}  // namespace ridge::apps
