#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of files and types, the licence tag, words that the glossary replaces, words that don't belong in the
repository, words of courses outside src/courses/, and ops that a pass compares by name."""
import re

import sources

EMPTY_NOUNS = {"util", "utils", "utility", "utilities", "helper", "helpers", "common", "misc", "manager",
               "managers"}
STAGES = re.compile(r"^(?:v\d+|new|fast|faster|old|final|tmp)$")  # a kernel is named by its idea
TYPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:class|struct|union|enum(?:\s+class)?|using|concept)\s+(\w+)")
TAG = "SPDX-License-Identifier: Apache-2.0"
TAGGED = ("src/", "tests/", "tools/", "cmake/")
# The texts stand in pieces here so that this file does not hold them.
BANNED = [
    (re.compile(r"(?<![\w.$)}-])/" + r"work/"), "a path of one machine"),
    (re.compile(r"\bissue" + r" #?\d", re.I), "an issue number"),
    (re.compile(r"--(?:extra-)?index" + r"-url|\bfind" + r"-links\b"), "a package registry"),
]
# A pass asks whether a node is of an op, is_a(node, ops::glu_op()): a misspelt name would never be found.
PASS = re.compile(r"src/(?:passes|backends/\w+/passes)/")
COMPARED = re.compile(r'\bop->name\s*[!=]=|[!=]=\s*[\w.()>-]*\bop->name\b|\bop->name\.(?!size|c_str|data)\w+\(')
# The tables of renamed JSON keys, options and subcommands, which must name the old ones.
RENAMED = re.compile(r'^\s*\{"\w+", "\w+"\}[,}]')
# The engine knows no course. A data sheet may name its card.
COURSE = re.compile(r"workshop|notebook|exhibit|MI210", re.I)
KNOWS_COURSES = ("src/courses/", "src/cost/hardware.cc")
GLOSSARY = "docs/glossary.md"
ROOMS_OF_WORDS = ("src/", "README.md", "CONTRIBUTING.md", "docs/accounting.md", "docs/architecture.md", "docs/inference.md",
                  "docs/model_files.md", "docs/results.md", "docs/tried.md")


def refused(root):
    """(word, rooms) of the words that the glossary's terms replace, in the column "refused". A fourth column names the rooms
    in which a word is refused; else ROOMS_OF_WORDS."""
    path = root / GLOSSARY
    if not path.exists():
        return []
    rows = [line.split("|") for line in path.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [(word, tuple(re.findall(r"`([^`]+)`", row[4])) if len(row) == 6 else ROOMS_OF_WORDS)
            for row in rows if len(row) in (5, 6) for word in re.findall(r"`([^`]+)`", row[3])]


def words(name):
    """The words of a snake_case, kebab-case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+", name)]


def name_violations(file):
    kernel = "kernels" in file.parts
    for part in (*file.parts[:-1], file.name.split(".")[0]):
        for word in words(part):
            if word in EMPTY_NOUNS:
                yield file, 1, f'"{word}" names nothing: find the noun'
            if kernel and STAGES.match(word):
                yield file, 1, f'a kernel is named by its idea, not "{word}"'


def check(root):
    replaced = [(re.compile(r"(?<![\w])" + re.escape(word) + r"(?![\w])"), word, rooms) for word, rooms in refused(root)]
    types = 0
    yield from sources.some(replaced, GLOSSARY, "replaced word")
    for file in sources.files(root):
        yield from name_violations(file)
        try:
            text = (root / file).read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        lines = text.splitlines()
        code = file.suffix in sources.CODE or file.name in ("CMakeLists.txt", "Makefile", "run")
        if code and file.as_posix().startswith(TAGGED) or file.name in ("CMakeLists.txt", "Makefile"):
            first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
            if not first or TAG not in first[0]:
                yield file, 1, f'the first line is not "{TAG}"'
            elif file.suffix in sources.CPP and not "".join(lines[1:2]).startswith("// "):
                yield file, 2, "no sentence after the tag says what the file is"
        is_engine = file.parts[0] == "src" and not file.as_posix().startswith(KNOWS_COURSES)
        for number, line in enumerate([file.as_posix(), *lines] if is_engine else []):
            if (word := COURSE.search(line)) and not RENAMED.match(line):
                yield file, max(number, 1), f'"{word.group()}" belongs in src/courses/'
        spoken = [(pattern, word) for pattern, word, rooms in replaced
                  if word in text and file.as_posix().startswith(rooms)]
        for number, line in enumerate(lines, 1):
            for pattern, word in spoken:
                if pattern.search(line) and not RENAMED.match(line):
                    yield file, number, f'"{word}" is replaced ({GLOSSARY})'
            declared = TYPE.match(line) if file.suffix in sources.CPP else None
            types += declared is not None
            for word in words(declared.group(1)) if declared else ():
                if word in EMPTY_NOUNS:
                    yield file, number, f'"{word}" in {declared.group(1)} names nothing: find the noun'
            if PASS.match(file.as_posix()) and COMPARED.search(line):
                yield file, number, "a pass compares the name of an op: is_a(node, ops::NAME_op())"
            for pattern, what in BANNED:
                if pattern.search(line):
                    yield file, number, f"holds {what}"
    yield from sources.some(types, "src", "type")


sources.run(check)
