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

    def step():
        with ridge.profile() as profiled:
            layer(torch.ones(8, 64)).sum().backward()
        return profiled

    first, second = step(), step()
    rows = first.operations if isinstance(first.operations, list) else first.operations.to_dict("records")
    products = [each for each in rows if each["key"] == "matmul"]
    assert products[0]["macs"] == 2 * 8 * 64 * 64 and products[0]["time_ns"] > 0
    scopes = first.table("scope")
    assert "Linear" in (str(scopes) if isinstance(scopes, list) else scopes.to_string())
    changes = first.compare(second)
    assert "matmul" in changes.text and changes.data[0]["a"] == changes.data[0]["b"]
    with pytest.raises(ridge.UsageError):
        first.table("colour")


def test_reports_are_compared():
    report = ridge.import_trace(DATA / "traces" / "compiled.json.gz")
    same = report.compare(report)
    assert same.data[0]["step"]["ratio"] == 1 and "B / A" in same.text
    with pytest.raises(ridge.Error):
        report.compare(ridge.plan(preset="tiny", **HARDWARE))
    with pytest.raises(TypeError):
        report.compare(3)


def test_a_lab_is_short(tmp_path):
    lab = ridge.lab(preset="tiny", level=["baseline", "compiled"], steps=4, warmup=1, batch_size=1, seq_len=16, advice=False,
                    device="cpu")
    assert len(lab.data["runs"]) == 2 and lab.page().startswith("<!") and "baseline" in lab.text
    assert lab.compare(lab).data
    inference = ridge.lab(model=DATA / "models" / "llama_fp32", inference=True, level="compiled", batch_size=1, seq_len=16,
                          latency_batch_size=1, attention_seq_len=16, prompt_tokens=4, tokens=2, seconds=2, device="cpu")
    assert inference.data["runs"] and "TTFT" in inference.text
    for wrong in ({"preset": "huge"}, {"level": "best"}, {"batch_size": [0]}, {"seq_len": "x"}, {"inference": True}):
        with pytest.raises(ridge.UsageError):
            ridge.lab(device="cpu", **wrong)
    with pytest.raises(TypeError):
        ridge.lab(nonsense=1)
