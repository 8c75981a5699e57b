#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each file of docs/runs begins with its keys, and docs/runs/README.md is the table that tools/runs_index.py makes of them."""
import pathlib
import sys

import sources

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import runs_index  # noqa: E402


def check(root):
    yield from runs_index.check(root)
    yield from sources.some([*root.glob("docs/runs/*-*.md")], "docs/runs", "run")


sources.run(check)
