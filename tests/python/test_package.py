# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: how it is imported, its exceptions, its stubs."""
import pathlib
import re
import subprocess
import sys

import pytest
import ridge

NAMES = """
import sys, time
begin = time.process_time()  # of an idle machine the same; others may use this one
import ridge
assert time.process_time() - begin < 0.3, "the import is slow"
assert "numpy" not in sys.modules
assert "GOMP_SPINCOUNT" not in __import__("os").environ
assert all(hasattr(ridge, name) for name in ridge.__all__)
"""


def test_import_is_light():
    environment = {k: v for k, v in __import__("os").environ.items() if k != "OMP_WAIT_POLICY"}
    subprocess.run([sys.executable, "-c", NAMES], check=True, env=environment)


def test_version_is_the_programs(program):
    out = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    assert out.split()[1] == ridge.__version__


def test_exceptions_are_one_family():
    for name, code in [("UsageError", 2), ("ModelError", 3), ("MemoryError", 4), ("DeviceError", 5)]:
        kind = getattr(ridge, name)
        assert issubclass(kind, ridge.Error) and kind.code == code
    assert ridge.Error.code == 1
    assert issubclass(ridge.UsageError, ValueError) and issubclass(ridge.MemoryError, MemoryError)


@pytest.mark.parametrize("call, kind", [
    (lambda: ridge.load("/nowhere"), ridge.ModelError),
    (lambda: ridge.load(b"/nowhere"), ridge.UsageError),
    (lambda: ridge.load(7), TypeError),
    (lambda: ridge.load("/nowhere", nonsense=1), TypeError),
    (lambda: ridge.load("/nowhere", dtype="f99"), ridge.UsageError),
    (lambda: ridge.load("/nowhere", threads="many"), ridge.UsageError),
    (lambda: ridge.parse("%0 ="), ridge.UsageError),
    (lambda: ridge.Trainer(preset="huge"), ridge.UsageError),
    (lambda: ridge.Trainer(preset="tiny", steps=-1), ridge.UsageError),
    (lambda: ridge.Trainer(presets="tiny"), TypeError),
    (lambda: ridge.Tokenizer("/nowhere"), ridge.ModelError),
])
def test_wrong_calls_raise(call, kind):
    with pytest.raises(kind):
        call()


TYPED = """
import ridge

def tokens(path: str) -> int:
    with ridge.load(path, device="cpu", threads=2) as model:
        return len(model.tokenizer.encode("text"))

def cost() -> int:
    graph = ridge.Graph()
    x: ridge.Value = graph.input("x", (4, 8))
    graph.output(x + x)
    return graph.cost(device="cpu").flops

def sequences(model: ridge.Model) -> list[int]:
    with model.session("text") as session:
        other: ridge.Session = session.fork()
        other.truncate(1)
        return session.ids + other.ids

async def served(model: ridge.Model) -> str:
    with ridge.Engine(model, queue=4) as engine:
        answer: ridge.Answer = engine.submit("text", max_tokens=4)
        pieces = [piece async for piece in answer]
        result: ridge.Result = await engine.submit("text")
        return "".join(pieces) + result.text

def own() -> float:
    graph = ridge.Graph()
    graph.output(graph.silu(graph.input("x", (4, 8))))
    rule = ridge.Pass("same", graph, graph.text())
    kernel: ridge.Kernel = ridge.kernel("mine", lambda x: x, like="copy", shapes=[(4, 8)])
    report: ridge.Report = kernel.profile(seconds=0.1)
    return rule.error + kernel.error + len(report.compare(report).text)

def operators() -> ridge.Value:
    graph = ridge.Graph()
    x, w = graph.input("x", (4, 8)), graph.parameter("w", (3, 8), "float32")
    y: ridge.Value = 2 * (x @ w.T) - 1
    plan: ridge.Report = graph.plan(device="cpu")
    return (-y / 3 + 1).mean() if plan.data else y ** 2

def batch(model: ridge.Model) -> list[int]:
    model.logits([[1, 2], [3, 4]], all=True)
    ids: list[int] = model.generate("text").ids
    texts: list[str] = [each.text for each in model.generate(["a", "b"], max_tokens=2)]
    pieces: list[str] = list(model.chat([{"role": "user", "content": texts[0]}], stream=True))
    return ids + model.chat([{"role": "user", "content": pieces[0]}]).ids

def resumed(folder: str) -> float | None:
    trainer = ridge.Trainer(preset="tiny", data="text.txt", val_data="val.txt", checkpoints=folder, resume=True)
    losses: dict[int, float] = trainer.validations
    return next(trainer).validation_loss or losses[1] or trainer.validate()

def losses() -> list[float]:
    return [step.loss for step in ridge.Trainer(preset="tiny", steps=2)]
"""


def test_stubs_are_strict(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "typed.py"
    path.write_text(TYPED)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(path)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    path.write_text(TYPED + "\nridge.Graph().input(3, 4)\n")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(path)],
                          capture_output=True, text=True)
    assert done.returncode != 0  # the stubs say something
    package = pathlib.Path(ridge.__file__).parent
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path),
                           *map(str, package.glob("*.py"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
