"""In-process runner of a service's stages, for tests of answers."""

from __future__ import annotations

from typing import Any

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial


def answer(service: Service, request: object) -> Any:
    """Answer of a service whose handlers await nothing, with all stages run in this process."""
    done: dict[str, Any] = {}
    for stage in service.stages.values():
        inputs = [done[parent] for parent in stage.after] or [request]
        shards = [{"shard": shard} for shard in range(stage.fanout)] if stage.fanout > 1 else [{}]
        values = [_run(stage.handler, inputs, keywords) for keywords in shards]
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
