"""Transport within one process: handlers, errors, deadlines, busy time and threads."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from typing import Any

import msgspec
import pytest

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import DeadlineError, HandlerError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas

HERE = Replica("x", "local", "local")


def demo() -> Service:
    service = Service("demo")

    @service.stage(fanout=3, replicas=2)
    async def part(word: str, *, shard: int) -> str:
        await asyncio.sleep(0)
        return f"{word}{shard}"

    @service.stage(after=[part])
    async def whole(parts: Partial[str]) -> str:
        return "+".join(parts.present)

    return service


def call(stage: str, *args: object, deadline: float = float("inf")) -> Call:
    return Call(stage, args, 0, 0, deadline, 0, 0, "")


async def test_runs_a_service_in_one_process() -> None:
    service = demo()
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    assert (await executor.run("a")).value == "a0+a1+a2"


def test_as_many_replicas_as_asked_for() -> None:
    replicas = local_replicas(demo())
    assert [replica.id for replica in replicas["part"]] == ["part-0", "part-1"]
    assert len(replicas["whole"]) == 1


async def test_handlers_error_names_stage_type_and_message() -> None:
    service = Service("bad")

    @service.stage()
    async def broken(_: str) -> str:
        raise KeyError("missing")

    with pytest.raises(HandlerError, match=r"stage 'broken': KeyError: 'missing'") as caught:
        await LocalTransport(service).call(HERE, call("broken", "x"))
    assert (caught.value.stage, caught.value.kind) == ("broken", "KeyError")


class Page(msgspec.Struct):
    """An answer with fields."""

    title: str


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        (str, 7, "Expected `str`, got `int`"),
        (int, "7", "Expected `int`, got `str`"),
        (int, True, "Expected `int`, got `bool`"),
        (str, None, "Expected `str`, got `None`"),
        (dict[str, str], {"a": 1}, "Expected `str`, got `int` - at `$[...]`"),
        (list[Page], [{"title": 3}], "Expected `str`, got `int` - at `$[0].title`"),
        (Page, {}, "missing required field `title`"),
        (str, object(), "Encoding objects of type object is unsupported"),
    ],
)
async def test_an_answer_of_another_type_is_the_stages_error(kind: Any, answer: Any, reason: str) -> None:
    async def wrong(_: str) -> Any:
        return answer

    wrong.__annotations__["return"] = kind
    service = Service.of("typed", [Stage(name="wrong", handler=wrong)])
    with pytest.raises(HandlerError) as caught:
        await LocalTransport(service).call(HERE, call("wrong", "x"))
    assert str(caught.value).startswith("stage 'wrong': TypeError: its answer does not fit: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "answer", "taken"),
    [
        (Any, HERE, HERE),
        (float, 7, 7.0),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Page, {"title": "a"}, Page("a")),
        (str, dt.date(2024, 2, 29), "2024-02-29"),
        (Page | None, None, None),
    ],
)
async def test_an_answer_is_taken_as_it_would_come_over_the_wire(kind: Any, answer: Any, taken: Any) -> None:
    async def right(_: str) -> Any:
        return answer

    right.__annotations__["return"] = kind
    service = Service.of("typed", [Stage(name="right", handler=right)])
    reply = await LocalTransport(service).call(HERE, call("right", "x"))
    assert reply.value == taken
    assert type(reply.value) is type(taken)


async def test_who_asks_for_it_is_told_what_handlers_raise() -> None:
    told: list[tuple[str, int, str]] = []
    service = Service("bad")

    @service.stage()
    async def broken(_: str) -> str:
        raise KeyError("missing")

    def report(stage: str, trace_id: int, error: BaseException) -> None:
        told.append((stage, trace_id, repr(error)))

    one = Call("broken", ("x",), 0, 0, float("inf"), 0, 5, "")
    with pytest.raises(HandlerError):
        await LocalTransport(service, report=report).call(HERE, one)
    assert told == [("broken", 5, "KeyError('missing')")]


async def test_late_call_is_dropped_before_it_runs() -> None:
    service = Service("late")
    ran = []

    @service.stage()
    async def note(_: str) -> None:
        ran.append(True)

    with pytest.raises(DeadlineError, match="'note'"):
        await LocalTransport(service).call(HERE, call("note", "x", deadline=0.0))
    assert not ran


async def test_busy_time_is_measured() -> None:
    moments = iter([1.0, 1.25])
    transport = LocalTransport(demo(), now=lambda: next(moments))
    reply = await transport.call(HERE, call("whole", Partial(("a",))))
    assert reply.busy_ms == 250.0


async def test_setup_runs_once_a_stage() -> None:
    ran = []

    async def handler(_: str) -> None: ...

    async def load() -> None:
        ran.append("async")

    stages = [
        Stage(name="a", handler=handler, setup=lambda: ran.append("plain")),
        Stage(name="b", after=("a",), handler=handler, setup=load),
    ]
    await LocalTransport(Service.of("x", stages)).setup()
    assert ran == ["plain", "async"]


def test_stage_without_a_handler_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'a'"):
        LocalTransport(Service.of("x", [Stage(name="a")]))


@pytest.mark.parametrize("fanout", [1, 2])
async def test_threads_are_passed_and_their_work_is_not_taken_for_elapsed_time(fanout: int) -> None:
    service = Service("threads")

    async def sharded(word: str, *, shard: int, threads: int) -> str:
        return f"{word} {shard} {threads}"

    async def plain(word: str, *, threads: int) -> str:
        return f"{word} 0 {threads}"

    service.add(Stage(name="s", handler=sharded if fanout > 1 else plain, fanout=fanout, threads=4))
    transport = LocalTransport(service)
    one, three = [
        await transport.call(HERE, Call("s", ("x",), 0, 0, float("inf"), 0, 0, "", threads))
        for threads in (1, 3)
    ]
    assert (one.value, three.value) == ("x 0 1", "x 0 3")
    assert one.busy_ms is not None
    assert three.busy_ms is None
