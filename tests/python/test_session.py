# SPDX-License-Identifier: Apache-2.0
"""Sequences that a caller feeds, forks and shortens, and what a model says at each position of a text."""
import gc
import json
import resource

import numpy as np
import pytest
import ridge
from conftest import stored

MODELS = ["llama_fp32", "gemma3_cap_fp32", "qwen2_window_fp32", "qwen3_bf16"]


def softmax_log(logits):
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix_caching", [False, True])
def test_feeding_forking_and_truncating_is_one_sequence(name, prefix_caching):
    """Whatever way led to a sequence, its logits are those of the sequence alone."""
    folder, expected = stored(name)
    ids = expected["ids"][0]
    draw = np.random.default_rng(5)
    with ridge.load(folder, dtype="fp32", device="cpu", max_sequences=4, prefix_caching=prefix_caching) as model:
        def alone(of):
            return model.logits(of)

        longer = [int(each) for each in draw.integers(0, model.vocabulary, 40)]
        with model.session() as s:
            np.testing.assert_allclose(s.feed(ids[:3]), alone(ids[:3]), atol=1e-5)
            np.testing.assert_allclose(s.feed(np.array(ids[3:])), alone(ids), atol=1e-5)
            assert s.ids == ids and len(s) == len(ids) and s.room == model.context - len(ids)
            other = s.fork()
            np.testing.assert_allclose(other.feed(longer), alone(ids + longer), atol=2e-5)
            np.testing.assert_allclose(s.feed([7]), alone(ids + [7]), atol=1e-5)
            third = other.fork()
            other.truncate(len(ids) + 20)
            np.testing.assert_allclose(other.feed([9, 8]), alone(ids + longer[:20] + [9, 8]), atol=2e-5)
            np.testing.assert_allclose(third.feed([1]), alone(ids + longer + [1]), atol=2e-5)
            other.truncate(2)
            np.testing.assert_allclose(other.feed(longer[:5]), alone(ids[:2] + longer[:5]), atol=1e-5)
            other.truncate(0)
            assert len(other) == 0
            np.testing.assert_allclose(other.feed(ids), alone(ids), atol=1e-5)
            for each in (other, third):
                each.close()


@pytest.mark.parametrize("cache_dtype", ["fp32", "bf16", "i8"])
def test_forks_copy_each_type_of_cache(cache_dtype):
    folder, expected = stored("llama_fp32")
    ids = expected["ids"][0]
    with ridge.load(folder, device="cpu", cache_dtype=cache_dtype, max_sequences=2) as model:
        with model.session(ids) as s, s.fork() as other:
            np.testing.assert_array_equal(s.feed([3]), other.feed([3]))


def test_sessions_leave_answers_alone(model):
    """The engine and sessions run on one model at the same time."""
    wanted = model.generate("The quick", max_tokens=10).text
    with model.session("The dog") as s:
        before = s.feed([5])
        with model.stream("The quick", max_tokens=10) as stream:
            pieces = [next(stream)]
            s.truncate(len(s) - 1)
            np.testing.assert_array_equal(s.feed([5]), before)
            pieces += list(stream)
        assert "".join(pieces) == wanted
        with model.session("A") as second:
            with pytest.raises(ridge.UsageError, match="free sequence"):
                model.session()
            with pytest.raises(ridge.UsageError, match="free sequence"):
                model.generate("The quick", max_tokens=2)
            second.feed([1])
        assert model.generate("The quick", max_tokens=10).text == wanted
    assert model.generate("The quick", max_tokens=10).text == wanted


def test_a_refused_feed_changes_nothing(model):
    with model.session([1, 2, 3]) as s:
        for wrong in ([], [10**6], [-1], [0] * (model.context + 1), "", None, 3.5, [[1]], object()):
            with pytest.raises((ridge.UsageError, TypeError)):
                s.feed(wrong)
            assert s.ids == [1, 2, 3]
        for wrong in (4, -1, 10**12):
            with pytest.raises(ridge.UsageError):
                s.truncate(wrong)
        again = s.feed([4])
    np.testing.assert_allclose(again, model.logits([1, 2, 3, 4]), atol=1e-4)


def test_closed_sessions_refuse(text_model):
    model = ridge.load(text_model, device="cpu", max_sequences=2)
    first, second = model.session([1]), model.session([2])
    first.close()
    first.close()
    for call in (lambda: first.feed([1]), lambda: first.ids, lambda: first.fork(), lambda: first.truncate(0)):
        with pytest.raises(ridge.UsageError):
            call()
    model.close()
    for call in (lambda: second.feed([1]), lambda: model.session(), lambda: second.ids):
        with pytest.raises(ridge.UsageError):
            call()
    second.close()


@pytest.mark.parametrize("name", MODELS)
def test_all_logits_are_those_of_each_prefix(name):
    folder, expected = stored(name)
    with ridge.load(folder, dtype="fp32", device="cpu") as model:
        for row, ids in enumerate(expected["ids"]):
            logits = model.logits(ids, all=True)
            assert logits.shape == (len(ids), model.vocabulary) and logits.dtype == np.float32
            np.testing.assert_array_equal(logits.argmax(-1), expected["argmax"][row])
            np.testing.assert_allclose(logits[-1], model.logits(ids), atol=1e-4)
            np.testing.assert_allclose(logits[2], model.logits(ids[:3]), atol=1e-4)
            scores = model.logprobs(ids)
            assert scores.shape == (len(ids) - 1,)
            wanted = softmax_log(logits)[np.arange(len(ids) - 1), ids[1:]]
            np.testing.assert_allclose(scores, wanted, atol=1e-4)
            assert model.perplexity(ids) == pytest.approx(np.exp(-scores.astype(np.float64).mean()), rel=1e-4)


def test_embeddings_are_the_hidden_states(text_model):
    """The logits are the last hidden state times the head, so that it can be found from the logits."""
    with ridge.load(text_model, dtype="fp32", device="cpu") as model:
        ids = model.tokenizer.encode("The quick brown fox")
        last = model.embed(ids, pooling="last", normalize=False)
        config = json.loads((text_model / "config.json").read_text())
        assert last.shape == (config["hidden_size"],)
        import struct
        raw = (text_model / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        head = json.loads(raw[8:8 + size])
        name = "lm_head.weight" if "lm_head.weight" in head else "model.embed_tokens.weight"
        assert head[name]["dtype"] == "F32"
        begin, end = head[name]["data_offsets"]
        weight = np.frombuffer(raw[8 + size + begin:8 + size + end], np.float32).reshape(head[name]["shape"])
        np.testing.assert_allclose(weight @ last, model.logits(ids), atol=1e-3)
        parts = [model.embed(ids[:i + 1], pooling="last", normalize=False) for i in range(len(ids))]
        mean = np.mean(parts, 0)
        np.testing.assert_allclose(model.embed(ids, normalize=False), mean, atol=1e-4)
        np.testing.assert_allclose(model.embed("The quick brown fox"), mean / np.linalg.norm(mean), atol=1e-4)
        several = model.embed(["The quick brown fox", "A dog"])
        assert several.shape == (2, config["hidden_size"])
        np.testing.assert_allclose(np.linalg.norm(several, axis=1), 1, atol=1e-5)
        for wrong in (lambda: model.embed(""), lambda: model.embed("a", pooling="max"), lambda: model.embed([[]]),
                      lambda: model.logprobs([1]), lambda: model.logits([], all=True)):
            with pytest.raises(ridge.UsageError):
                wrong()


def test_single_ids_and_batches():
    folder, expected = stored("llama_fp32")
    with ridge.load(folder, dtype="float32", device="cpu", max_sequences=2) as model:
        ids = expected["ids"][0]
        with model.session(ids[:3]) as s:
            np.testing.assert_allclose(s.feed(ids[3]), model.logits(ids[:4]), atol=1e-5)
            np.testing.assert_allclose(s.feed(np.int64(ids[4])), model.logits(ids[:5]), atol=1e-5)
            assert s.ids == ids[:5] and repr(s) == f"<ridge.Session: 5 of {model.context} ids>"
        rows = [ids[:5], ids[1:6]]
        alone = np.stack([model.logits(row) for row in rows])
        for batch in (rows, np.array(rows), np.array(rows, np.int32), [np.array(row) for row in rows], tuple(map(tuple, rows))):
            found = model.logits(batch)
            assert found.shape == (2, model.vocabulary)
            np.testing.assert_array_equal(found, alone)
        every = model.logits(rows, all=True)
        assert every.shape == (2, 5, model.vocabulary)
        np.testing.assert_allclose(every[:, -1], alone, atol=1e-4)
        assert model.logits([ids[:2], ids]).shape == (2, model.vocabulary)  # of different lengths
        assert model.logits([ids]).shape == (1, model.vocabulary)
        for wrong, said in (([ids[:2], ids], "equal length"), (np.zeros((2, 0), np.int32), "got"),
                            (np.zeros((1, 2, 3), np.int32), r"\[1,2,3\]"), ([[]], "token"), (3, "sequence"), ("text", "str"), ([[0.5]], "float")):
            with pytest.raises((ridge.UsageError, TypeError), match=said):
                model.logits(wrong, all=True)
    assert "closed" in repr(model) and "closed" in repr(s)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_a_hundred_thousand_calls_leave_nothing():
    """Memory after 100,000 calls is that after the first thousands of them."""
    folder, expected = stored("llama_fp32")
    ids = expected["ids"][0][:2]
    graph = ridge.Graph()
    x = graph.input("x", (2, 2))

    def calls(model, session, number):
        for i in range(number):
            kind = i % 50
            if kind == 0:
                model.logits(ids)
            elif kind == 1:
                session.feed(ids)
                session.truncate(0)
            elif kind == 2:
                with pytest.raises(ridge.UsageError):
                    session.feed([-1])
            elif kind < 20:
                len(session)
            elif kind < 30:
                graph.text()
            elif kind < 40:
                try:
                    x + "3"
                except TypeError:
                    pass
            else:
                model.context  # noqa: B018
        gc.collect()

    with ridge.load(folder, device="cpu", max_sequences=2, threads=1) as model, model.session() as session:
        calls(model, session, 20_000)
        before = resident()
        calls(model, session, 80_000)
        assert resident() - before < 4 << 20
