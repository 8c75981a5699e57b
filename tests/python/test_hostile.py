# SPDX-License-Identifier: Apache-2.0
"""A thousand random calls with wrong types, shapes, closed objects and threads: an exception or an answer each, and the
objects work as before."""
import threading

import numpy as np
import pytest
import ridge

ALLOWED = (ridge.Error, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, StopIteration,
           BufferError, ImportError)  # there may be no torch


class Odd:
    """Looks like an array and a sequence, and is none."""
    shape = (1, 2)

    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise KeyError(index)

    def __dlpack__(self, *_, **__):
        raise RuntimeError("no data")

    def __index__(self):
        return 1 << 70


def values():
    broken = memoryview(bytearray(8)).cast("d")
    return [None, 0, 1, -1, 1 << 40, 1 << 70, 0.5, float("nan"), float("inf"), True, "", "text", "\ud800", b"bytes", [], [1, 2],
            [[1], [2, 3]], (3, ), {}, {"role": "user", "content": "x"}, [{"role": "x"}], [{"role": "user", "content": "hello"}],
            np.zeros(3), np.zeros((2, 2), np.int32), np.array([1, 2], np.int64), np.array([1 << 40]), np.array(["a"]),
            np.array([1 + 2j]), np.zeros((0, )), np.zeros((2, 0, 3), np.float32), np.float64(2), np.int8(3), Odd(), Odd, object(),
            len, broken, np.ones(6, np.int32)[::2], np.array([None, 1], object), range(3), "cpu", ["The", "A dog"]]


KEYWORDS = ["max_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop", "logprobs", "ignore_end", "repeat_penalty",
            "chat_template", "stream", "all", "pooling", "normalize", "special", "labels", "nonsense"]
SHORT = {"max_tokens": [0, 1, 2, -1, "x", None, 1 << 70]}  # long answers would only take time


def targets(model, closed, session, trainer):
    model_calls = [(each, name) for each in (model, closed) for name in
                   ("generate", "stream", "chat", "logits", "logprobs", "embed", "session", "perplexity")]
    session_calls = [(each, name) for each in session for name in ("feed", "fork", "truncate", "ids", "room", "__len__")]
    trainer_calls = [(each, name) for each in trainer for name in
                     ("step", "gradients", "parameters", "done", "batch_size", "__next__", "save")]
    tokenizer = model.tokenizer
    others = [(tokenizer, name) for name in ("encode", "decode", "decode_bytes", "encode_chat")]
    functions = [(ridge, name) for name in ("load", "parse", "Tokenizer", "import_trace", "kernel", "Pass", "from_torch", "demo",
                                            "Engine", "Trainer")]
    return model_calls + session_calls + trainer_calls + others + functions


def call(owner, name, draw, pool):
    method = getattr(owner, name)
    if not callable(method):
        return method
    arguments = [pool[i] for i in draw.integers(len(pool), size=draw.integers(3))]
    if name == "save":  # a text would be a folder
        arguments = [each for each in arguments if not isinstance(each, str)]
    keywords = {}
    for _ in range(draw.integers(3)):
        key = KEYWORDS[draw.integers(len(KEYWORDS))]
        choice = SHORT.get(key, pool)
        keywords[key] = choice[draw.integers(len(choice))]
    if name in ("generate", "chat", "stream"):
        keywords.setdefault("max_tokens", 2)
        if not isinstance(keywords["max_tokens"], int) or keywords["max_tokens"] > 2:
            keywords["max_tokens"] = "x" if draw.integers(2) else 2
    if name in ("Trainer", "load", "demo", "Engine"):
        keywords["nonsense"] = 1  # what fits would take long
    made = method(*arguments, **keywords)
    if hasattr(made, "close"):
        made.close()
    return made


def storm(model, closed, session, trainer, seed, number, counts):
    pool, draw = values(), np.random.default_rng(seed)
    all_targets = targets(model, closed, session, trainer)
    for _ in range(number):
        owner, name = all_targets[draw.integers(len(all_targets))]
        try:
            call(owner, name, draw, pool)
        except ALLOWED:
            counts["raised"] += 1
        except RuntimeError as error:  # what an argument itself raised
            assert "no data" in str(error), (name, error)
            counts["raised"] += 1
        counts["called"] += 1


@pytest.fixture
def objects(text_model):
    with ridge.load(text_model, device="cpu", context=64, max_sequences=4) as model, \
            ridge.load(text_model, device="cpu", context=64) as closed, \
            ridge.Trainer(preset="tiny", batch_size=1, seq_len=8, steps=3, device="cpu") as trainer, \
            ridge.Trainer(preset="tiny", batch_size=1, seq_len=8, device="cpu") as ended:
        session, over = model.session([1, 2]), model.session()
        over.close(), closed.close(), ended.close()
        yield model, closed, (session, over), (trainer, ended)


def test_a_thousand_random_calls(objects):
    model = objects[0]
    before = model.generate("The", max_tokens=6).text
    logits = model.logits([1, 2, 3])
    counts = {"called": 0, "raised": 0}
    storm(*objects, seed=23, number=1000, counts=counts)
    assert counts["called"] == 1000 and 500 < counts["raised"] < 1000
    assert model.generate("The", max_tokens=6).text == before
    np.testing.assert_allclose(model.logits([1, 2, 3]), logits, atol=1e-5)


def test_threads_call_at_random(objects):
    model = objects[0]
    before = model.generate("The", max_tokens=6).text
    counts = [{"called": 0, "raised": 0} for _ in range(4)]
    threads = [threading.Thread(target=storm, args=(*objects, 100 + i, 150, counts[i])) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=300)
    assert [each["called"] for each in counts] == [150] * 4
    assert model.generate("The", max_tokens=6).text == before


def test_closing_while_others_compute(text_model):
    """Whoever is at it ends with an exception or an answer."""
    for _ in range(5):
        model = ridge.load(text_model, device="cpu", context=64, max_sequences=3)
        ended = []

        def use(model=model, ended=ended):
            try:
                for _ in range(1000):
                    model.logits([1, 2, 3])
                    model.generate("The", max_tokens=4)
                    with model.session([1]) as session:
                        session.feed([2])
            except ridge.Error:
                pass
            ended.append(1)

        threads = [threading.Thread(target=use) for _ in range(3)]
        for each in threads:
            each.start()
        threading.Event().wait(0.05)
        model.close()
        for each in threads:
            each.join(timeout=60)
        assert len(ended) == 3
