#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each figure that an answer of docs/guides states stands in a command or an output above it, and each picture is there. Each
exercise of tests/data/exercises.txt has one row in coverage.md."""
import pathlib
import sys

import sources

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import coverage  # noqa: E402
import guides  # noqa: E402


def check(root):
    yield from guides.check(root)
    yield from coverage.check(root)
    yield from sources.some([*root.glob(f"{guides.FOLDER}/*.md")], guides.FOLDER, "page")


sources.run(check)
