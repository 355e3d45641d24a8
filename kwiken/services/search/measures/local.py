"""In-process runner of a service's stages, for judging answers and measuring costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import msgspec

from kwiken.model.service import Partial, Service

OnCall = Callable[[str, int, float], None]  # stage, shard and milliseconds of one call


def answer(service: Service, request: object, on_call: OnCall | None = None) -> Any:
    """Answer of a service to a request, with all stages run in this process.

    Args:
        service: a service whose handlers await nothing.
        request: the request as the first stages take it.
        on_call: function that is called with stage, shard and milliseconds of every call.
    """
    done: dict[str, Any] = {}
    for stage in service.stages.values():
        inputs = [done[parent] for parent in stage.after] or [request]
        values = []
        for shard in range(stage.fanout):
            keywords = {"shard": shard} if stage.fanout > 1 else {}
            with _timed(stage.name, shard, on_call):
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
    raise RuntimeError(f"{handler.__name__} awaits something, so it cannot run without an event loop")


@contextmanager
def _timed(stage: str, shard: int, on_call: OnCall | None) -> Iterator[None]:
    start = perf_counter_ns()
    yield
    if on_call is not None:
        on_call(stage, shard, (perf_counter_ns() - start) / 1e6)


def shown(value: Any) -> Any:
    """Answer as plain data, for printing."""
    return msgspec.to_builtins(value)
