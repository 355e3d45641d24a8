"""Gateway over real sockets, with stages in this process or behind real replica servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.plan.plan import Plan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.name_resolver import parse_endpoint
from kwiken.runtime.gateway.control.plan_in_force import PlanFile
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.waiting import PATIENCE_S, found, until
from tests.support.services.http import Ask, plan_for, service

TOKEN = "a-token-of-tests"
JSON = {"Content-Type": "application/json"}
AUTH = {"Authorization": f"Bearer {TOKEN}"}


class Front:
    """A gateway under test and a client for it."""

    def __init__(self, gateway: Gateway, executor: Executor, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.executor = executor
        self.session = session

    async def say(
        self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, Any]:
        """Send a request; returns status, headers and JSON (or text) of the response."""
        url = self.gateway.url + path
        async with self.session.request(method, url, data=body, headers=JSON | (headers or {})) as response:
            data = await response.read()
            with contextlib.suppress(msgspec.DecodeError):
                return response.status, response.headers, msgspec.json.decode(data)
            return response.status, response.headers, data.decode()

    async def ask(self, ask: Any, **headers: str) -> tuple[int, Any, Any]:
        """Send one request to the service; headers with `_` for `-`."""
        return await self.say(
            "POST",
            "/v1/request",
            body=msgspec.json.encode(ask),
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )


@contextlib.asynccontextmanager
async def local(
    target: Service = service, *, limits: Limits | None = None, **settings: Any
) -> AsyncIterator[Front]:
    """A gateway whose stages run in this process."""
    settings.setdefault("token", TOKEN)
    executor = Executor(
        target,
        LocalTransport(target),
        replicas=local_replicas(target),
        clock=SystemClock(),
        rng=random.Random(1),
        limits=limits if limits is not None else Limits(),
    )
    gateway = Gateway(target, executor, GatewaySettings(remote=False, **settings))
    await gateway.start()
    async with aiohttp.ClientSession() as session:
        try:
            yield Front(gateway, executor, session)
        finally:
            await gateway.stop(grace_s=0.0)


async def test_a_request_goes_through_every_stage() -> None:
    async with local() as front:
        status, headers, answer = await front.ask({"text": "hi"})
    assert (status, answer) == (200, {"answer": {"said": "HI0 HI1"}})
    assert "kw-partial" not in headers


async def test_through_replicas_over_http() -> None:
    servers = [ReplicaServer(service, name) for name in service.stages for _ in range(2)]
    async with (
        contextlib.AsyncExitStack() as ends,
        FrameTransport(service, raw=True) as transport,
        aiohttp.ClientSession() as session,
    ):
        for server in servers:
            await server.start()
            ends.push_async_callback(server.stop, grace_s=0.0)
        executor = Executor(
            service,
            transport,
            replicas={name: [] for name in service.stages},
            clock=SystemClock(),
            rng=random.Random(1),
        )
        gateway = Gateway(service, executor, GatewaySettings(token=TOKEN))
        await gateway.start()
        ends.push_async_callback(gateway.stop, grace_s=0.5)
        front = Front(gateway, executor, session)
        assert (await front.say("GET", "/readyz"))[0] == 503
        assert (await front.ask({"text": "early"}))[0] == 503
        wanted = {
            name: [
                {"id": f"{name}-{n}", "node": "here", "address": servers[2 * at + n].url} for n in range(2)
            ]
            for at, name in enumerate(service.stages)
        }
        status, _, answer = await front.say(
            "PUT", "/v1/replicas", body=msgspec.json.encode(wanted), headers=AUTH
        )
        assert (status, answer) == (200, wanted)
        assert (await front.say("GET", "/readyz"))[0] == 200

        async def answered(text: str) -> tuple[int, Any]:
            """What is answered in the end: on a busy machine the gateway may turn a request away at first."""
            for _ in range(100):
                status, _, answer = await front.ask({"text": text})
                if status != 503:
                    break
                await asyncio.sleep(0.05)
            return status, answer

        assert await asyncio.gather(*(answered(f"n{n}") for n in range(30))) == [
            (200, {"answer": {"said": f"N{n}0 N{n}1"}}) for n in range(30)
        ]
        status, _, failed = await front.ask({"text": "x", "fail": True})
        assert (status, failed) == (500, {"error": "stage 'middle': ValueError: told to fail"})


BAD_BODIES = {
    "broken JSON": b'{"text": ',
    "no JSON": b"text=hi",
    "empty": b"",
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "wrong type": b'{"text": 5}',
    "missing field": b"{}",
    "unknown field": b'{"text": "a", "colour": "red"}',
    "wrong shape": b'["text"]',
    "null": b"null",
    "deep": b"[" * 100_000,
    "huge number": b'{"text": "a", "sleep_ms": 1e999}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_request_is_refused_with_a_reason(name: str) -> None:
    async with local() as front:
        status, _, answer = await front.say("POST", "/v1/request", body=BAD_BODIES[name])
        assert status == 400, answer
        assert answer["error"].startswith("request: ")
        assert (await front.ask({"text": "fine"}))[0] == 200  # and nothing else suffers


async def test_a_bad_request_names_the_field() -> None:
    async with local() as front:
        _, _, answer = await front.ask({"text": "a", "sleep_ms": "long"})
    assert answer["error"] == "request: sleep_ms: must be a number, not text"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("kw-deadline-ms", "soon"),
        ("kw-deadline-ms", "-1"),
        ("kw-deadline-ms", "nan"),
        ("kw-deadline-ms", "inf"),
        ("kw-deadline-ms", "1e300"),
        ("kw-deadline-ms", ""),
        ("kw-deadline-ms", "1_000"),
        ("kw-deadline-ms", "\u0661\u0662"),
        ("kw-deadline-ms", "1e3"),
        ("kw-deadline-ms", "5."),
        ("kw-deadline-ms", "0" * 16 + "1"),
        ("kw-priority", "--9"),
        ("kw-priority", "-"),
        ("kw-priority", ""),
        ("kw-priority", "high"),
        ("kw-priority", "1.5"),
        ("kw-priority", "1000"),
        ("kw-priority", "1_0"),
        ("kw-priority", "\u0661"),
        ("Content-Encoding", "gzip"),
    ],
)
async def test_a_bad_header_is_named(header: str, value: str) -> None:
    async with local() as front:
        status, _, answer = await front.say(
            "POST", "/v1/request", body=b'{"text": "a"}', headers={header: value}
        )
    assert status == 400
    assert answer["error"].startswith(f"header {header}: ")


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "x",
        "00-0-0-0",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"ff-{'1' * 32}-{'1' * 16}-01",
        "00-" + "1" * 10_000,
    ],
)
async def test_a_bad_traceparent_starts_a_trace_of_its_own(traceparent: str) -> None:
    async with local() as front:
        if len(traceparent) > 8000:
            status, *_ = await front.ask({"text": "a"}, traceparent=traceparent)
            assert status == 400  # longer than any header may be
            return
        status, _, answer = await front.ask({"text": "a"}, traceparent=traceparent, kw_timing="1")
    assert status == 200
    assert int(answer["timing"]["trace_id"], 16) != 0
    assert answer["timing"]["trace_id"] != "1" * 32


async def test_the_callers_trace_is_continued() -> None:
    async with local() as front:
        status, _, answer = await front.ask(
            {"text": "a"}, traceparent=wire.format_traceparent(0xABC, 0xDEF), kw_timing="1"
        )
    assert status == 200
    assert answer["timing"]["trace_id"] == f"{0xABC:032x}"


def test_traceparents_of_later_versions_may_say_more() -> None:
    known = f"{1:032x}-{2:016x}"
    assert wire.parse_traceparent(f"00-{known}-01") == (1, 2, True)
    assert wire.parse_traceparent(f"00-{known}-00") == (1, 2, False)
    assert wire.parse_traceparent(f"cc-{known}-01-what-the-future-brings") == (1, 2, True)
    assert wire.parse_traceparent(f"00-{known}-01-more") is None
    assert wire.parse_traceparent(f"00-{known.upper()}-01") == (1, 2, True)  # digits only here
    assert wire.parse_traceparent("00-" + "A" * 32 + "-" + "b" * 16 + "-01") is None
    assert wire.parse_traceparent(f"00-{known}-01\n") is None


async def test_timing_shows_every_attempt() -> None:
    async with local() as front:
        _, _, answer = await front.ask({"text": "a", "sleep_ms": 100}, kw_timing="1")
        spans = answer["timing"]["spans"]
        _, _, plain = await front.ask({"text": "a"})
    assert "timing" not in plain
    kinds = {(s["stage"], s["shard"], s["attempt"]): (s["kind"], s["outcome"]) for s in spans}
    assert kinds["first", 0, 0] == ("primary", "won")
    assert {kinds["middle", shard, 0][0] for shard in (0, 1)} == {"primary"}
    assert all(0 <= s["start_ms"] <= s["end_ms"] <= answer["timing"]["total_ms"] + 1 for s in spans)


async def test_wrong_methods_and_routes() -> None:
    async with local() as front:
        status, headers, _ = await front.say("GET", "/v1/request")
        assert (status, headers["Allow"]) == (405, "POST")
        assert (await front.say("DELETE", "/v1/plan", headers=AUTH))[0] == 405
        assert (await front.say("POST", "/livez"))[0] == 405
        assert (await front.say("GET", "/v1/../etc/passwd"))[0] == 404
        assert (await front.say("GET", "/nothing"))[0] == 404
        assert (await front.say("HEAD", "/livez"))[0] == 200


async def test_a_body_too_large_is_not_read() -> None:
    async with local(max_body=1000) as front:
        status, _, answer = await front.ask({"text": "a" * 2000})
        assert status == 413
        assert "error" in answer
        assert (await front.ask({"text": "a"}))[0] == 200


async def test_expect_100_continue_is_answered() -> None:
    async with local() as front:
        host, _, port = front.gateway.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 13\r\nExpect: 100-continue\r\n\r\n"
        )
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b'{"text": "a"}')
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert await reader.read(1000) == b'{"answer":{"said":"A0 A1"}}'
        writer.close()
        await writer.wait_closed()


async def test_the_page_is_served() -> None:
    async with local() as front:
        status, headers, text = await front.say("GET", "/")
    assert (status, text) == (200, service.page)
    assert headers["Content-Type"].startswith("text/html")


async def test_a_service_without_a_page_leads_to_the_live_page() -> None:
    async def one(text: str) -> str:
        return text

    async with local(Service.of("plain", [Stage(name="one", handler=one)])) as front:
        async with front.session.get(front.gateway.url, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (307, "kwiken")
        status, headers, _ = await front.say("GET", "/")  # follows it
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/html")
        assert (await front.ask("x"))[2] == {"answer": "x"}


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/replicas", "/v1/status"])
@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xff"]
)
async def test_control_routes_need_the_token(path: str, given: str | None) -> None:
    async with local() as front:
        headers = {} if given is None else {"Authorization": given}
        status, answered, _ = await front.say("GET", path, headers=headers)
        assert status == 401
        assert answered["WWW-Authenticate"] == "Bearer"
        assert (await front.say("GET", path, headers=AUTH))[0] == 200


async def test_without_a_token_the_control_routes_are_closed() -> None:
    async with local(token=None) as front:
        assert (await front.say("GET", "/v1/plan", headers={"Authorization": "Bearer None"}))[0] == 403
        assert (await front.say("GET", "/v1/plan", headers={"Authorization": "Bearer "}))[0] == 403


async def test_a_plan_is_put_shown_and_cleared() -> None:
    plan = plan_for()
    async with local() as front:
        assert (await front.say("GET", "/v1/plan", headers=AUTH))[2] is None
        status, _, shown = await front.say("PUT", "/v1/plan", body=plan.to_json().encode(), headers=AUTH)
        assert status == 200
        assert Plan.from_json(msgspec.json.encode(shown)) == plan
        assert (await front.say("GET", "/v1/status", headers=AUTH))[2]["plan"] == plan.digest
        assert (await front.say("PUT", "/v1/plan", body=b"null", headers=AUTH))[2] is None
        assert front.executor.plan is None


async def test_a_bad_plan_is_refused_whole_and_the_old_one_stays() -> None:
    plan = plan_for()
    good = plan.to_json().encode()
    bad = {
        "no JSON": b"{",
        "empty": b"",
        "unknown field": good.replace(b'"version"', b'"versoin"'),
        "other version": good.replace(b'"version": 1', b'"version": 2'),
        "other service": good.replace(b'"echo"', b'"ohce"'),
        "unknown stage": good.replace(b'"middle"', b'"muddle"'),
        "budget of 2": good.replace(b"0.05", b"2", 1),
        "negative time": good.replace(b"25.0", b"-25.0"),
    }
    async with local() as front:
        await front.say("PUT", "/v1/plan", body=good, headers=AUTH)
        for name, body in bad.items():
            assert body != good, name
            status, _, answer = await front.say("PUT", "/v1/plan", body=body, headers=AUTH)
            assert status == 400, name
            assert answer["error"], name
            assert front.executor.plan == plan, name


async def test_plans_change_under_traffic_without_a_failed_request() -> None:
    async with local() as front:
        done = asyncio.Event()

        async def ask() -> list[int]:
            statuses = []
            while not done.is_set():
                statuses.append((await front.ask({"text": "a", "sleep_ms": 2}))[0])
            return statuses

        askers = [asyncio.create_task(ask()) for _ in range(4)]
        for turn in range(40):
            body = plan_for(after_ms=turn % 5).to_json().encode() if turn % 3 else b"null"
            assert (await front.say("PUT", "/v1/plan", body=body, headers=AUTH))[0] == 200
            await asyncio.sleep(0.005)
        done.set()
        statuses = [status for each in await asyncio.gather(*askers) for status in each]
    assert len(statuses) > 40
    assert set(statuses) == {200}


BAD_REPLICAS = {
    "no JSON": b"{",
    "no stages": b"[]",
    "unknown stage": b'{"nope": []}',
    "unknown field": b'{"first": [{"id": "a", "node": "n", "address": "http://127.0.0.1:1", "x": 1}]}',
    "no address": b'{"first": [{"id": "a", "node": "n"}]}',
    "no port": b'{"first": [{"id": "a", "node": "n", "address": "http://127.0.0.1"}]}',
    "another scheme": b'{"first": [{"id": "a", "node": "n", "address": "file:///etc/passwd"}]}',
    "a path": b'{"first": [{"id": "a", "node": "n", "address": "http://127.0.0.1:1/x"}]}',
    "port 70000": b'{"first": [{"id": "a", "node": "n", "address": "http://127.0.0.1:70000"}]}',
    "the same id twice": b'{"first": [{"id": "a", "node": "n", "address": "http://127.0.0.1:1"},'
    b'{"id": "a", "node": "n", "address": "http://127.0.0.1:2"}]}',
}


@pytest.mark.parametrize("name", BAD_REPLICAS)
async def test_bad_replicas_are_refused_whole(name: str) -> None:
    async with local() as front:
        status, _, answer = await front.say("PUT", "/v1/replicas", body=BAD_REPLICAS[name], headers=AUTH)
        assert status == 400, answer
        assert (await front.ask({"text": "a"}))[0] == 200


async def test_a_passed_deadline_is_a_504() -> None:
    async with local() as front:
        assert (await front.ask({"text": "a", "sleep_ms": 2000}, kw_deadline_ms="40"))[0] == 504
        assert (await front.ask({"text": "a"}, kw_deadline_ms="0"))[0] == 504


async def test_overload_says_when_to_come_again() -> None:
    async with local(limits=Limits(requests=2, always=2)) as front:
        answers = await asyncio.gather(*(front.ask({"text": "a", "sleep_ms": 100}) for _ in range(12)))
        shed = [headers for status, headers, _ in answers if status == 503]
        assert sum(status == 200 for status, *_ in answers) >= 2
        assert shed
        assert all(int(headers["Retry-After"]) >= 1 for headers in shed)
        figures = (await front.say("GET", "/v1/status", headers=AUTH))[2]
    assert figures["answered"]["503"] == len(shed)


async def test_a_client_that_disconnects_cancels_the_stages(tmp_path: Path) -> None:
    async with local() as front:
        task = asyncio.create_task(front.ask(Ask("a", sleep_ms=30_000, log=str(tmp_path))))
        await until(lambda: len(found(tmp_path, "started")) == 2)
        task.cancel()
        await until(lambda: len(found(tmp_path, "cancelled")) == 2)
        await until(lambda: front.executor.status()["cancelled"] == 1)


async def test_a_partial_answer_says_so_with_its_utility() -> None:
    async def source(text: str) -> str:
        return text

    async def aside(text: str) -> str:
        raise ValueError("out of order")

    async def end(text: str, more: str | None) -> str:
        return f"{text} {more}"

    target = Service.of(
        "half",
        [
            Stage(name="source", handler=source),
            Stage(name="aside", handler=aside, optional=True, after=("source",)),
            Stage(name="end", handler=end, after=("source", "aside")),
        ],
    )
    async with local(target) as front:
        status, headers, answer = await front.ask("a")
    assert (status, headers["kw-partial"], headers["kw-utility"]) == (200, "1", "0")
    assert answer == {"answer": "a None", "partial": True, "utility": 0.0}


async def test_stopping_fails_ready_first_and_finishes_what_runs() -> None:
    async with local() as front:
        slow = asyncio.create_task(front.ask({"text": "a", "sleep_ms": 400}))
        await asyncio.sleep(0.05)
        stop = asyncio.create_task(front.gateway.stop(grace_s=5.0, linger_s=0.2))
        await asyncio.sleep(0.05)
        assert (await front.say("GET", "/readyz"))[0] == 503
        assert (await front.say("GET", "/livez"))[0] == 200
        assert (await front.ask({"text": "meanwhile"}))[0] == 200
        assert (await slow)[0] == 200
        await stop
        with pytest.raises(aiohttp.ClientError):
            await front.ask({"text": "late"})


async def test_the_plans_file_is_followed_and_a_bad_one_ignored(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    async with local() as front:
        follower = PlanFile(path, front.gateway.control.plans)
        with pytest.raises(InputError, match="no such file"):
            follower.load()
        os.mkfifo(path)
        with pytest.raises(InputError, match="not a regular file"):
            follower.load()
        path.unlink()
        path.write_text(plan_for().to_json())
        follower.load()
        assert front.executor.plan == plan_for()
        watch = asyncio.create_task(follower.watch())
        try:
            path.write_text('{"version": 1')
            await until(lambda: follower.error)
            assert str(path) in str(follower.error)
            assert front.executor.plan == plan_for()
            path.write_text(plan_for(after_ms=99.0).to_json())
            await until(lambda: front.executor.plan == plan_for(after_ms=99.0))
            path.unlink()
            await asyncio.sleep(0.6)
            assert front.executor.plan == plan_for(after_ms=99.0)
        finally:
            watch.cancel()


def test_sources_of_different_types_are_refused() -> None:
    async def text(request: str) -> str:
        return request

    async def number(request: int) -> int:
        return request

    async def end(one: str, other: int) -> str:
        return one

    stages = [
        Stage(name="text", handler=text),
        Stage(name="number", handler=number),
        Stage(name="end", handler=end, after=("text", "number")),
    ]
    with pytest.raises(DefinitionError, match="a request has one type"):
        wire.RequestReader(Service.of("two", stages))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80, "http")),
        ("lookup:9001", ("lookup", 9001, "http")),
        ("[::1]:5", ("::1", 5, "http")),
        ("http://lookup:9001", ("lookup", 9001, "http")),
        ("grpc://[::1]:5", ("::1", 5, "grpc")),
    ],
)
def test_endpoints(text: str, found: tuple[str, int, str]) -> None:
    assert parse_endpoint(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":80", "host:0", "host:70000", "host:8x", "::1:80", "host:\u0661", "ftp://host:80"],
)
def test_bad_endpoints(text: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        parse_endpoint(text)


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
async def test_a_content_length_above_the_limit_is_refused_before_the_body(expect: str) -> None:
    async with local() as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(front.gateway.url.rpartition(":")[2]))
        writer.write(
            b"POST /v1/request HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"%bContent-Length: 99999999999999\r\n\r\n" % expect.encode()
        )
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
        writer.close()


@pytest.mark.parametrize("text", [r"\ud800", r"a\uDBFFb", r"\ud83d\u0041"])
async def test_a_truncated_utf8_character_is_named(text: str) -> None:
    async with local() as front:
        status, _, answer = await front.say("POST", "/v1/request", body=f'{{"text": "{text}"}}'.encode())
        assert status == 400
        assert "half a character" in answer["error"] or "surrogate pair" in answer["error"]
        assert (await front.ask({"text": "\U0001f600"}))[0] == 200
        _, _, answer = await front.say("POST", "/v1/request", body=b'{"text": "a')
        assert "ends too early" in answer["error"]


async def test_a_plan_with_an_editors_mark_is_a_plan() -> None:
    async with local() as front:
        front.gateway.control.plans.apply(b"\xef\xbb\xbf" + plan_for().to_json().encode(), where="plan")
        assert front.executor.plan == plan_for()
        front.gateway.control.plans.apply(b"\xef\xbb\xbfnull", where="plan")
        assert front.executor.plan is None
