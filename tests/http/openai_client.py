#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speaks to a server with the openai package, as its users do: openai_client.py URL KEY. Prints one JSON object that
openai_slow_test.cc compares with the model's own answers; an assertion fails where an answer has not the package's shape."""
import asyncio
import json
import sys

import openai

url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
hi = [{"role": "user", "content": "Hi"}]
result = {"models": [model.id for model in client.models.list()]}

chat = client.chat.completions.create(model="small", messages=hi, max_tokens=12, temperature=0, logprobs=True, top_logprobs=2)
result["chat"], result["finish"] = chat.choices[0].message.content, chat.choices[0].finish_reason
assert chat.usage.total_tokens == chat.usage.prompt_tokens + chat.usage.completion_tokens
assert len(chat.choices[0].logprobs.content) == chat.usage.completion_tokens
assert all(len(token.top_logprobs) == 2 for token in chat.choices[0].logprobs.content)

chunks = list(client.chat.completions.create(model="small", messages=hi, max_tokens=12, temperature=0, stream=True,
                                             stream_options={"include_usage": True}))
assert chunks[0].choices[0].delta.role == "assistant"
assert chunks[-1].usage.completion_tokens == chat.usage.completion_tokens
# The whole blocks of 16 before the last token are cached.
assert chunks[-1].usage.prompt_tokens_details.cached_tokens == (chat.usage.prompt_tokens - 1) // 16 * 16
result["stream"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

result["text"] = client.completions.create(model="small", prompt="Once", max_tokens=10, temperature=0).choices[0].text

with client.completions.create(model="small", prompt="Once", max_tokens=150, stream=True, extra_body={"ignore_eos": True}) as stream:
    next(iter(stream))  # and leaves

pair = client.chat.completions.create(model="small", messages=hi, max_tokens=6, n=2, seed=7)
assert [choice.index for choice in pair.choices] == [0, 1]
result["n"] = [choice.message.content for choice in pair.choices]
result["seeds"] = [client.chat.completions.create(model="small", messages=hi, max_tokens=6, seed=7 + i).choices[0].message.content
                   for i in range(2)]

scored = client.completions.create(model="small", prompt="Once", max_tokens=4, temperature=0, logprobs=2,
                                   extra_body={"ignore_eos": True}).choices[0].logprobs
assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.top_logprobs) == 4
assert all(max(top.values()) == chosen for top, chosen in zip(scored.top_logprobs, scored.token_logprobs))


async def streamed():
    many = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)
    stream = await many.chat.completions.create(model="small", messages=hi, max_tokens=12, temperature=0, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


result["async_stream"] = asyncio.run(streamed())


async def cancelled():
    """Answers whose tasks are cancelled while they wait or are made."""
    many = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=5)
    tasks = [asyncio.create_task(many.completions.create(model="small", prompt="Once", max_tokens=180, extra_body={"ignore_eos": True}))
             for _ in range(3)]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    return [type(each).__name__ for each in await asyncio.gather(*tasks, return_exceptions=True)]


result["cancelled"] = asyncio.run(cancelled())


async def at_once(count):
    many = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=5)
    made = await asyncio.gather(*(many.completions.create(model="small", prompt="Once", max_tokens=10, temperature=0)
                                  for _ in range(count)))
    return [each.choices[0].text for each in made]


result["at_once"] = asyncio.run(at_once(12))


def refused(error, **fields):
    try:
        client.chat.completions.create(**{"model": "small", "messages": hi, "max_tokens": 1, **fields})
    except error as caught:
        return caught.body["param"]
    raise AssertionError(f"{fields}: expected {error}")


result["refused"] = [refused(openai.NotFoundError, model="other"), refused(openai.BadRequestError, temperature=-1),
                     refused(openai.UnprocessableEntityError, response_format={"type": "json_object"})]
client.api_key = "sk-something-else"
try:
    client.models.list()
    raise AssertionError("a wrong key was accepted")
except openai.AuthenticationError:
    pass
print(json.dumps(result))
