# SPDX-License-Identifier: Apache-2.0
"""The server's engine under asyncio."""
import asyncio

import pytest
import ridge

PROMPTS = ["The", "A dog", "The quick brown", "and the", "fox", "over the lazy"]


@pytest.fixture(scope="module")
def served(text_model):
    with ridge.load(text_model, device="cpu", context=128, max_sequences=3) as loaded:
        yield loaded


def test_many_requests_at_once_are_those_alone(served):
    wanted = [served.generate(each, max_tokens=12).text for each in PROMPTS]

    async def read(answer):
        return "".join([piece async for piece in answer])

    async def all_of_them(engine):
        answers = [engine.submit(each, max_tokens=12) for each in PROMPTS]
        texts = await asyncio.gather(*(read(each) for each in answers))
        assert [each.result.text for each in answers] == texts
        assert all(each.result.finish_reason == "length" and each.result.tokens == 12 for each in answers)
        result = await engine.submit("The", max_tokens=3, logprobs=1)
        assert len(result.logprobs) == 3
        return texts

    with ridge.Engine(served, max_batched_tokens=64) as engine:
        assert asyncio.run(all_of_them(engine)) == wanted
        counts = engine.counts
        assert counts["generated_tokens"] == 12 * len(PROMPTS) + 3 and counts["running"] == 0
    with pytest.raises(ridge.UsageError):
        engine.submit("The")
    assert served.generate("The", max_tokens=12).text == wanted[0]


def test_a_cancelled_task_ends_its_request(served):
    async def cancelled(engine):
        before = [engine.submit("The", max_tokens=100, ignore_end=True) for _ in range(9)]
        answer = engine.submit("The", max_tokens=100, ignore_end=True)
        task = asyncio.create_task(anext_all(answer))
        await asyncio.sleep(0)  # The task waits for the first token, behind three times three others.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.counts["running"] + engine.counts["waiting"] > 0:
            await asyncio.sleep(0.01)
        assert [(await each).tokens for each in before] == [100] * 9
        return answer.result

    async def anext_all(answer):
        async for _ in answer:
            pass

    with ridge.Engine(served) as engine:
        result = asyncio.run(cancelled(engine))
        assert result.finish_reason == "cancelled"


def test_an_engine_is_one_of_a_model(served):
    with ridge.Engine(served) as engine:
        with pytest.raises(ridge.UsageError, match="engine"):
            ridge.Engine(served)
        engine.drain()
        with pytest.raises(ridge.Error):
            engine.submit("The")
    for wrong in ({"queue": 0}, {"max_batched_tokens": -1}, {"max_step_ms": -1.0}, {"priority_ms": "x"}):
        with pytest.raises(ridge.UsageError):
            ridge.Engine(served, **wrong)
    with pytest.raises(TypeError):
        ridge.Engine(served, nonsense=1)
    with ridge.Engine(served, queue=1) as engine:
        answers = [engine.submit("The", max_tokens=100, ignore_end=True) for _ in range(4)]
        with pytest.raises(ridge.Error, match="queue"):
            for _ in range(10):
                answers.append(engine.submit("The", max_tokens=100, ignore_end=True))
        for each in answers:
            each.close()
        with pytest.raises(ridge.UsageError):
            engine.submit("The", priority=99)
