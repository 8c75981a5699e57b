#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_browser_test.py RIDGE DATA: opens report.html in headless Chromium and compares what it shows with the JSON files.

DATA is tests/data. Ends with 77, which ctest counts as skipped, where there is no Chromium. It measures no times."""

import decimal
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
RIDGE = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
DATA = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None

# Runs in the page after it has drawn; what it returns is written into the page, where --dump-dom shows it.
PROBE = """
<script>
(() => {
  const text = (node) => node.textContent.trim();
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const change = (select, value) => { if (!select) return; select.value = value; select.dispatchEvent(new Event('change')); };
  const rows = (id) => all('#' + id + ' tbody tr').map((row) => all('td', row).map(text));
  const section = (id) => document.getElementById(id);
  const result = {
    panels: all('section').map((each) => ({id: each.id, hidden: each.hidden, text: text(each), charts: all('svg, canvas', each).length})),
    facts: Object.fromEntries(all('#overview .facts div').map((each) => [text(each.querySelector('dt')), each.querySelector('dd').firstChild.textContent])),
    verdict: section('overview').hidden ? '' : text(section('overview').querySelector('.verdict')),
    runs: rows('ladder'), operations: rows('operations'),
    points: all('#roofline .point').map((each) => each.dataset.key),
    validations: all('#training circle.validation').length, peak: all('#memory .peak').map(text), tree: rows('modules'), title: document.title,
    images: all('img, iframe, object, embed').length, scripts: all('script').length,
    requests: performance.getEntriesByType('resource').length,
    unnamed: all('svg:not([aria-label]), canvas:not([aria-label])').length,
    wide: document.documentElement.scrollWidth > window.innerWidth,
  };
  const groups = all('#operations select')[0];
  if (groups) {
    change(groups, '5');
    result.phases = rows('operations');
    change(all('#operations select')[1], 'backward');
    result.backward = rows('operations');
    change(all('#roofline select')[0], '6');
    result.kernelPoints = all('#roofline .point').length;
    const search = section('roofline').querySelector('input[type=search]');
    if (search) { search.value = 'matmul'; search.dispatchEvent(new Event('input')); }
    result.matmulPoints = all('#roofline .point').map((each) => each.dataset.key);
    const canvas = section('timeline').querySelector('canvas'), box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new MouseEvent('click', {clientX: box.left + 0.5 * box.width, clientY: box.top + 80, bubbles: true, view: window}));
    result.node = text(section('timeline').querySelector('.detail'));
    for (const key of ['ArrowUp', 'ArrowRight', 'ArrowDown', 'Home']) canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
    all('#operations thead button')[0].click();
    result.sorted = rows('operations').map((row) => row[0]);
  }
  const out = document.createElement('pre');
  out.id = 'probe';
  out.textContent = JSON.stringify(result);
  document.body.appendChild(out);
})();
</script>
"""


def fixed(value, digits):
    """As toFixed does: of two that are as near, the larger one. Python's formats take the even one."""
    return str(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-digits), decimal.ROUND_HALF_UP))


def three_digits(value):
    if abs(value) >= 100 or value == 0:
        return fixed(value, 0)
    return fixed(value, 1) if abs(value) >= 10 else fixed(value, 2)


def time_text(ns):
    for factor, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")]:
        if ns >= 0.9995 * factor or unit == "ns":
            return f"{three_digits(ns / factor)} {unit}"


def bytes_text(count):
    for power, unit in [(3, "GiB"), (2, "MiB"), (1, "KiB"), (0, "B")]:
        if count >= 0.9995 * 1024**power or power == 0:
            return f"{three_digits(count / 1024**power)} {unit}"


def percent_text(share):
    return fixed(100 * share, 1) + "%"


class Page:
    """A report opened in the browser, with the probe's result and the console's errors."""

    def __init__(self, report, width=1280):
        source = report.read_text(encoding="utf-8")
        probed = report.with_suffix(".probed.html")
        end = source.rindex("</body>")
        probed.write_text(source[:end] + PROBE + source[end:], encoding="utf-8")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                 f"--window-size={width},1400", "--enable-logging=stderr", "--dump-dom", probed.as_uri()],
                capture_output=True, text=True, timeout=120, check=False)
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
        if not found:
            raise AssertionError(f"no result from the page: {self.console or done.stderr[-2000:]}")
        self.result = json.loads(html.unescape(found.group(1)))
        self.size = len(source.encode())

    def __getattr__(self, name):
        return self.result[name]

    def panel(self, name):
        return next(each for each in self.result["panels"] if each["id"] == name)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def ridge(self, *arguments):
        subprocess.run([RIDGE, *map(str, arguments)], cwd=self.folder, check=True, capture_output=True, timeout=600)

    def load(self, folder, name="performance_summary.json"):
        return json.loads((self.folder / folder / name).read_text(encoding="utf-8"))

    def expect_sound(self, page):
        self.assertEqual(page.console, [])
        self.assertEqual(page.requests, 0)
        self.assertEqual(page.unnamed, 0)
        self.assertFalse(page.wide)
        for panel in page.panels:
            self.assertNotIn("cannot be drawn", panel["text"], panel["id"])
            for word in ["NaN", "undefined", "Infinity", "[object"]:
                self.assertNotIn(word, panel["text"], panel["id"])

    def expect_run(self, page, run, predicted="predicted"):
        """The figures of a run that the page shows; an imported one has no prediction but its limits."""
        self.assertEqual(page.facts["step, median"], time_text(run["step"]["median_ns"]))
        for term, value, text in [(predicted, run["predicted_step_ns"], time_text), ("MFU", run["mfu"], percent_text),
                                  ("owned memory", run["memory"]["owned_bytes"], bytes_text)]:
            self.assertEqual(page.facts.get(term), text(value) if value > 0 else None)
        self.assertIn(time_text(run["step"]["median_ns"]), page.verdict)
        by_op = {row["key"]: row for row in run["operations"]["by_op"]}
        self.assertEqual({row[0] for row in page.operations}, set(by_op))
        timed = {key for key, row in by_op.items() if row["flops"] > 0 and row["time_ns"] > 0}
        self.assertEqual(set(page.points), set() if page.panel("roofline")["hidden"] else timed)

    def test_a_lab_of_this_version(self):
        self.ridge("lab", "--preset", "tiny", "--batch-size", 1, "--seq-len", 32, "--steps", 4, "--warmup", 1, "--level",
                   "baseline,compiled", "--profile-level", "baseline,compiled", "--no-advice", "--out", "lab")
        summary = self.load("lab")
        page = Page(self.folder / "lab" / "report.html")
        self.expect_sound(page)
        self.assertLess(page.size, 2_000_000)
        run = summary["runs"][-1]
        self.expect_run(page, run)
        for row in page.operations:
            expected = next(each for each in run["operations"]["by_op"] if each["key"] == row[0])
            self.assertEqual(row[1:4], [f"{expected['calls']:,}", time_text(expected["time_ns"]), percent_text(expected["share"])])
        phases = {row["key"]: row for row in run["operations"]["by_phase"]}
        self.assertEqual({row[0]: row[2] for row in page.phases}, {key: time_text(row["time_ns"]) for key, row in phases.items()})
        self.assertEqual([row[0] for row in page.backward], ["backward"])
        kernels = self.load("lab", "kernels.json")
        columns, rows = kernels["columns"], kernels["runs"][-1]["rows"]
        flops, op = columns.index("flops"), columns.index("op")
        self.assertEqual(page.kernelPoints, sum(row[flops] > 0 for row in rows))
        self.assertEqual(len(page.matmulPoints), sum(row[op] == "matmul" for row in rows))
        memory = self.load("lab", "memory.json")["runs"][-1]
        self.assertEqual(len(page.peak), 1)
        self.assertIn(bytes_text(memory["peak_at"]["total_bytes"]), page.peak[0])
        self.assertEqual(sum(each["bytes"] for each in memory["tensors_at_peak"]), memory["peak_at"]["total_bytes"])
        self.assertEqual(page.tree[0][1], f"{run['parameters']:,}")
        self.assertIn("%", page.node)
        self.assertEqual(page.sorted, sorted(page.sorted))
        for name in ["overview", "ladder", "roofline", "operations", "timeline", "modules", "memory", "prediction", "training", "comparison"]:
            self.assertFalse(page.panel(name)["hidden"], name)
        self.assertTrue(page.panel("inference")["hidden"])
        self.expect_sound(Page(self.folder / "lab" / "report.html", width=700))

    def test_a_folder_of_the_first_version(self):
        report = self.folder / "old.html"
        self.ridge("report", DATA / "runs" / "version_1", "-o", report)
        page = Page(report)
        self.expect_sound(page)
        summary = json.loads((DATA / "runs" / "version_1" / "performance_summary.json").read_text(encoding="utf-8"))
        self.expect_run(page, summary["runs"][-1])
        self.assertIn("baseline", page.runs[0][0])

    def test_inference(self):
        self.ridge("infer-lab", DATA / "models" / "llama_fp32", "--seq-len", "8,16", "--batch-size", "1,2", "--prompt-tokens", 4, "--tokens", 4,
                   "--attention-seq-len", "32,64", "--seconds", 4, "--level", "baseline,compiled", "--out", "study")
        page = Page(self.folder / "study" / "report.html")
        self.expect_sound(page)
        summary = self.load("study")
        self.expect_run(page, summary["runs"][-1] if "operations" in summary["runs"][-1] else next(
            run for run in reversed(summary["runs"]) if "operations" in run))
        text = page.panel("inference")["text"]
        for run in summary["runs"]:
            self.assertIn(time_text(run["step"]["median_ns"]), text)
        for each in self.load("study", "infer_summary.json")["latency"]:
            self.assertIn(time_text(each["ttft_ns"]), text)
        # A share over 100% is not shown without its reason.
        for run in summary["runs"]:
            run["mbu"], run["mbu_reason"] = 1.538, "the weights lie in the <last-level> cache"
        (self.folder / "study" / "performance_summary.json").write_text(json.dumps(summary), encoding="utf-8")
        self.ridge("report", "study", "-o", "over.html")
        page = Page(self.folder / "over.html")
        self.expect_sound(page)
        self.assertIn("153.8% of the memory bandwidth (the weights lie in the <last-level> cache)", page.verdict)
        self.assertIn("MBU over 100%: the weights lie in the <last-level> cache.", page.panel("inference")["text"])

    def test_two_folders(self):
        for name, level in [("a", "baseline"), ("b", "compiled")]:
            self.ridge("train", "--preset", "tiny", "--batch-size", 1, "--seq-len", 16, "--steps", 4, "--level", level, "--out", name)
        self.ridge("report", "a", "b", "-o", "both.html")
        page = Page(self.folder / "both.html")
        self.expect_sound(page)
        self.assertEqual(len(page.runs), 2)
        text = page.panel("comparison")["text"]
        for name in ["a", "b"]:
            self.assertIn(time_text(self.load(name)["runs"][0]["step"]["median_ns"]), text)

    def test_validations_of_a_training(self):
        (self.folder / "ids.bin").write_bytes(b"".join((i % 200).to_bytes(2, "little") for i in range(512)))
        self.ridge("train", "--preset", "tiny", "--batch-size", 1, "--seq-len", 16, "--steps", 4, "--data", "ids.bin", "--val-data",
                   "ids.bin", "--val-every", 2, "--val-batches", 1, "--out", "validated")
        losses = self.load("validated")["runs"][0]["loss"]["validation"]
        self.assertEqual([step for step, loss in losses], [2, 4])
        page = Page(self.folder / "validated" / "report.html")
        self.expect_sound(page)
        self.assertEqual(page.validations, 2)

    def test_imported_traces(self):
        for name in ["fused", "generate", "compiled_h100"]:
            self.ridge("import", DATA / "traces" / f"{name}.json.gz", "--out", name)
            page = Page(self.folder / name / "report.html")
            self.expect_sound(page)
            run = self.load(name)["runs"][-1]
            self.expect_run(page, run, "at the limits")
            expected = {row["key"]: time_text(row["time_ns"]) for row in run["operations"]["by_op"]}
            for row in page.operations:
                self.assertEqual(row[2], expected[row[0]])

    def test_a_run_on_a_gpu(self):
        self.ridge("report", DATA / "runs" / "h100", "-o", "gpu.html")
        page = Page(self.folder / "gpu.html")
        self.expect_sound(page)
        self.expect_run(page, json.loads((DATA / "runs" / "h100" / "performance_summary.json").read_text(encoding="utf-8"))["runs"][-1])

    def test_an_op_and_a_model(self):
        self.ridge("bench", "op", "softmax", "--threads", 1, "--out", "op")
        page = Page(self.folder / "op" / "report.html")
        self.expect_sound(page)
        result = self.load("op", "bench.json")["result"]
        for case in result["cases"]:
            if not case["refused"]:
                self.assertIn(time_text(case["median_ns"]), page.panel("bench")["text"])
        self.ridge("bench", "model", DATA / "models" / "llama_fp32", "-p", 4, "-n", 2, "-r", 2, "--out", "model")
        page = Page(self.folder / "model" / "report.html")
        self.expect_sound(page)
        for each in self.load("model", "bench.json")["result"]["tests"]:
            self.assertIn(each["test"], page.panel("bench")["text"])

    def test_a_sweep_a_module_and_demos(self):
        commands = {
            "sweep": ("bench", "op", "matmul", "--sweep", "n=k=m=16:64*2", "--fit", "--threads", 1, "--seconds", 0.01),
            "module": ("bench", "module", "mlp", "--config", "tiny", "--seq-len", "8,16", "--threads", 1, "--seconds", 0.01),
            "sheet": ("bench", "attention", "--hardware", "h100", "--dtype", "bf16", "--seq-len", "256,512"),
            "demo": ("demo", "fusion", "--budget", "1s", "--threads", 1),
            "losses": ("demo", "initialisation", "--budget", "1s", "--threads", 1),
        }
        for name, command in commands.items():
            self.ridge(*command, "--out", name)
            page = Page(self.folder / name / "report.html")
            self.expect_sound(page)
            text = page.panel("bench")["text"]
            result = self.load(name, "bench.json")["result"]
            for case in result["cases"]:
                self.assertIn(time_text(case["median_ns"] if case["samples"] else case["predicted_ns"]), text)
            for sentence in result.get("teaches", []):
                self.assertIn(sentence, text)
            for value in result.get("values", []):
                self.assertIn(value["name"], text)

    def test_hostile_names_are_text(self):
        hostile = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202e\u0007'\"&amp;"
        folder = self.folder / "hostile"
        shutil.copytree(DATA / "runs" / "version_1", folder)

        def spoil(value, key=""):
            if isinstance(value, dict):
                return {name: spoil(each, name) for name, each in value.items()}
            if isinstance(value, list):
                return [spoil(each, key) for each in value]
            names = ("model", "device", "command", "title", "reason", "key", "op", "scope", "shape", "name", "trade")
            return value + hostile if isinstance(value, str) and key in names else value

        for path in folder.glob("*.json"):
            path.write_text(json.dumps(spoil(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
        self.ridge("report", "hostile")
        page = Page(folder / "report.html")
        self.assertEqual(page.console, [])
        self.assertEqual(page.images, 0)
        self.assertEqual(page.scripts, 4)  # the data, D3, the page, the probe
        self.assertNotEqual(page.title, "owned")
        self.assertIn("<script>document.title='owned'</script>\\u{202e}\\u{7}", page.verdict)


if __name__ == "__main__":
    if not CHROMIUM:
        print("no Chromium (Debian's package chromium)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
