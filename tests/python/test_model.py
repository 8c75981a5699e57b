# SPDX-License-Identifier: Apache-2.0
"""Inference: against transformers' stored logits, and against the command line."""
import json
import math
import os
import subprocess
import threading

import numpy as np
import pytest
import ridge
from conftest import DATA, stored

MODELS = ["llama_fp32", "llama3_bf16_sharded", "gemma3_bf16", "gemma3_cap_fp32", "mistral_fp32", "qwen2_fp32",
          "qwen2_window_fp32", "qwen3_bf16"]


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name):
    folder, expected = stored(name)
    with ridge.load(folder, dtype="fp32", device="cpu") as model:
        for row, ids in enumerate(expected["ids"]):
            logits = model.logits(ids)
            assert logits.shape == (model.vocabulary,) and logits.dtype == np.float32
            sum_ = float(np.log(np.exp(logits.astype(np.float64)).sum()))
            assert sum_ == pytest.approx(expected["logsumexp_last"][row], abs=2e-3)
            np.testing.assert_allclose(logits[:8], expected["logits_last8"][row], atol=2e-3)
            assert logits.argmax() == expected["argmax"][row][-1]


def test_arrays_cross_without_a_copy():
    folder, expected = stored("llama_fp32")
    with ridge.load(folder, dtype="fp32", device="cpu") as model:
        logits = model.logits(np.array(expected["ids"][0], dtype=np.int64))
    again = np.from_dlpack(logits)
    assert again.ctypes.data == logits.ctypes.data
    assert not logits.flags.owndata  # the memory is the engine's vector, which outlives the model
    assert np.isfinite(logits).all()


def test_perplexity_is_that_of_the_logits():
    folder, expected = stored("qwen2_fp32")
    ids = expected["ids"][0]
    with ridge.load(folder, dtype="fp32", device="cpu") as model:
        nll = 0.0
        for i in range(1, len(ids)):
            logits = model.logits(ids[:i]).astype(np.float64)
            nll += np.log(np.exp(logits).sum()) - logits[ids[i]]
        assert model.perplexity(ids) == pytest.approx(math.exp(nll / (len(ids) - 1)), rel=1e-4)


def test_generation_is_the_programs(model, text_model, program):
    out = subprocess.run([program, "generate", str(text_model), "The quick", "--max-tokens", "12", "--device", "cpu",
                          "--json"], check=True, capture_output=True, text=True).stdout
    result = model.generate("The quick", max_tokens=12)
    assert result.text == json.loads(out)["text"]
    assert result.tokens == 12 and result.finish_reason == "length"
    assert result.prompt_tokens == len(model.tokenizer.encode("The quick"))
    assert len(result.ids) == 12 and model.tokenizer.decode(result.ids) == result.text
    assert repr(result).startswith("<ridge.Result: 12 tokens, length, ") and "prefill" in result._repr_html_()
    assert result.flops > 0 and result.bytes > 0 and result.prefill_ns > 0 and result.decode_ns > 0


def test_pieces_make_the_text(model):
    stream = model.stream("The dog", max_tokens=10)
    pieces = list(stream)
    whole = model.generate("The dog", max_tokens=10)
    assert "".join(pieces) == whole.text == stream.result.text
    assert stream.result.flops == whole.flops


def test_many_prompts_keep_their_order(model):
    prompts = ["The", "The quick", "and the dog"]
    alone = [model.generate(each, max_tokens=6).text for each in prompts]
    assert [each.text for each in model.generate(prompts, max_tokens=6)] == alone


def test_stop_seed_and_scores(model):
    text = model.generate("The", max_tokens=12).text
    stop = text[3:5]
    cut = model.generate("The", max_tokens=12, stop=stop)
    assert cut.text == text[:text.index(stop)] and cut.finish_reason == "stop"
    warm = [model.generate("The", max_tokens=12, temperature=2.0, seed=s).text for s in (1, 1, 2)]
    assert warm[0] == warm[1] != warm[2]
    answer = model.generate("The", max_tokens=4, logprobs=2)
    scored = answer.logprobs
    assert answer.ids == [each.chosen.id for each in scored] and " of " in repr(scored[0])
    assert len(scored) == 4
    logits = model.logits(model.tokenizer.encode("The")).astype(np.float64)
    first = logits - np.log(np.exp(logits).sum())
    assert scored[0].chosen.id == first.argmax()
    assert scored[0].chosen.logprob == pytest.approx(first.max(), abs=0.02)
    assert [each.id for each in scored[0].top] == list(np.argsort(-first)[:2])


def test_messages_name_what_was_given(model):
    for call, said in [(lambda: model.generate("The", max_tokens="x"), r"\[max_tokens\] expected an int of 64 bits, got str"),
                       (lambda: model.generate("The", temperature=[]), r"\[temperature\] expected a number, got list"),
                       (lambda: model.generate(3.5), r"\[prompt\] expected a text or a list of ids, got float"),
                       (lambda: model.generate("The", stop=3), r"\[stop\] expected a text or a list of texts, got int"),
                       (lambda: model.logits([[1, 2], 3]), "ids"),
                       (lambda: model.chat(["hello"], chat_template="chatml"), "role and content, got"),
                       (lambda: ridge.load("/nowhere", threads=[]), r"\[threads\] expected an int of 32 bits, got list")]:
        with pytest.raises(ridge.UsageError, match=said):
            call()


def test_chat_and_tokenizer(model):
    messages = [{"role": "user", "content": "Who sleeps?"}]
    answer = model.chat(messages, chat_template="llama2", max_tokens=5)
    ids = model.tokenizer.encode_chat(messages, chat_template="llama2")
    assert answer.prompt_tokens == len(ids) and answer.tokens == 5
    tokenizer = model.tokenizer
    for text in ["", "The quick brown fox", "äöü \U0001f600"]:
        assert tokenizer.decode(tokenizer.encode(text, add_bos=False)) == text
    with pytest.raises(ridge.UsageError):
        model.chat([{"role": "user"}])
    with pytest.raises(ridge.UsageError):
        tokenizer.decode([10**6])


def test_logits_while_an_answer_is_under_way(model):
    before, logits = model.generate("The", max_tokens=5).text, model.logits([1, 2])
    with model.stream("The", max_tokens=100) as stream:
        next(stream)
        np.testing.assert_allclose(model.logits([1, 2]), logits, atol=1e-5)
    assert stream.result.finish_reason in ("cancelled", "length")
    assert model.generate("The", max_tokens=5).text == before


THREADS = '''
import os, sys
import ridge
model = ridge.load(sys.argv[1], device="cpu", threads=1)
before = set(os.listdir("/proc/self/task"))
model.generate("The", max_tokens=4)
print(len(set(os.listdir("/proc/self/task")) - before))
'''


def test_the_engine_has_the_threads_of_its_model(text_model):
    import sys
    done = subprocess.run([sys.executable, "-c", THREADS, str(text_model)], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"  # the engine's thread, which computes alone


def test_threads_share_a_model(model):
    alone = model.generate("The", max_tokens=8).text
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.generate("The", max_tokens=8).text)) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [alone] * 6


INTERRUPTED = """
import os, signal, sys, threading, time
import ridge
model = ridge.load(sys.argv[1], device="cpu", context=4096)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    while True:
        model.generate("The", max_tokens=4000, ignore_end=True)
except KeyboardInterrupt:
    assert time.perf_counter() - begin < 5
print(model.generate("The", max_tokens=3).tokens)
"""


def test_ctrl_c_leaves_the_model_usable(text_model):
    import sys
    config = json.loads((text_model / "config.json").read_text())
    script = INTERRUPTED.replace("4096", str(config["max_position_embeddings"])).replace(
        "4000", str(config["max_position_embeddings"] - 8))
    done = subprocess.run([sys.executable, "-c", script, str(text_model)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3\n" and done.stderr == ""


def test_a_fork_is_refused(model):
    model.generate("The", max_tokens=2)
    child = os.fork()
    if child == 0:
        try:
            model.generate("The", max_tokens=2)
        except ridge.Error as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_closed_model_refuses(text_model):
    model = ridge.load(text_model, device="cpu")
    stream = model.stream("The", max_tokens=500)
    next(stream)
    model.close()
    model.close()
    for call in (lambda: model.generate("The"), lambda: model.logits([1]), lambda: model.stream("The")):
        with pytest.raises(ridge.UsageError):
            call()
    list(stream)
    assert stream.result.finish_reason == "cancelled"


def test_a_model_without_a_tokenizer():
    folder, _ = stored("llama_fp32")
    with ridge.load(folder, device="cpu") as model:
        with pytest.raises(ridge.ModelError):
            model.generate("text")
        with pytest.raises(ridge.ModelError):
            model.tokenizer  # noqa: B018


def test_a_shape_has_random_weights_and_any_tokenizer():
    shape, tokenizer = str(DATA / "models" / "llama_fp32" / "config.json"), str(DATA / "models" / "tokenizers" / "gpt2")
    with ridge.load(shape, random_weights=True, device="cpu", context=16) as model:
        first = np.array(model.logits([1, 2, 3]))
        with pytest.raises(ridge.ModelError, match="tokenizer"):
            model.generate("a")
    with ridge.load(shape, random_weights=True, device="cpu", context=16) as model:
        np.testing.assert_array_equal(np.array(model.logits([1, 2, 3])), first)
    with pytest.raises(ridge.ModelError, match="the tokenizer has .* tokens, but the model has"):
        ridge.load(shape, random_weights=True, tokenizer=tokenizer, device="cpu", context=16)
