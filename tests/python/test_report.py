# SPDX-License-Identifier: Apache-2.0
"""Records that show themselves: their figures are those of the command line."""
import json
import subprocess

import pytest
import ridge
from conftest import DATA

HARDWARE = dict(hardware="h100", device="cpu")


def test_plans_are_the_programs(program):
    wanted = json.loads(subprocess.run([program, "plan", "--preset", "tiny", "--hardware", "h100", "--json"],
                                       check=True, capture_output=True, text=True).stdout)
    plan = ridge.plan(preset="tiny", **HARDWARE)
    assert plan.data == wanted
    html = plan._repr_html_()
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org", "") and plan.text[:9] in html
    with pytest.raises(ridge.UsageError):
        plan.page()
    inference = ridge.plan(model=DATA / "models" / "llama_fp32", inference=True, **HARDWARE)
    assert inference.data != wanted and "TTFT" in inference.text


def test_traces_are_imported(tmp_path):
    report = ridge.import_trace(DATA / "traces" / "compiled.json.gz")
    assert report.data["runs"] and "<svg" not in report._repr_html_()
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page == report.page() and page.startswith("<!")
    with_roofs = ridge.import_trace(DATA / "traces" / "compiled.json.gz", hardware="h100")
    assert with_roofs.picture.startswith("<svg") and with_roofs.picture in with_roofs._repr_html_()
    kernels = ridge.import_trace(DATA / "traces" / "rocprof.json", hardware="h100")
    assert not kernels.picture and kernels.data["runs"]
    with pytest.raises(ridge.ModelError):
        ridge.import_trace(__file__)


def test_markup_in_texts_is_inert(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{}")
    with pytest.raises(ridge.Error):
        ridge.import_trace(path)
    report = ridge.import_trace(DATA / "traces" / "compiled.json.gz")
    inner = report._repr_html_().replace("<div>", "").replace("</div>", "").replace("</pre>", "")
    assert inner.count("<") == 1  # the <pre> alone


@pytest.mark.parametrize("call", [
    lambda: ridge.plan(preset="huge", **HARDWARE), lambda: ridge.plan(hardware="abacus"),
    lambda: ridge.plan(preset="tiny", recompute="half", **HARDWARE), lambda: ridge.demo("nothing"),
    lambda: ridge.demo("fusion", seconds=0), lambda: ridge.machine(device="tpu")
])
def test_wrong_calls_raise(call):
    with pytest.raises(ridge.UsageError):
        call()


def test_unknown_arguments_raise():
    for call in (ridge.plan, ridge.machine):
        with pytest.raises(TypeError):
            call(nonsense=1)


def test_pytorch_is_profiled():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(64, 64)
    with ridge.profile() as profiled:
        layer(torch.ones(8, 64)).sum().backward()
    assert len(profiled.operations) > 0 and "addmm" in profiled.report.json
