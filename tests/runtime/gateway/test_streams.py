"""Answers that stream from replicas through a gateway to clients, over real sockets within one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx
import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.runtime.streaming import Script, service
from tests.support.runtime.waiting import found, until

HEADERS: Final = {"Content-Type": "application/json"}
EVENTS: Final = {"Accept": "text/event-stream"}
CURL: Final = shutil.which("curl")
LARGE: Final = 50_000  # bytes of an item that is longer than a frame


class Front:
    """A gateway before two replicas of a stage that streams, and a client for it."""

    def __init__(
        self,
        gateway: Gateway,
        executor: Executor,
        session: aiohttp.ClientSession,
        replicas: dict[str, ReplicaServer],
    ) -> None:
        self.gateway = gateway
        self.executor = executor
        self.session = session
        self.replicas = replicas

    def post(self, script: Script, **headers: str) -> Any:
        return self.session.post(
            self.gateway.url + "/v1/request",
            data=msgspec.json.encode(script),
            headers=HEADERS | {name.replace("_", "-"): value for name, value in headers.items()},
        )

    async def ask(self, script: Script, **headers: str) -> tuple[int, list[Any]]:
        """Status, and the lines of the response."""
        async with self.post(script, **headers) as response:
            return response.status, [json.loads(line) async for line in response.content]

    @property
    def counts(self) -> Any:
        return self.executor.status()["stages"]["count"]


@contextlib.asynccontextmanager
async def front(service: Service = service, **settings: Any) -> AsyncIterator[Front]:
    async with contextlib.AsyncExitStack() as ends:
        transport = await ends.enter_async_context(FrameTransport(service, raw=True))
        session = await ends.enter_async_context(aiohttp.ClientSession())
        servers: dict[str, ReplicaServer] = {}
        replicas: dict[str, list[Replica]] = {}
        for name, stage in service.stages.items():
            for number in range(stage.replicas):
                server = servers[f"{name}-{number}"] = ReplicaServer(service, name)
                await server.start()
                ends.push_async_callback(server.stop, grace_s=0.0)
                replicas.setdefault(name, []).append(
                    Replica(f"{name}-{number}", f"node-{number}", server.url)
                )
        executor = Executor(
            service,
            transport,
            replicas=replicas,
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        gateway = Gateway(service, executor, GatewaySettings(token="a-token-of-tests", **settings))
        await gateway.start()
        ends.push_async_callback(gateway.stop, grace_s=0.0)
        yield Front(gateway, executor, session, servers)


def numbers(lines: list[Any]) -> list[int]:
    return [line["item"]["number"] for line in lines if "item" in line]


@pytest.mark.parametrize(("count", "pad"), [(0, 0), (1, 0), (3, 0), (5000, 20), (12, LARGE), (40, 3000)])
async def test_items_arrive_in_order_none_lost_or_doubled(count: int, pad: int) -> None:
    async with front() as gateway:
        status, lines = await gateway.ask(Script(count, pad=pad))
    assert status == 200
    assert numbers(lines) == list(range(count))
    assert lines[-1] == {"end": {"items": count}}
    assert all(len(line["item"]["pad"]) == pad for line in lines[:-1])


async def test_each_item_comes_before_the_next_is_made(tmp_path: Path) -> None:
    async with front() as gateway, gateway.post(Script(3, gap_ms=3_600_000, log=str(tmp_path))) as response:
        assert json.loads(await response.content.readline())["item"]["number"] == 0
        assert found(tmp_path, "ended") == []


async def test_a_client_that_asks_for_events_gets_events() -> None:
    async with front() as gateway:
        async with gateway.post(Script(2), **EVENTS) as response:
            assert response.content_type == "text/event-stream"
            events = (await response.text()).split("\n\n")
        async with gateway.post(Script(5, fail_at=1), **EVENTS) as response:
            broken = (await response.text()).split("\n\n")
    assert [json.loads(event.removeprefix("data: "))["number"] for event in events[:2]] == [0, 1]
    assert events[2:] == ['event: end\ndata: {"items":2}', ""]
    name, data = broken[1].split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == {
        "error": "stage 'count': ValueError: told to fail",
        "items": 1,
    }


async def test_httpx_reads_events_as_they_come_and_ends_the_handler_when_it_leaves(tmp_path: Path) -> None:
    async with front() as gateway, httpx.AsyncClient(trust_env=False, verify=False) as client:
        url, headers = gateway.gateway.url + "/v1/request", HEADERS | EVENTS

        def post(script: Script) -> Any:
            return client.stream("POST", url, content=msgspec.json.encode(script), headers=headers)

        async with post(Script(3)) as response:
            lines = [line async for line in response.aiter_lines() if line]
        items = [json.loads(line.removeprefix("data: "))["number"] for line in lines[:3]]
        assert (items, lines[3:]) == ([0, 1, 2], ["event: end", 'data: {"items":3}'])
        async with post(Script(3, gap_ms=3_600_000, log=str(tmp_path))) as response:
            first = await anext(response.aiter_lines())
            assert json.loads(first.removeprefix("data: "))["number"] == 0
        await until(lambda: found(tmp_path, "cancelled"))


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
async def test_curl_reads_events_as_they_come(tmp_path: Path) -> None:
    assert CURL is not None
    async with front() as gateway:
        script = Script(3, gap_ms=1.0, stall_at=2, log=str(tmp_path))
        process = await asyncio.create_subprocess_exec(
            CURL, "--no-buffer", "--silent", "--noproxy", "*",
            "--header", "Content-Type: application/json", "--header", "Accept: text/event-stream",
            "--data", msgspec.json.encode(script).decode(), gateway.gateway.url + "/v1/request",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        for number in range(2):
            event = await process.stdout.readuntil(b"\n\n")
            assert json.loads(event.removeprefix(b"data: "))["number"] == number
        process.terminate()
        await process.wait()
        await until(lambda: found(tmp_path, "cancelled"))


async def test_an_error_before_the_first_item_has_its_status_and_a_later_one_ends_the_stream() -> None:
    async with front() as gateway:
        status, lines = await gateway.ask(Script(3, fail_at=0))
        assert (status, lines) == (500, [{"error": "stage 'count': ValueError: told to fail"}])
        status, lines = await gateway.ask(Script(3, fail_at=2))
        assert (status, numbers(lines)) == (200, [0, 1])
        assert lines[-1] == {"error": "stage 'count': ValueError: told to fail", "items": 2}
        assert gateway.counts["failed"] == 2


async def test_the_deadline_is_for_all_items() -> None:
    async with front() as gateway:
        status, lines = await gateway.ask(Script(2, gap_ms=3_600_000), kw_deadline_ms="300")
        assert (status, numbers(lines)) == (200, [0])
        assert "the request's deadline passed before its last item, after 1 items" in lines[-1]["error"]
        status, lines = await gateway.ask(Script(2, first_ms=3_600_000), kw_deadline_ms="300")
        assert status == 504


async def test_a_client_that_leaves_ends_the_handler(tmp_path: Path) -> None:
    async with front() as gateway:
        response = await gateway.post(Script(1000, gap_ms=5, log=str(tmp_path)))
        await response.content.readline()
        response.close()
        await until(lambda: found(tmp_path, "cancelled"))
        await until(lambda: gateway.executor.status()["cancelled"] == 1)
        assert gateway.executor.status()["failed"] == 0
        assert gateway.replicas["count-0"].calls.inflight + gateway.replicas["count-1"].calls.inflight == 0
        # A handler that is ahead of its client, so that it waits for room, ends too.
        response = await gateway.post(Script(100_000, pad=1000, log=str(tmp_path)))
        await until(lambda: len(found(tmp_path, "started")) == 2)
        await response.content.readline()
        response.close()
        await until(lambda: len(found(tmp_path, "cancelled")) == 2)
        assert gateway.gateway.door.budget.taken == 0


async def test_a_client_that_reads_nothing_stops_the_handler_with_little_held(tmp_path: Path) -> None:
    async with front() as gateway:
        port = int(gateway.gateway.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
        body = msgspec.json.encode(Script(1_000_000, pad=1000, log=str(tmp_path)))
        head = f"POST /v1/request HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: found(tmp_path, "reached"))
        reached = tmp_path / found(tmp_path, "reached")[0]

        async def settled() -> int:
            """Number of the last item that was noted, once the handler makes no more."""
            last = -1
            while (now := int(reached.read_text() or 0)) != last:
                last = now
                await asyncio.sleep(0.3)
            return last

        stopped_at = await settled()
        # Buffers of the kernel, some megabytes, and a few windows of our own, all far below a gigabyte.
        assert stopped_at < 20_000
        assert gateway.gateway.door.budget.taken < 1 << 17
        for _ in range(10_000):
            await reader.readline()
        await until(lambda: int(reached.read_text() or 0) > stopped_at)
        writer.close()
        await until(lambda: found(tmp_path, "cancelled"))
        await until(lambda: not gateway.gateway.door.budget.taken)


async def test_the_first_item_wins_the_race_and_no_copy_follows_it(tmp_path: Path) -> None:
    async with front() as gateway:
        # The first call stalls before its first item, so a copy is sent, wins, and the call is cancelled.
        script = Script(3, stall_at=0, log=str(tmp_path), only_first=True)
        status, lines = await gateway.ask(script)
        assert (status, numbers(lines), lines[-1]) == (200, [0, 1, 2], {"end": {"items": 3}})
        await until(lambda: found(tmp_path, "cancelled"))
        assert len(found(tmp_path, "started")) == 2
        assert (gateway.counts["reissues"], gateway.counts["calls"], gateway.counts["failed"]) == (1, 1, 0)
        # Copies are due after 60 ms; the items of this one take far longer, and none is sent.
        status, lines = await gateway.ask(Script(4, gap_ms=100))
        assert (numbers(lines), gateway.counts["reissues"]) == ([0, 1, 2, 3], 1)
        assert gateway.counts["p99_ms"] < 100 * 3, "the time to the first item is what counts"


async def test_a_replica_that_stops_breaks_its_streams_off_with_an_error() -> None:
    async with front() as gateway:
        response = await gateway.post(Script(3, gap_ms=3_600_000))
        first = json.loads(await response.content.readline())
        assert first["item"]["number"] == 0
        for name in ("count-0", "count-1"):
            await gateway.replicas[name].stop(grace_s=0.0)
        last = json.loads(await response.content.readline())
        assert last["items"] == 1
        assert "stage 'count': replica count-" in last["error"]
        assert await response.content.read() == b""


async def test_the_budget_of_held_bytes_ends_a_stream_whose_item_finds_no_room() -> None:
    async with front(max_bodies=1 << 20) as gateway:
        status, lines = await gateway.ask(Script(3, pad=100_000))
        assert (status, numbers(lines)) == (200, [0, 1, 2])
        gateway.gateway.door.budget.take((1 << 20) - 50_000)
        status, lines = await gateway.ask(Script(3, pad=100_000))
        assert (status, "too many bytes of answers are held" in lines[-1]["error"]) == (503, True)
        gateway.gateway.door.budget.give((1 << 20) - 50_000)
        assert gateway.gateway.door.budget.taken == 0


async def test_items_of_an_inner_stage_are_charged_until_the_stage_after_it_has_their_list() -> None:
    joined = Service("joined")
    taken: list[int] = []

    @joined.stage()
    async def words(count: int) -> AsyncIterator[str]:
        for _ in range(count):
            yield "x" * 10_000

    @joined.stage(after=[words])
    async def length(words: list[str]) -> int:
        taken.append(gateway.gateway.door.budget.taken)
        return sum(map(len, words))

    async with front(joined, max_bodies=1 << 20) as gateway:
        for count, status in ((0, 200), (20, 200), (200, 503), (50, 200)):
            async with gateway.session.post(
                gateway.gateway.url + "/v1/request", data=str(count), headers=HEADERS
            ) as response:
                answer = await response.json()
                assert response.status == status, answer
                assert status != 200 or answer["answer"] == count * 10_000
            assert gateway.gateway.door.budget.taken == 0
    assert taken[0] == 0
    assert taken[1] > 100_000
    assert taken[2] > 400_000


async def test_a_stream_whose_time_is_up_ends_with_its_items_so_far_where_its_stage_says_so() -> None:
    dripping = Service("dripping")

    @dripping.stage(items_so_far=True)
    async def drip(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number
        await asyncio.sleep(3600)

    async with front(dripping) as gateway:
        for count, status in ((2, 200), (0, 504)):
            async with gateway.session.post(
                gateway.gateway.url + "/v1/request",
                data=str(count),
                headers=HEADERS | {"kw-deadline-ms": "300"},
            ) as response:
                lines = [json.loads(line) async for line in response.content]
                assert response.status == status
            if status == 200:
                end = {"items": 2, "partial": True, "utility": 0.0}
                assert lines == [{"item": 0}, {"item": 1}, {"end": end}]
            await until(lambda: not gateway.replicas["drip-0"].calls.inflight)


async def test_items_before_the_acceptable_one_reach_the_client_with_it() -> None:
    prefaced = Service("prefaced")

    @prefaced.stage(accept=lambda item: len(item) == 3)
    async def words(count: int) -> AsyncIterator[str]:
        for _ in range(count):
            yield "x" * 10_000
        if count < 100:
            yield "yes"
            yield "end"

    async with front(prefaced, max_bodies=1 << 19) as gateway:
        for count, last in ((0, {"end": {"items": 2}}), (20, {"end": {"items": 22}}), (100, None)):
            async with gateway.session.post(
                gateway.gateway.url + "/v1/request", data=str(count), headers=HEADERS
            ) as response:
                lines = [json.loads(line) async for line in response.content]
            assert response.status == (503 if last is None else 200)
            if last is not None:
                assert [each["item"] for each in lines[:-1]] == ["x" * 10_000] * count + ["yes", "end"]
                assert lines[-1] == last
            assert gateway.gateway.door.budget.taken == 0


async def test_the_work_of_all_items_is_metered_and_a_copy_is_charged_to_the_first_alone() -> None:
    async with front() as gateway:
        for _ in range(3):
            await gateway.ask(Script(5, burn_ms=4))
        assert gateway.counts["busy_ms"] >= 3 * 5 * 4 * 0.9
        work = gateway.executor.states["count"].work
        assert work.answered.mean < 2 * 4 < gateway.counts["busy_ms"] / 3


async def test_a_replica_refuses_calls_of_a_stage_that_streams_over_http() -> None:
    async with front() as gateway:
        url = gateway.replicas["count-0"].url + "/call"
        async with gateway.session.post(
            url, data=b"\x91\x81\xa5count\x01", headers={"Content-Type": "application/msgpack"}
        ) as response:
            assert response.status == 400
            assert b"a stage that streams answers to gateways" in await response.read()
