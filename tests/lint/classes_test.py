#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Classes stop at 200 lines, in src/apps at 80: the lines from "class" or "struct" to the closing brace and those of its member
functions that stand outside, in any file of its folder. A class that its member functions change has at most 14 data members;
plain records are free: their data is public (no name_) and no member function changes it. Kernels are free too. In src/apps no
line names a type of nlohmann. Waivers: "class PATH NAME", "members PATH NAME" and "json PATH" with the number of lines."""
import collections
import re

import cpp_text
import sources

LINES, APPS_LINES, MEMBERS = 200, 80, 14
JSON = re.compile(r"\bnlohmann\b|\bordered_json\b|\bJson\b")


def read_classes(root, files):
    """(file, Class) of each class of the files, with the lines of member functions outside of the class added to it."""
    found, outside = [], []
    for file in files:
        text = (root / file).read_text("utf-8")
        found += [(file, each) for each in cpp_text.classes(text)]
        outside += [(file, name.split("::")[-2], lines) for name, _, lines in cpp_text.functions(text) if "::" in name]
    named = collections.defaultdict(list)  # by folder and name
    for file, each in found:
        named[file.parent, each.name.split("::")[-1]].append((file, each))
    for file, name, lines in outside:
        candidates = named[file.parent, name]
        own = [each for place, each in candidates if place == file]  # two files may each have a Reader
        for each in own or [each for place, each in candidates if place.suffix == ".h"]:
            each.lines += lines
    return found


def check(root):
    files = [file for file in sources.files(root, "src") if file.suffix in sources.CPP and "kernels" not in file.parts[:-1]]
    classes = read_classes(root, files)
    yield from sources.some(classes, "src", "class")
    for file, each in classes:
        most = APPS_LINES if file.parts[1] == "apps" else LINES
        if each.lines > most:
            yield file, each.line, f"{each.name} has {each.lines} lines, at most {most}", f"class {file} {each.name}"
        is_record = not each.changes and not any(member.endswith("_") for member in each.members)
        if len(each.members) > MEMBERS and not is_record:
            yield (file, each.line, f"{each.name} has {len(each.members)} data members, at most {MEMBERS}",
                   f"members {file} {each.name}")
    for file in (file for file in files if file.parts[1] == "apps"):
        text = (root / file).read_text("utf-8")
        for comment in reversed(cpp_text.comments(text)):
            text = text[:comment.start()] + text[comment.end():]
        for number, line in enumerate(text.splitlines(), 1):
            if JSON.search(line):
                yield file, number, "names a type of nlohmann: another room reads and writes JSON", f"json {file}"


sources.run(check)
