#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each figure that an answer of docs/guides states stands in a command or an output above it, and each picture is there."""
import pathlib
import sys

import sources

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import guides  # noqa: E402


def check(root):
    yield from guides.check(root)
    yield from sources.some([*root.glob(f"{guides.FOLDER}/*.md")], guides.FOLDER, "page")


sources.run(check)
