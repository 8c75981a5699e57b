# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the stored models of tests/data, and a model with a tokenizer that one step of training makes."""
import json
import os
import pathlib

import pytest
import ridge

SOURCE = pathlib.Path(os.environ.get("RIDGE_SOURCE", pathlib.Path(__file__).parents[2]))
DATA = SOURCE / "tests" / "data"


@pytest.fixture(scope="session")
def program():
    """The path of the command line's program."""
    path = os.environ.get("RIDGE_PROGRAM", SOURCE / "build" / "ridge")
    if not pathlib.Path(path).exists():
        pytest.skip(f"{path} is not built")
    return str(path)


def stored(name):
    """The folder of a small model and what transformers computed for it."""
    folder = DATA / "models" / name
    return folder, json.loads((folder / "expected.json").read_text())


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """A folder with a tiny model that has a tokenizer."""
    folder = tmp_path_factory.mktemp("models")
    text = folder / "text.txt"
    text.write_text("The quick brown fox jumps over the lazy dog, and the dog sleeps.\n" * 400)
    tokenizer = DATA / "models" / "tokenizers" / "gpt2"
    with ridge.Trainer(preset="tiny", data=text, tokenizer=str(tokenizer), steps=4, lr=3e-3, batch_size=2, seq_len=32,
                       device="cpu") as trainer:
        for _ in trainer:
            pass
        trainer.save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def model(text_model):
    with ridge.load(text_model, device="cpu", context=128, max_sequences=2) as loaded:
        yield loaded
