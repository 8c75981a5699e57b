# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md run as they stand."""
import re

import pytest
from conftest import SOURCE

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs" / "python.md").read_text(), re.M | re.S)


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_examples_run(index, text_model, capsys):
    assert len(EXAMPLES) == 9
    exec(compile(EXAMPLES[index], f"example {index}", "exec"), {"folder": text_model})
