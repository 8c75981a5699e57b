# SPDX-License-Identifier: Apache-2.0
"""The server's engine for asyncio: many requests at once, each an asynchronous iterator."""
from collections.abc import Generator, Sequence
from typing import Any

from ridge._ridge import Model, Result, Stream, _Engine
from ridge.errors import Error


class Answer:
    """A request that the engine runs: `async for piece in answer`, or `await answer` for its Result. One task reads it;
    if that is cancelled, so is the request."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> str:
        while True:
            piece = self._stream._poll()
            if piece is None:
                raise StopAsyncIteration
            if piece:
                return piece
            await self._wait()

    async def _wait(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        descriptor = self._stream._descriptor

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(descriptor, wake)
        try:
            await ready
        except asyncio.CancelledError:
            self._stream.close()
            raise
        finally:
            loop.remove_reader(descriptor)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._finish().__await__()

    async def _finish(self) -> Result:
        async for _ in self:
            pass
        return self._stream.result

    @property
    def result(self) -> Result:
        """What was generated so far; complete after the last piece."""
        return self._stream.result

    def close(self) -> None:
        """Ends the answer early."""
        self._stream.close()

    def __repr__(self) -> str:
        return repr(self._stream).replace("ridge.Stream", "ridge.Answer")


class Engine:
    """The engine of `ridge serve` on a model, without HTTP: it computes up to max_sequences= of `ridge.load` requests
    together, by continuous batching. Options as those of `ridge serve`: max_batched_tokens (a suitable number),
    max_step_ms, queue (64), max_priority (10), priority_ms (100). A model has one at a time."""

    def __init__(self, model: Model, **options: Any) -> None:
        self._engine = _Engine(model, **options)

    def submit(self, prompt: str | Sequence[int], **options: Any) -> Answer:
        """Queues a prompt, a text or ids. Takes the options of `model.generate`, and priority: lower is served earlier;
        tenant: requests share cached prefixes only within one. Raises Error if the queue is full."""
        return Answer(self._engine.submit(prompt, **options))

    @property
    def counts(self) -> dict[str, Any]:
        """running and waiting requests, steps, tokens, blocks of the KV cache, and the MFU and MBU of the last steps."""
        return self._engine.counts()

    def drain(self) -> None:
        """Refuses requests from now on. Accepted ones go on."""
        self._engine.drain()

    def close(self) -> None:
        """Cancels what runs. The model stays open."""
        self._engine.close()

    def __repr__(self) -> str:
        try:
            counts = self.counts
        except Error:
            return "<ridge.Engine: closed>"
        return f"<ridge.Engine: {counts['running']} running, {counts['waiting']} waiting>"

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
