"""Streams whose stage has `resume`: what breaks off goes on at another replica, over real sockets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from tests.runtime.gateway.test_streams import Front, front, numbers
from tests.support.runtime.streaming import Item, Script, resuming, resuming_service
from tests.support.runtime.waiting import found, until

MINUTE: Final = {"kw_deadline_ms": "60000"}


def serving(gateway: Front) -> str:
    """Replica of `count` that a call runs at."""
    return next(
        name for name, server in gateway.replicas.items() if name != "begin-0" and server.calls.inflight
    )


async def lost_after(gateway: Front, items: int, log: Path) -> list[Any]:
    """Lines of a response of 10 items whose first replica sends so many, waits and is stopped."""
    async with gateway.post(Script(10, stall_at=items, log=str(log), only_first=True), **MINUTE) as response:
        lines = [json.loads(await response.content.readline()) for _ in range(items)]
        await gateway.replicas[serving(gateway)].stop(grace_s=0.0)
        return lines + [json.loads(line) async for line in response.content]


@pytest.mark.parametrize("items", [1, 2, 9])
async def test_a_stream_whose_replica_is_lost_goes_on_after_its_last_item(items: int, tmp_path: Path) -> None:
    async with front(resuming) as gateway:
        lines = await lost_after(gateway, items, tmp_path)
        counts = gateway.counts
    assert numbers(lines) == list(range(10))
    assert lines[-1] == {"end": {"items": 10}}
    assert counts["failed"] == 0
    assert counts["retries"] == 1
    assert len(found(tmp_path, "started")) == 2


async def test_without_resume_the_same_stream_ends_by_an_error(tmp_path: Path) -> None:
    stages = [resuming["begin"], dataclasses.replace(resuming["count"], resume=None)]
    async with front(Service.of("numbers", stages)) as gateway:
        lines = await lost_after(gateway, 2, tmp_path)
        assert gateway.counts["failed"] == 1
    assert numbers(lines) == list(range(lines[-1]["items"]))
    assert "error" in lines[-1]


async def test_a_stream_that_stalls_goes_on_elsewhere_and_the_call_that_stalled_ends(tmp_path: Path) -> None:
    async with front(resuming_service(1500)) as gateway:
        script = Script(6, stall_at=3, log=str(tmp_path), only_first=True)
        _, lines = await gateway.ask(script, **MINUTE)
        await until(lambda: found(tmp_path, "cancelled"))
        assert gateway.counts["failed"] == 0
    assert numbers(lines) == list(range(6))


async def test_an_error_of_the_handler_is_not_resumed(tmp_path: Path) -> None:
    async with front(resuming) as gateway:
        _, lines = await gateway.ask(Script(5, fail_at=2, log=str(tmp_path)))
        assert gateway.counts["failed"] == 1
    assert numbers(lines) == [0, 1]
    assert lines[-1] == {"error": "stage 'count': ValueError: told to fail", "items": 2}
    assert len(found(tmp_path, "started")) == 1


async def test_a_last_replica_has_none_to_go_on_at(tmp_path: Path) -> None:
    async with front(resuming) as gateway:
        script = Script(10, stall_at=1, log=str(tmp_path))
        async with gateway.post(script, **MINUTE) as response:
            first = json.loads(await response.content.readline())
            for name in ("count-0", "count-1"):
                await gateway.replicas[name].stop(grace_s=0.0)
            lines = [first, *[json.loads(line) async for line in response.content]]
        assert gateway.counts["failed"] >= 1
    assert numbers(lines) == list(range(lines[-1]["items"]))
    assert "error" in lines[-1]


async def test_a_resume_that_raises_is_an_error_that_says_so(tmp_path: Path) -> None:
    def broken(script: Script, items: list[Item]) -> Script:
        raise KeyError("no place to go on")

    own = Service.of("numbers", [resuming["begin"], dataclasses.replace(resuming["count"], resume=broken)])
    async with front(own) as gateway:
        lines = await lost_after(gateway, 2, tmp_path)
    assert lines[-1]["error"] == "stage 'count': KeyError: resume: 'no place to go on'"
    assert numbers(lines) == list(range(lines[-1]["items"]))


async def once(request: int) -> int:
    return request


async def items(request: int) -> AsyncIterator[int]:
    yield request


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"handler": once, "resume": lambda request, items: request}, "has resume, but it does not stream"),
        ({"handler": items, "resume": "later"}, "resume must be a function, not 'later'"),
        (
            {"handler": items, "resume": lambda request, items: request, "idempotent": False},
            "has resume and is not idempotent; set idempotent=True if a call may run twice",
        ),
        (
            {"handler": items, "resume": lambda request: request},
            "resume is called with 1 inputs and the list of items: too many positional arguments",
        ),
    ],
)
def test_a_resume_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Stage(name="s", **{"idempotent": True, **settings})
    assert str(caught.value) == f"stage 's': {message}"


async def test_a_client_that_leaves_ends_a_resumed_stream(tmp_path: Path) -> None:
    async with front(resuming) as gateway:
        async with gateway.post(Script(100_000, gap_ms=10, log=str(tmp_path)), **MINUTE) as response:
            await response.content.readline()
            await gateway.replicas[serving(gateway)].stop(grace_s=0.0)
            await until(lambda: len(found(tmp_path, "started")) == 2)
        await until(lambda: len(found(tmp_path, "cancelled")) == 2)
