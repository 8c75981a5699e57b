#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/runs/README.md, the table of all measured runs, from the block of keys at the start of each run file.

    tools/runs_index.py [--check] [ROOT]

--check writes nothing. It prints "file:line: reason" for each error and exits with 1 if there are any.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path("docs/runs")
INDEX = FOLDER / "README.md"
KEYS = ("date", "machine", "versions", "commit", "topic", "command")
NAME = re.compile(r"(\d{4}-\d{2}-\d{2})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
FENCE = "```"
LINK = re.compile(r"\bruns/(\d{4}-[\w.-]+\.md)")
INTRO = """# Runs

Each file is one run, newest first. [results.md](../results.md) has the current figure of each claim. `tools/runs_index.py` writes this
table from the keys at the start of each file: {keys} (one line each; `command` may repeat).

| date | topic | machine | file |
| --- | --- | --- | --- |
"""


def front_block(text):
    """{key: values} and violations (line, reason) of the block between the fence in the first line and the next fence."""
    lines = text.splitlines()
    if not lines or lines[0] != FENCE or FENCE not in lines[1:]:
        return {}, [(1, f'does not start with "{FENCE}", one line per key, and "{FENCE}"')]
    values, wrong = {}, []
    for number, line in enumerate(lines[1:lines.index(FENCE, 1)], 2):
        key, colon, value = line.partition(": ")
        if key not in KEYS or not colon or not value.strip():
            wrong.append((number, f'is not "KEY: value" with a key of {", ".join(KEYS)}'))
        elif key in values and key != "command":
            wrong.append((number, f"has a second {key}"))
        else:
            values.setdefault(key, []).append(value.strip())
    return values, wrong


def read_runs(root):
    """The runs as (date, topic, machine, file name), newest first, and violations as (file, line, reason)."""
    runs, violations = [], []
    for path in sorted((root / FOLDER).glob("*")):
        file = FOLDER / path.name
        if file == INDEX:
            continue
        named = NAME.fullmatch(path.name)
        if not named:
            violations.append((file, 1, "is not named YYYY-MM-DD-short-topic.md"))
            continue
        values, wrong = front_block(path.read_text("utf-8"))
        violations += [(file, line, reason) for line, reason in wrong]
        missing = [key for key in KEYS if key not in values]
        if missing:
            if not wrong:
                violations += [(file, 1, f"has no key {key}") for key in missing]
            continue
        if values["date"] != [named.group(1)]:
            violations.append((file, 1, f"has the date {values['date'][0]}"))
        runs.append((named.group(1), values["topic"][0], values["machine"][0], path.name))
    runs.sort(key=lambda run: run[3])
    runs.sort(key=lambda run: run[0], reverse=True)
    return runs, violations


def index(runs):
    rows = ""
    for date, topic, machine, name in runs:
        topic, machine = topic.replace("|", "\\|"), machine.replace("|", "\\|")
        rows += f"| {date} | {topic} | {machine} | [{name[len(date) + 1:-3]}]({name}) |\n"
    return INTRO.format(keys=", ".join(KEYS)) + rows


def lost_links(root):
    """Links from documents to runs that do not exist."""
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        for number, line in enumerate(path.read_text("utf-8").splitlines() if path.exists() else (), 1):
            for name in LINK.findall(line):
                if not (root / FOLDER / name).exists():
                    yield path.relative_to(root), number, f"links to {FOLDER / name}, which does not exist"


def check(root):
    """Violations (file, line, reason): a run file without a key, a link to a missing run, an outdated index."""
    runs, violations = read_runs(root)
    yield from violations
    yield from lost_links(root)
    there = (root / INDEX).read_text("utf-8") if (root / INDEX).exists() else None
    if not violations and runs and there != index(runs):
        yield INDEX, 1, "is outdated: run tools/runs_index.py"


def main():
    options = [word for word in sys.argv[1:] if word.startswith("-")]
    roots = [word for word in sys.argv[1:] if not word.startswith("-")]
    if len(roots) > 1 or options not in ([], ["--check"]):
        sys.exit("usage: tools/runs_index.py [--check] [ROOT]")
    root = pathlib.Path(roots[0] if roots else pathlib.Path(__file__).parents[1]).resolve()
    runs, violations = read_runs(root)
    if options:
        violations = list(check(root))
    for file, line, reason in violations:
        print(f"{file}:{line}: {reason}")
    if violations:
        sys.exit(1)
    if not options:
        (root / INDEX).write_text(index(runs), "utf-8")


if __name__ == "__main__":
    main()
