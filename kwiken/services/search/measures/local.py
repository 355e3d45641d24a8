"""In-process runner of a service's stages, for judging answers and measuring costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import msgspec

from kwiken.service import Partial, Service

Watch = Callable[[str, int, float], None]


def answer(service: Service, request: object, watch: Watch | None = None) -> Any:
    """The service's answer to the request.

    Args:
        service: its handlers must never wait, as those of a search never do.
        request: what its sources take.
        watch: told stage, shard and milliseconds of every call.
    """
    done: dict[str, Any] = {}
    for stage in service.stages.values():
        inputs = [done[parent] for parent in stage.after] or [request]
        values = []
        for shard in range(stage.fanout):
            keywords = {"shard": shard} if stage.fanout > 1 else {}
            with _timed(stage.name, shard, watch):
                values.append(_run(stage.handler, inputs, keywords))
        done[stage.name] = Partial(tuple(values)) if stage.fanout > 1 else values[0]
    return done[service.sink]


def _run(handler: Any, inputs: list[Any], keywords: dict[str, int]) -> Any:
    coroutine = handler(*inputs, **keywords)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError(f"{handler.__name__} waits for something, so it cannot run without a loop")


@contextmanager
def _timed(stage: str, shard: int, watch: Watch | None) -> Iterator[None]:
    start = perf_counter_ns()
    yield
    if watch is not None:
        watch(stage, shard, (perf_counter_ns() - start) / 1e6)


def shown(value: Any) -> Any:
    """An answer as plain data, for printing."""
    return msgspec.to_builtins(value)
