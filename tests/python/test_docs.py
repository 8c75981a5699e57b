# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md run as they stand, and mypy --strict accepts them with the stubs."""
import re
import subprocess
import sys

import pytest
from conftest import SOURCE

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs" / "python.md").read_text(), re.M | re.S)


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_examples_run(index, text_model, capsys):
    assert len(EXAMPLES) == 10
    exec(compile(EXAMPLES[index], f"example {index}", "exec"), {"folder": text_model})


def test_examples_are_typed(tmp_path):
    pytest.importorskip("mypy")
    for index, each in enumerate(EXAMPLES):
        (tmp_path / f"example_{index}.py").write_text('folder = "model"\n' + each)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"),
                           *map(str, tmp_path.glob("*.py"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
