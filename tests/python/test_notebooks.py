# SPDX-License-Identifier: Apache-2.0
"""The guides as notebooks: each command is a cell, and the cells of a short page run."""
import json
import os
import pathlib
import shutil
import sys

import pytest
from conftest import SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
import guides  # noqa: E402
import notebooks  # noqa: E402

PAGE = """# A page

Counts are exact.

```console
$ ridge plan --preset tiny --hardware h100
figures
```

What a command writes does not hinder the next run.

```console
$ ridge demo contiguity --budget 1s --out places
a table
```

A demo shows itself.

```console
$ ridge demo contiguity --budget 1s
a table
```
"""


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_each_command_is_a_cell(name):
    text = (SOURCE / guides.FOLDER / f"{name}.md").read_text("utf-8")
    made = notebooks.notebook(text)
    code = [each["source"] for each in made["cells"] if each["cell_type"] == "code"]
    commands = [block.text() for block in guides.blocks(text.split("\n"))]
    code = [each for each in code[1:] if not each.startswith("display(")]  # without the imports and pictures
    assert len(code) == len(commands) > 3
    for source, command in zip(code, commands):
        assert source == "%%bash\n" + command or source.startswith("ridge.demo(")
    shown = "\n".join(each["source"] for each in made["cells"] if each["cell_type"] == "markdown")
    headings = [line for line in text.split("\n") if line.startswith("## ")]
    assert headings and all(each in shown for each in headings)
    assert ".svg)" not in shown  # the cells draw them


def test_a_notebook_runs(tmp_path, monkeypatch, program):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setenv("PATH", f"{pathlib.Path(program).parent}{os.pathsep}{os.environ['PATH']}")
    path = notebooks.write(page, tmp_path / "out")
    notebooks.run(path)
    notebooks.run(path)
    cells = [each for each in json.loads(path.read_text())["cells"] if each["cell_type"] == "code"]
    assert "tiny" in "".join("".join(output.get("text", "")) for output in cells[1]["outputs"])
    data = cells[3]["outputs"][0]["data"]
    assert "<svg" in "".join(data["text/html"]) and "contiguity" in "".join(cells[3]["source"])
    shutil.rmtree(tmp_path / "out")
    page.write_text(PAGE.replace("--preset tiny", "--preset nonsense"))
    import nbclient
    with pytest.raises(nbclient.exceptions.CellExecutionError):
        notebooks.run(notebooks.write(page, tmp_path / "out"))
