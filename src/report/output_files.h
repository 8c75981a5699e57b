// SPDX-License-Identifier: Apache-2.0
// Lists the files of an output folder by name, with their text. It writes nothing to disk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/lab_record.h"

namespace ridge::report {

struct OutputFile {
  std::string name;  // in the folder; with "/" in a folder inside it
  std::string text;
};

// Another program's files of a training lab, by their name for --format.
struct FileFormat {
  std::string_view name;
  std::string_view summary;
  // `own` are Ridge's machine-readable files, of which some may be kept.
  std::vector<OutputFile> (*files)(const record::LabRecord& lab, std::vector<OutputFile> own);
};
// Empty until the program adds formats, at its start.
std::vector<FileFormat>& file_formats();

struct OutputFormat {
  bool gzip = false;                    // traces as trace.json.gz
  const FileFormat* instead = nullptr;  // null: Ridge's own files
};

// The format of a name for --format: "ridge" or another program's. Throws a usage Error.
OutputFormat output_format(const std::string& name, bool gzip);

// The machine-readable files of a lab's runs, for training and inference. Adds a warning to the
// record if a file had to be cut.
std::vector<OutputFile> record_files(record::LabRecord& lab, const OutputFormat& format = {});
// All files of a training lab in the format. Adds a warning to the record if a file had to be cut.
std::vector<OutputFile> output_files(record::LabRecord& lab, const OutputFormat& format = {});

}  // namespace ridge::report
