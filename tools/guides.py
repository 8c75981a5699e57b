#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the guides and keeps their outputs. `make guides` refreshes outputs and pictures in place.

    tools/guides.py [--ridge build/ridge] [--check] [--only TEXT] [PAGE...]

A page is a file of docs/guides. Its commands are the lines `$ ridge ...` of blocks that begin with ```console and such a line; a line that
ends with a backslash goes on in the next. The output follows, of which ```console lines=12 keeps the first 12 lines and says how many
are left out. The commands of a page run in order in one scratch folder with the page's text files (graphs); a picture that they write
and the page shows (`![...](name.svg)`) is copied beside the page.

--check runs the commands and compares what is arithmetic with the page: outputs that are counted or planned from a data sheet whole, the
columns of counts of all other tables, and the figures that the page's text states. Measured times and pictures are not compared.

check(root), without a run: each figure that an answer states must stand in a command or an output above it, or in a run of docs/runs
to which its section has a link. A figure is a number of three and more digits, or any number in backticks; names such
as 270M or fp32 are none. What a section says before its first command is the question. "## Notes" ends the page."""
import argparse
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = "docs/guides"
# Pages whose commands no block shows; tools/coverage.py runs those of the second.
INDEXES = ("README.md", "coverage.md")
STAMP = re.compile(r"^\*Outputs: .*\*$")
# A number that is not part of a name (fp32, 270M, llama-2-7b, MI210) and at least three digits long.
FIGURE = re.compile(r"(?<![\w.,/-])(\d+(?:,\d{3})*(?:\.\d+)?)(?![\w]|[.,/-]\w)")
RUN_LINK = re.compile(r"\]\((\.\./runs/[\w.-]+\.md)\)")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# Columns that follow from the graph alone.
COUNTED = ("kernels", "calls", "FLOPs", "MACs", "bytes", "notebook bytes", "compulsory", "FLOP/B", "kernel calls")
# Their output is the same on every machine.
EXACT = re.compile(r" --(hardware (?!this\b)|counts\b|parameters |pairs\b|value |source\b)")


class Block:
    """A command of a page and its output."""

    def __init__(self, begin, fence, most):
        # The line of the command, that of the fence, and how many lines of output the page keeps (0: all).
        self.begin, self.fence, self.most = begin, fence, most
        self.command = []
        self.output = []
        self.end = begin  # the line after the output

    def text(self):
        """The command in one line."""
        return " ".join(line.strip().rstrip("\\").strip() for line in self.command)

    def shown(self, output):
        """The lines of an output that the page keeps."""
        lines = [line.rstrip() for line in output.strip("\n").split("\n")]
        if self.most and len(lines) > self.most:
            left = len(lines) - self.most
            lines = lines[:self.most] + [f"[... {left} more line{'s' if left > 1 else ''}]"]
        return lines


def blocks(lines):
    """The commands of a page."""
    found, most, begin, in_command = [], None, 0, False
    for i, line in enumerate(lines):
        if most is None:
            fence = re.fullmatch(r"```console(?: lines=(\d+))?", line)
            if fence and i + 1 < len(lines) and lines[i + 1].startswith("$ ridge "):
                most, begin = int(fence[1] or 0), i
        elif line == "```":
            most = None
        elif line.startswith("$ ridge ") or in_command:
            if not in_command:
                found.append(Block(i, begin, most))
            found[-1].command.append(line.removeprefix("$ "))
            found[-1].end = i + 1
            in_command = line.endswith("\\")
        else:
            if line or found[-1].output:
                found[-1].output.append(line)
            found[-1].end = i + 1
    return found


def figures(text):
    """The figures that a line of text states."""
    text = re.sub(r"\]\([^)]*\)", "]", text)  # targets of links
    quoted = [each for part in re.findall(r"`([^`]*)`", text) for each in FIGURE.findall(part) if part == each]
    plain = [each for each in FIGURE.findall(re.sub(r"`[^`]*`", "", text)) if len(re.sub(r"\D", "", each)) >= 3]
    return quoted + plain


def figures_of_runs(lines, folder):
    """The numbers of the runs to which the lines up to the next section link."""
    end = next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))
    files = [folder / link for line in lines[:end] for link in RUN_LINK.findall(line)]
    return {number for file in files if file.is_file() for number in NUMBER.findall(file.read_text("utf-8"))}


def statements(lines, folder):
    """(line number, figure, whether an output or a linked run above has it) of each figure that the answers of a page state."""
    spans = {block.begin: block for block in blocks(lines)}
    seen, cited, end, fenced, is_answer = set(), set(), 0, False, False
    for i, line in enumerate(lines):
        if line == "## Notes":
            break
        if line.startswith("## "):
            is_answer, cited = False, figures_of_runs(lines[i + 1:], folder)
        if i in spans:
            end, is_answer = spans[i].end, True
            seen.update(NUMBER.findall("\n".join(spans[i].output)), re.findall(r"\d+(?:\.\d+)?", spans[i].text()))
        if i < end:
            continue
        if line.startswith("```"):
            fenced = not fenced
        elif is_answer and not fenced:
            yield from ((i + 1, each, each in seen | cited) for each in figures(line))


def check(root):
    """Yields (file, line, reason) for each figure that no output has, and for a page without commands."""
    for page in sorted((root / FOLDER).glob("*.md")):
        lines = page.read_text("utf-8").split("\n")
        name = page.relative_to(root).as_posix()
        if page.name in INDEXES:
            continue
        if not blocks(lines):
            yield name, 1, "has no command: ```console, then $ ridge ..."
        for number, figure, is_seen in statements(lines, page.parent):
            if not is_seen:
                yield name, number, f"states {figure}, which is in no output above"
        for i, line in enumerate(lines):
            for picture in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", line):
                if not (page.parent / picture).is_file():
                    yield name, i + 1, f"shows {picture}, which is not there"


def counted_cells(lines):
    """The cells of counts in the tables of an output, by column and row."""
    cells, header = {}, None
    for i, line in enumerate(lines):
        row = re.split(r" {2,}", line.strip())
        if i + 1 < len(lines) and re.fullmatch("─+", lines[i + 1]):
            header = row
        elif not line.strip() or re.fullmatch("─+", line):
            header = header if line.strip() else None
        elif header and len(row) == len(header):
            # Rows that are not known by their name, such as the ops by time, may change places.
            key = tuple(cell for cell, title in zip(row, header) if title in ("case", "shape", "form", "phase", "dtype"))
            cells.update({(key, title): cell for cell, title in zip(row, header) if title in COUNTED and key})
    return cells


def differences(block, output):
    """What the check finds in a new output of a block."""
    old, new = "\n".join(block.output).rstrip().split("\n"), block.shown(output)
    if EXACT.search(" " + block.text()):
        return [f"expected {was!r}, got {now!r}" for was, now in zip(old, new) if was != now] + (
            [f"expected {len(old)} lines, got {len(new)}"] if len(new) != len(old) else [])
    old_cells, new_cells = counted_cells(old), counted_cells(new)
    return [f"{' '.join(key)}: expected {value} {title}, got {new_cells[key, title]}"
            for (key, title), value in old_cells.items() if new_cells.get((key, title), value) != value]


class Page:
    """A page and the scratch folder where its commands run."""

    def __init__(self, path, ridge):
        self.path, self.ridge = path, ridge
        self.lines = path.read_text("utf-8").split("\n")
        self.blocks = blocks(self.lines)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="ridge-guide-"))
        (self.scratch / ".bin").mkdir()
        (self.scratch / ".bin/ridge").symlink_to(ridge)
        for each in [*path.parent.glob("*.txt"), *path.parent.glob("*.json")]:
            shutil.copy(each, self.scratch)

    def chosen(self, text):
        """All commands of the fences in which one contains the text: commands of a fence use each other's folders."""
        fences = {block.fence for block in self.blocks if text in block.text()}
        for block in self.blocks:
            for model in re.findall(r"~/\S*", block.text()):
                if block.fence in fences and not pathlib.Path(model).expanduser().exists():
                    print(f"{self.path.name}:{block.begin + 1}: skipped, because {model} is missing (make models)", flush=True)
                    fences.discard(block.fence)
        return [block for block in self.blocks if block.fence in fences]

    def run(self, block):
        """The output of a command; ends the program if the command fails."""
        path = f"{self.scratch / '.bin'}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", block.text()], cwd=self.scratch, capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": path, "NO_COLOR": "1"})
        if done.returncode != 0:
            sys.exit(f"{self.path.name}:{block.begin + 1}: exit code {done.returncode}\n$ {block.text()}\n{done.stdout}{done.stderr}")
        return done.stdout.replace(str(pathlib.Path.home()), "~").replace(str(self.scratch), ".")

    def with_outputs(self, outputs):
        """The lines of the page with new outputs, from the last block to the first."""
        lines = list(self.lines)
        for block, output in sorted(outputs.items(), key=lambda item: -item[0].begin):
            is_last = lines[block.end] == "```"
            lines[block.begin + len(block.command):block.end] = block.shown(output) + ([] if is_last else [""])
        return lines

    def write(self, outputs, machine):
        """Replaces outputs, copies pictures, and stamps the page."""
        lines = [f"*Outputs: {machine}.*" if STAMP.match(line) else line for line in self.with_outputs(outputs)]
        for line in lines:
            for picture in re.findall(r"!\[[^\]]*\]\(([^)/]*\.svg)\)", line):
                if (self.scratch / picture).is_file():
                    shutil.copy(self.scratch / picture, self.path.parent)
        self.path.write_text("\n".join(lines), "utf-8")

    def close(self):
        """Removes the scratch folder."""
        shutil.rmtree(self.scratch)


def run_page(page, chosen, machine, progress):
    """Runs commands of a page; writes the page, or without a machine returns the number of differences."""
    outputs, found = {}, []
    for block in chosen:
        begin = time.monotonic()
        outputs[block] = page.run(block)
        progress(f"{page.path.name}: {block.text()[:90]}  {time.monotonic() - begin:.1f} s")
        found += [(block.begin + 1, each) for each in differences(block, outputs[block])]
    if machine:
        if outputs:
            page.write(outputs, machine)
        return 0
    found += [(number, f"the text states {figure}, which is in no new output above")
              for number, figure, is_seen in statements(page.with_outputs(outputs), page.path.parent) if not is_seen]
    for number, each in found:
        print(f"{page.path.name}:{number}: {each}", flush=True)
    return len(found)


def main():
    """Reads the options and goes through the pages."""
    parser = argparse.ArgumentParser(description="Runs the commands of the guides and keeps their outputs.")
    parser.add_argument("pages", nargs="*", help="names of pages (default: all)")
    parser.add_argument("--ridge", default="build/ridge", help="the program")
    parser.add_argument("--check", action="store_true", help="compare arithmetic with the pages; write nothing")
    parser.add_argument("--only", default="", help="only fences with a command that contains this text")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[1]
    ridge = pathlib.Path(options.ridge).resolve()
    paths = [each for each in sorted((root / FOLDER).glob("*.md")) if each.name not in INDEXES
             if not options.pages or each.name in options.pages or each.stem in options.pages]
    if not paths:
        parser.error(f"no page of {FOLDER} has one of these names: {' '.join(options.pages)}")
    # Predictions beside measured times need ceilings of the same hour.
    again = [] if options.check or options.only or options.pages else ["--remeasure"]
    first = subprocess.run([ridge, "machine", *again], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    version = subprocess.run([ridge, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    machine = f"{version} on {first}, {datetime.date.today()}"
    pages = [Page(path, ridge) for path in paths]
    chosen = {page: page.chosen(options.only) for page in pages}
    total, done, found, begin = sum(map(len, chosen.values())), 0, 0, time.monotonic()

    def progress(text):
        nonlocal done
        done += 1
        print(f"[{done}/{total}] {text}", flush=True)

    try:
        for page in pages:
            found += run_page(page, chosen[page], machine if not options.check else None, progress)
    finally:
        for page in pages:
            page.close()
    print(f"{done} commands in {time.monotonic() - begin:.0f} s" + (f", {found} differences" if options.check else ""))
    missing = list(check(root))
    for path, line, reason in missing:
        print(f"{path}:{line}: {reason}")
    sys.exit(1 if found or (missing and not options.check) else 0)


if __name__ == "__main__":
    main()
