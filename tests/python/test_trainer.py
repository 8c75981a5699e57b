# SPDX-License-Identifier: Apache-2.0
"""Training: losses against the command line, gradients against transformers' stored ones."""
import json
import subprocess

import numpy as np
import pytest
import ridge
from conftest import DATA, stored


def test_losses_are_the_programs(program, tmp_path):
    subprocess.run([program, "train", "--preset", "tiny", "--steps", "3", "--warmup", "0", "--device", "cpu", "--log-dir",
                    str(tmp_path / "log"), "--quiet"], check=True, capture_output=True)
    lines = (tmp_path / "log" / "metrics.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]
    with ridge.Trainer(preset="tiny", steps=3, device="cpu") as trainer:
        steps = list(trainer)
    assert [each.loss for each in steps] == pytest.approx(wanted[:3], abs=1e-6)
    assert [each.index for each in steps] == [0, 1, 2] and trainer.steps == 3
    assert all(each.tokens == trainer.batch_size * trainer.seq_len and each.ns > 0 for each in steps)


@pytest.mark.parametrize("name", ["gemma3_cap_fp32", "mistral_fp32", "qwen2_fp32", "qwen2_window_fp32", "qwen3_bf16"])
@pytest.mark.parametrize("level", ["baseline", "compiled"])
def test_gradients_are_those_of_transformers(name, level):
    folder, expected = stored(name)
    ids = np.array(expected["ids"])
    with ridge.Trainer(model=folder, batch_size=2, seq_len=ids.shape[1], level=level, gradients=True,
                       device="cpu") as trainer:
        loss, gradients = trainer.gradients(ids)
        assert loss == pytest.approx(expected["loss"], abs=1e-4)
        assert gradients.keys() == expected["gradients"].keys()
        for parameter, said in expected["gradients"].items():
            found = gradients[parameter].astype(np.float64).ravel()
            scale = max(said[0], 1e-2)  # the norm; the elements follow
            assert np.sqrt((found**2).sum()) == pytest.approx(said[0], abs=1e-3 * scale), parameter
            np.testing.assert_allclose(found[:len(said) - 1], said[1:], atol=1e-3 * scale, err_msg=parameter)
        again, _ = trainer.gradients(ids)
        assert again == loss  # nothing was updated
        assert trainer.step(ids).loss == pytest.approx(loss, abs=1e-6)
        assert trainer.step(ids).loss < loss


def test_parameters_are_read_and_written():
    folder, expected = stored("mistral_fp32")
    ids = np.array(expected["ids"])
    with ridge.Trainer(model=folder, batch_size=2, seq_len=ids.shape[1], lr=0.0, device="cpu") as trainer:
        parameters = trainer.parameters
        name = "model.layers.0.self_attn.q_proj.weight"
        assert name in parameters and len(parameters) == len(list(parameters)) == len(parameters.arrays())
        before = parameters[name]
        loss = trainer.step(ids).loss
        parameters[name] = np.zeros_like(before)
        assert not parameters[name].any()
        assert trainer.step(ids).loss != loss
        parameters[name] = before.tolist()
        np.testing.assert_array_equal(parameters[name], before)
        assert trainer.step(ids).loss == loss
        with pytest.raises(KeyError):
            parameters["nothing"]
        with pytest.raises(ridge.UsageError):
            parameters["nothing"] = before
        with pytest.raises(ridge.UsageError):
            parameters[name] = before[:1]


def test_saved_models_load(tmp_path):
    with ridge.Trainer(preset="tiny", steps=1, batch_size=1, seq_len=8, device="cpu") as trainer:
        for step in trainer:
            assert step.loss > 0
        trainer.save(tmp_path / "model")
        with pytest.raises(ridge.Error):
            trainer.save(tmp_path / "model")  # it exists
    with ridge.load(tmp_path / "model", device="cpu") as model:
        assert np.isfinite(model.logits([1, 2, 3])).all()


def test_text_trains(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six seven eight nine ten\n" * 300)
    tokenizer = DATA / "models" / "tokenizers" / "llama3"
    with ridge.Trainer(preset="tiny", data=[text], tokenizer=tokenizer.as_posix(), steps=6, lr=1e-3, clip=1.0, batch_size=2,
                       seq_len=32, device="cpu") as trainer:
        steps = list(trainer)
    assert steps[-1].loss < steps[0].loss and all(each.gradient_norm > 0 for each in steps)


def text_training(tmp_path, **options):
    """A trainer on a text, with a validation text and checkpoints."""
    words = "one two three four five six seven eight nine ten".split()
    draw = np.random.default_rng(3)
    for name, length in (("text.txt", 3000), ("val.txt", 600)):
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text(" ".join(draw.choice(words, length)))
    options = {"val_data": tmp_path / "val.txt", "val_every": 2, "val_batches": 2, "checkpoints": tmp_path / "c",
               "save_every": 2} | options
    return ridge.Trainer(preset="tiny", data=tmp_path / "text.txt", tokenizer=DATA / "models" / "tokenizers" / "llama3",
                         batch_size=2, seq_len=32, lr=1e-3, clip=1.0, device="cpu", **options)


def test_a_resumed_training_is_the_same_bit_by_bit(tmp_path):
    with text_training(tmp_path, steps=6, checkpoints=tmp_path / "whole") as trainer:
        wanted = list(trainer)
        parameters = trainer.parameters.arrays()
    assert [each.validation_loss is not None for each in wanted] == [False, True] * 3
    # Three steps, left by a break: closing saves what an interval of two did not.
    with text_training(tmp_path, steps=6) as trainer:
        first = [next(trainer) for _ in range(3)]
    assert sorted(each.name for each in (tmp_path / "c").iterdir()) == ["step-00000002", "step-00000003"]
    with pytest.raises(ridge.UsageError, match="resume"):
        text_training(tmp_path, steps=6)
    with text_training(tmp_path, steps=6, resume=True) as trainer:
        assert trainer.done == 3 and any("after step 3" in note for note in trainer.notes)
        rest = list(trainer)
        again = trainer.parameters.arrays()
        assert trainer.validations == {4: wanted[3].validation_loss, 6: wanted[5].validation_loss}
        assert trainer.validate() == wanted[5].validation_loss
        assert list(trainer) == []
    assert [each.loss for each in first + rest] == [each.loss for each in wanted]
    assert [each.index for each in rest] == [3, 4, 5]
    for name, array in parameters.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


def test_checkpoints_are_the_programs(tmp_path, program, text_model):
    """What one has saved, the other goes on from, with as many threads, whatever ran before."""
    ridge.load(text_model, device="cpu", threads=1).close()
    with text_training(tmp_path, steps=2) as trainer:
        list(trainer)
    command = [program, "train", "--preset", "tiny", "--data", str(tmp_path / "text.txt"), "--val-data", str(tmp_path / "val.txt"),
               "--val-every", "2", "--val-batches", "2", "--tokenizer", str(DATA / "models" / "tokenizers" / "llama3"),
               "--batch-size", "2", "--seq-len", "32", "--lr", "1e-3", "--clip", "1", "--device", "cpu",
               "--checkpoints", str(tmp_path / "c"), "--save-every", "2", "--steps", "4", "--resume"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with text_training(tmp_path, steps=6, resume=True) as trainer:
        assert trainer.done == 4 and not any(" was " in note for note in trainer.notes), trainer.notes
        both = list(trainer)
    with text_training(tmp_path, steps=6, checkpoints=tmp_path / "whole") as trainer:
        assert [each.loss for each in both] == [each.loss for each in list(trainer)[4:]]


def test_own_batches_have_checkpoints(tmp_path):
    batch = np.arange(64).reshape(2, 32) % 50
    with text_training(tmp_path, steps=3, val_every=1) as trainer:
        trainer.checkpoint()
        assert (tmp_path / "c" / "step-00000000" / "manifest.json").exists()
        assert trainer.step(batch).validation_loss == trainer.validate()
        trainer.checkpoint()
        assert (tmp_path / "c" / "step-00000001" / "manifest.json").exists()
        repr_ = repr(trainer)
    assert "1 of 3 steps" in repr_ and "closed" in repr(trainer)


@pytest.mark.parametrize("options, said", [
    ({"checkpoints": "c"}, "without data="), ({"val_data": "v"}, "without data="), ({"keep": 2}, "without checkpoints="),
    ({"resume": True}, "without checkpoints="), ({"spike_deviations": 3.0}, "without spike_guard="),
    ({"data": "t", "val_every": 2}, "without val_data="), ({"data_parallel": 2}, "mpirun -n 2 python"),
    ({"tensor_parallel": 2}, "torchrun --nproc-per-node 2"), ({"zero": 1}, "data_parallel="),
    ({"lr": "fast"}, r"\[lr\] expected a number, got str"), ({"gradients": "yes"}, "True or False, got str"),
])
def test_options_that_do_nothing_are_refused(options, said):
    with pytest.raises(ridge.UsageError, match=said):
        ridge.Trainer(preset="tiny", device="cpu", **options)


def test_trainers_without_data_have_no_checkpoints():
    with ridge.Trainer(preset="tiny", steps=1, batch_size=1, seq_len=8, device="cpu", model=None, keep=None) as trainer:
        with pytest.raises(ridge.UsageError, match="checkpoints="):
            trainer.checkpoint()
        with pytest.raises(ridge.UsageError, match="val_data="):
            trainer.validate()
        step, = trainer
        assert step.validation_loss is None and not step.skipped and trainer.validations == {} and trainer.notes == []
        assert repr(step).startswith("<ridge.Step 0: loss ") and "tokens/s" in repr(step)


def test_wrong_batches_raise():
    with ridge.Trainer(preset="tiny", batch_size=2, seq_len=8, device="cpu") as trainer:
        ids = np.ones((2, 8), np.int32)
        trainer.step(ids, labels=ids)
        for wrong in (ids[:1], ids + 10**6, ids - 5, ids.astype(np.float32), "text", None, [[1], [2, 3]], 3):
            with pytest.raises((ridge.UsageError, TypeError)):
                trainer.step(wrong)
        with pytest.raises(ridge.UsageError):
            trainer.step(ids, labels=ids * 0 - 1)
        with pytest.raises(ridge.UsageError):
            trainer.gradients(ids)
    with pytest.raises(ridge.UsageError):
        trainer.step(ids)
