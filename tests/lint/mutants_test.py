#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each entry of tests/mutants_equal.txt gives a reason and is still a change that tools/mutants.py makes of the source."""
import pathlib
import sys

import sources

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import mutants  # noqa: E402


def check(root):
    yield from mutants.check(root)
    yield from sources.some(mutants.read_equal(root), mutants.EQUAL, "entry")


sources.run(check)
