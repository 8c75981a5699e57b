#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/guides/coverage.md and looks for the figures that its rows state.

    tools/coverage.py [--ridge build/ridge] [--all] [ROW...]

A row of the page is `| ID | commands in backticks, or "No command: REASON." | what they show |`. A figure in backticks must stand in the output
of one of the row's commands. Without --all, only commands whose outputs are the same on every machine run: they count, or predict from a data sheet.

check(root), without a run: each id of tests/data/exercises.txt has one row, in that order, with a command or a reason; a figure in backticks needs a
command that is the same on every machine."""
import argparse
import pathlib
import re
import sys

import guides

PAGE, IDS = "docs/guides/coverage.md", "tests/data/exercises.txt"
ROW = re.compile(r"^\| ([A-Z]\d+[a-z]?) \| (.*) \| (.*) \|$")
EXACT = re.compile(r" --(hardware (?!this\b)|counts\b|parameters |pairs\b|value |source\b)")
# "1,024", "103 MiB", or the count of a pair of tokens, "e s 9".
FIGURE = re.compile(r"`([\d.,]+(?: [A-Za-z]+)?|[a-z]+ [a-z]+ \d+)`")


class Row:
    """A row of the page: its line, id, commands and the figures that they must print."""

    def __init__(self, line, name, how, shows):
        self.line, self.name, self.how = line, name, how
        self.commands = re.findall(r"`(ridge [^`]*)`", how)
        self.figures = FIGURE.findall(shows)

    def is_exact(self):
        """Whether the outputs are the same on every machine."""
        return any(EXACT.search(each) for each in self.commands)


def rows(text):
    """The rows of a page."""
    found = ((i, ROW.match(line)) for i, line in enumerate(text.split("\n"), 1))
    return [Row(i, *match.groups()) for i, match in found if match]


def check(root):
    """Yields (file, line, reason) for each id without a row of its own, and for each row that nothing backs."""
    page, ids = root / PAGE, root / IDS
    if not page.is_file() or not ids.is_file():
        return
    found, wanted = rows(page.read_text("utf-8")), ids.read_text("utf-8").split()
    names = [row.name for row in found]
    for name in wanted:
        if names.count(name) != 1:
            yield PAGE, 1, f"{name} has {names.count(name)} rows, expected one"
    for row in found:
        if row.name not in wanted:
            yield PAGE, row.line, f"{row.name} is not in {IDS}"
        if not row.commands and not row.how.startswith("No command: "):
            yield PAGE, row.line, f"{row.name} has neither a command nor a reason"
        if row.figures and not row.is_exact():
            yield PAGE, row.line, f"{row.name} states {row.figures[0]}, which no command prints on every machine"
    if sorted(names) == sorted(wanted) and names != wanted:
        yield PAGE, 1, f"the rows are not in the order of {IDS}"


def main():
    """Runs the rows' commands, each command once."""
    parser = argparse.ArgumentParser(description="Runs the commands of docs/guides/coverage.md.")
    parser.add_argument("rows", nargs="*", help="ids of rows (default: all)")
    parser.add_argument("--ridge", default="build/ridge", help="the program")
    parser.add_argument("--all", action="store_true", help="run commands that measure, too")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[1]
    page = guides.Page(root / PAGE, pathlib.Path(options.ridge).resolve())
    outputs, faults = {}, list(check(root))
    try:
        for row in rows((root / PAGE).read_text("utf-8")):
            if options.rows and row.name not in options.rows or not (options.all or row.is_exact()):
                continue
            for command in row.commands:
                if command not in outputs:
                    block = guides.Block(row.line - 1, row.line - 1, 0)
                    block.command = [command]
                    try:
                        outputs[command] = page.run(block)
                    except SystemExit as end:
                        outputs[command] = ""
                        faults.append((PAGE, row.line, f"{row.name}: {end}"))
            text = "\n".join(outputs[command] for command in row.commands)
            faults += [(PAGE, row.line, f"{row.name} states {figure}, which its commands do not print")
                       for figure in row.figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", text)]
    finally:
        page.close()
    for path, line, reason in faults:
        print(f"{path}:{line}: {reason}")
    print(f"{len(outputs)} commands, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
