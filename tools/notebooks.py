#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the guides as notebooks, whose cells run the guides' commands.

    tools/notebooks.py [--out build/notebooks] [--run] [--ridge build/ridge] [PAGE...]

A page of docs/guides becomes PAGE.ipynb, with the page's text files beside it: its texts are cells of Markdown, and each command is a cell.
Demos are calls of `ridge.demo`, which show their tables and pictures; the other commands run the program, which must be in the path, and
a picture that they write is shown. --run runs the notebooks by nbclient and keeps their outputs; a cell that fails is an error. Exit
status 77: there is no nbclient."""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import guides  # noqa: E402

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ("tiny_llama_workshop", "resource_accounting", "inference_optimisation", "roofline_lab")
# Commands refuse folders that exist, so each run of a notebook has a folder of its own, with the files that they read.
SETUP = """import os, pathlib, shutil, tempfile
from IPython.display import SVG, display
import ridge

work = pathlib.Path(tempfile.mkdtemp(prefix="ridge-guide-"))
for file in [*pathlib.Path().glob("*.txt"), *pathlib.Path().glob("*.json")]:
    shutil.copy(file, work)
os.chdir(work)"""


def cell(kind, text):
    made = {"cell_type": kind, "metadata": {}, "source": text}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def demo_call(words):
    """`ridge demo NAME --budget 5s` as a call; None for a demo with other options."""
    name, options = words[2], words[3:]
    if options[:1] != ["--budget"] or len(options) != 2 or not re.fullmatch(r"[\d.]+s", options[1]):
        return None
    return f"ridge.demo({json.dumps(name)}, seconds={options[1][:-1]})"


def codes_of(command):
    """The code of the cells for a command of a page: one, and another for pictures. A command that fails is an error."""
    words = shlex.split(command)
    call = demo_call(words) if words[:2] == ["ridge", "demo"] else None
    pictures = [f"display(SVG({json.dumps(each)}))" for each in words if each.endswith(".svg")]
    return [call or "%%bash\n" + command] + (["\n".join(pictures)] if pictures else [])


def notebook(text):
    """The notebook of a page's text."""
    lines = text.split("\n")
    cells, begin = [cell("code", SETUP)], 0

    def add_text(end):
        # Pictures beside the page are those that its commands write.
        kept = [line for line in lines[begin:end] if not re.match(r"!\[[^\]]*\]\([^)]*\.svg\)", line)]
        words = "\n".join(kept).strip("\n")
        if words:
            cells.append(cell("markdown", words))

    for block in guides.blocks(lines):
        add_text(block.begin if block.begin <= block.fence else block.fence)
        cells.extend(cell("code", each) for each in codes_of(block.text()))
        begin = block.end + (1 if block.end < len(lines) and lines[block.end] == "```" else 0)
    add_text(len(lines))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(page, folder):
    """Writes a page's notebook and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in page.parent.glob("*.txt"):
        shutil.copy(file, folder)
    for file in page.parent.glob("*.json"):
        shutil.copy(file, folder)
    path = folder / f"{page.stem}.ipynb"
    path.write_text(json.dumps(notebook(page.read_text("utf-8")), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def run(path):
    """Runs a notebook in its folder and keeps the outputs. Raises nbclient's error if a cell fails."""
    import nbclient
    import nbformat

    made = nbformat.read(path, 4)
    nbclient.NotebookClient(made, timeout=600, kernel_name="python3", coalesce_streams=True,
                            resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(made, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES, help="names or paths of pages (default: the four guides)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "notebooks", help="folder for the notebooks")
    parser.add_argument("--run", action="store_true", help="run them and keep the outputs")
    parser.add_argument("--ridge", type=pathlib.Path, help="the program that the cells run (default: the one in the path)")
    arguments = parser.parse_args()
    if arguments.run and importlib.util.find_spec("nbclient") is None:
        print("[  SKIPPED ] no nbclient")
        raise SystemExit(77)
    if arguments.ridge:
        os.environ["PATH"] = f"{arguments.ridge.resolve().parent}{os.pathsep}{os.environ['PATH']}"
    for name in arguments.pages:
        page = pathlib.Path(name) if os.sep in name else ROOT / guides.FOLDER / f"{name}.md"
        path = write(page, arguments.out)
        if arguments.run:
            run(path)
        print(path)


if __name__ == "__main__":
    main()
