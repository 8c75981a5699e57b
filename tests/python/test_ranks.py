# SPDX-License-Identifier: Apache-2.0
"""Ranks: those that ridge.load starts for a model, and scripts that mpirun starts several times."""
import asyncio
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import ridge

TEXT = "The quick brown fox jumps over the lazy dog."


def outputs(model):
    """What a model computes, by all ways into it."""
    ids = model.tokenizer.encode(TEXT)
    session = model.session("The quick brown")
    fed = np.array(session.feed(" fox"))
    other = session.fork()
    other.truncate(len(other) - 1)
    with pytest.raises(ridge.UsageError, match="sequence"):
        model.generate(TEXT, max_tokens=2)  # both sequences are kept
    other.close(), session.close()
    arrays = [fed, np.array(model.logits(ids)), np.array(model.logits(ids, all=True)), np.array(model.embed(TEXT)),
              np.array(model.logprobs(TEXT))]
    drawn = model.generate("The dog", max_tokens=8, temperature=0.9, seed=3, ignore_end=True)
    return arrays, [drawn.ids, "".join(model.stream("The quick", max_tokens=8)),
                    [each.ids for each in model.generate(["The", "A dog"], max_tokens=4)]]


def test_a_model_on_two_ranks_is_the_model(text_model, model):
    wanted_arrays, wanted = outputs(model)
    for _ in range(2):  # a model's ranks end with it, and another one has its own
        with ridge.load(text_model, device="cpu", context=128, max_sequences=2, tensor_parallel=2) as shared:
            arrays, texts = outputs(shared)
            for own, array in zip(wanted_arrays, arrays, strict=True):
                np.testing.assert_allclose(array, own, atol=2e-4)
            assert texts == wanted

            async def serve():
                with ridge.Engine(shared) as engine:
                    answers = [engine.submit(each, max_tokens=4) for each in ("The", "A dog")]
                    return [(await each).ids for each in answers]

            assert asyncio.run(serve()) == wanted[2]
            assert outputs(shared)[1] == wanted  # without that engine again
        with pytest.raises(ridge.UsageError, match="closed"):
            shared.logits([1])


@pytest.mark.parametrize("ranks", [0, -1, 3, 5000, 100000, "2"])
def test_numbers_of_ranks_are_checked(text_model, ranks):
    with pytest.raises(ridge.UsageError, match="tensor.parallel"):
        ridge.load(text_model, device="cpu", context=64, tensor_parallel=ranks)


def run(command, script, tmp_path, *arguments):
    path = tmp_path / "script.py"
    path.write_text("import json, os, signal, sys\nimport ridge\n" + script)
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run([*command, sys.executable, str(path), *arguments], capture_output=True, text=True, timeout=200,
                          env=environment, check=False)


def mpirun(script, tmp_path, *arguments, ranks=2):
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    command = ["mpirun", "-n", str(ranks), "--bind-to", "none", "--oversubscribe"]
    return run(command, script, tmp_path, *arguments)


TRAIN = """
options = json.loads(sys.argv[1])
with ridge.Trainer(preset="tiny", device="cpu", seq_len=16, **options) as trainer:
    losses = [step.loss for step in trainer]
    norm = float(trainer.parameters["model.norm.weight"].sum())
    if trainer.rank == 0:
        print(json.dumps([losses, norm]))
"""


def trained(tmp_path, ranks, **options):
    done = mpirun(TRAIN, tmp_path, json.dumps(options), ranks=ranks)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("ranks, options", [
    (2, {"batch_size": 2, "data_parallel": 2}), (2, {"batch_size": 2, "data_parallel": 2, "zero": 3}),
    (2, {"batch_size": 4, "tensor_parallel": 2, "sequence_parallel": True}),
    (4, {"batch_size": 2, "data_parallel": 2, "tensor_parallel": 2}),
    (2, {"batch_size": 1, "micro_batches": 4, "pipeline_parallel": 2, "pipeline_schedule": "zero-bubble"}),
])
def test_ranks_train_as_one_process(tmp_path, ranks, options):
    alone = {"batch_size": options["batch_size"] * options.get("data_parallel", 1),
             "micro_batches": options.get("micro_batches", 1)}
    with ridge.Trainer(preset="tiny", device="cpu", seq_len=16, steps=4, **alone) as trainer:
        losses = [step.loss for step in trainer]
        norm = float(np.sum(trainer.parameters["model.norm.weight"]))
    found = trained(tmp_path, ranks, steps=4, **options)
    np.testing.assert_allclose(found[0], losses, atol=2e-5)
    assert found[1] == pytest.approx(norm, abs=1e-3)


def test_ranks_go_on_after_a_checkpoint(tmp_path, text_model):
    data = {"data": str(text_model.parent / "text.txt"), "tokenizer": str(text_model), "batch_size": 1, "data_parallel": 2,
            "zero": 1, "steps": 4, "schedule": "constant"}
    whole = trained(tmp_path, 2, **data, checkpoints=str(tmp_path / "whole"))
    trained(tmp_path, 2, **{**data, "steps": 2}, checkpoints=str(tmp_path / "c"))
    rest = trained(tmp_path, 2, **data, checkpoints=str(tmp_path / "c"), resume=True)
    assert [whole[0][2:], whole[1]] == rest


def test_a_script_that_raises_ends_the_other_ranks(tmp_path):
    done = mpirun("""
for step in ridge.Trainer(preset="tiny", steps=3, batch_size=1, seq_len=16, device="cpu", data_parallel=2):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        raise RuntimeError("the data ended")
""", tmp_path)
    assert done.returncode != 0 and "rank 1 of 2: the data ended" in done.stderr


def test_a_launchers_ranks_share_one_model(tmp_path, text_model):
    done = mpirun("""
for _ in range(2):
    with ridge.load(sys.argv[1], device="cpu", context=64, tensor_parallel=2) as model:
        print(model.generate("The quick", max_tokens=4).tokens)
""", tmp_path, str(text_model))
    assert done.stdout == "4\n" and "expected one model in a script that mpirun started" in done.stderr


def test_a_rank_that_dies_is_named(tmp_path, text_model):
    """The first process would wait for it; it ends, as on the command line."""
    done = run([], """
model = ridge.load(sys.argv[1], device="cpu", context=64, tensor_parallel=2)
import ridge.followers
ridge.followers._started[0].kill()
print(model.generate("The quick", max_tokens=40))
""", tmp_path, str(text_model))
    assert done.returncode == 1 and "rank" in done.stderr and done.stdout == "", done.stderr


def test_the_other_ranks_end_with_the_first(tmp_path, text_model):
    done = run([], """
import ridge.followers
model = ridge.load(sys.argv[1], device="cpu", context=64, tensor_parallel=2)
print(ridge.followers._started[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""", tmp_path, str(text_model))
    follower = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(follower, 0)
        except ProcessLookupError:
            return
        try:  # a process that has ended stays until its parent, by then the container's first one, asks
            with open(f"/proc/{follower}/stat", encoding="utf-8") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return
        asyncio.run(asyncio.sleep(0.1))
    pytest.fail("the other rank still runs")
