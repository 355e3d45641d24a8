"""Calls of foreign HTTP services: what they are sent, how their answers are read, and what each fault becomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.service.remote import HttpCall
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage
from kwiken.runtime.base.errors import (
    DeadlineError,
    HandlerError,
    LostError,
    RefusedError,
    UnavailableError,
    UnfitError,
)
from kwiken.runtime.wire.foreign.http_calls import pause_of
from kwiken.runtime.wire.foreign.transport import ForeignTransport
from kwiken.runtime.wire.transport.base import Replica
from kwiken.runtime.wire.transport.local import LocalTransport
from tests.support.peers.foreign_http import Answer, call_of, executing, http_server
from tests.support.peers.misbehaving import misbehaving, saying
from tests.support.runtime.garbage import garbage_of
from tests.support.runtime.waiting import PATIENCE_S

URL = "http://prices.example:8000"


class Ask(msgspec.Struct):
    sku: str
    currency: str = "EUR"


class Price(msgspec.Struct):
    sku: str
    cents: int


def service_of(remote: HttpCall, **settings: Any) -> Service:
    """A service of one foreign stage, `price`, that takes an `Ask` and answers a `Price`."""

    async def price(ask: Ask) -> Price:
        raise NotImplementedError

    return Service.of("shop", [Stage(name="price", handler=price, remote=remote, **settings)])


@contextlib.asynccontextmanager
async def calling(service: Service) -> AsyncIterator[ForeignTransport]:
    async with ForeignTransport(service, LocalTransport(service)) as transport:
        yield transport


async def answered(remote: HttpCall, answer: Answer, ask: Any, **settings: Any) -> Any:
    """Answer of one call of a server."""
    async with http_server(answer) as replica, calling(service_of(remote, **settings)) as transport:
        call = call_of("price", ask)
        try:
            return (await transport.call(replica, call)).value
        finally:
            assert call.status is None or 100 <= int(call.status) < 600


async def tea(request: web.Request) -> web.Response:
    return web.json_response({"sku": "tea", "cents": 350})


async def test_path_query_headers_and_body_are_as_stated() -> None:
    seen: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update(method=request.method, target=request.raw_path, headers=request.headers)
        seen["body"] = json.loads(await request.text())
        return await tea(request)

    remote = HttpCall(
        f"{URL}/v1/{{request.sku}}?in={{request.currency}}&all=1",
        method="PUT",
        body={"items": ["{request.sku}", 2], "note": "in {request.currency}", "all": "{request}"},
        headers={"X-Team": "shop"},
    )
    assert await answered(remote, answer, Ask("a b/c?d#é", "EUR&x=1")) == Price("tea", 350)
    assert seen["method"] == "PUT"
    assert seen["target"] == "/v1/a%20b%2Fc%3Fd%23%C3%A9?in=EUR%26x%3D1&all=1"
    assert seen["body"] == {
        "items": ["a b/c?d#é", 2],
        "note": "in EUR&x=1",
        "all": {"sku": "a b/c?d#é", "currency": "EUR&x=1"},
    }
    assert seen["headers"]["Host"] == "prices.example:8000"
    assert seen["headers"]["X-Team"] == "shop"
    assert seen["headers"]["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"


@pytest.mark.parametrize("attempt", [0, 1, 2])
async def test_headers_say_which_attempt_it_is_and_how_long_is_left(attempt: int) -> None:
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return await tea(request)

    named = HttpCall(f"{URL}/p", attempts_header="X-Previous", time_left_header="X-Left-Ms")
    for remote in (named, HttpCall(f"{URL}/p")):
        async with http_server(answer) as replica, calling(service_of(remote)) as transport:
            call = call_of("price", Ask("tea"))
            call.attempt = attempt
            await transport.call(replica, call)
    told, silent = seen
    assert told.get("X-Previous") == (str(attempt) if attempt else None)
    assert 3000 < int(told["X-Left-Ms"]) <= 5500
    assert not {"X-Previous", "X-Left-Ms"} & silent.keys()


@pytest.mark.parametrize(
    ("method", "body", "sent"),
    [
        ("POST", msgspec.UNSET, b'{"sku":"tea","currency":"EUR"}'),
        ("POST", None, b""),
        ("GET", msgspec.UNSET, b""),
        ("DELETE", None, b""),
        ("PATCH", "{request.sku}", b'"tea"'),
    ],
)
async def test_the_input_is_the_body_where_none_is_stated(method: str, body: Any, sent: bytes) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert (request.method, await request.read()) == (method, sent)
        return await tea(request)

    await answered(HttpCall(f"{URL}/p", method=method, body=body), answer, Ask("tea"))


async def test_chunks_and_bodies_that_end_with_the_connection_are_read() -> None:
    text = json.dumps({"sku": "x" * 100_000, "cents": 1}).encode()

    async def chunked(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for start in range(0, len(text), 7_777):
            await response.write(text[start : start + 7_777])
        await response.write_eof()
        return response

    remote = HttpCall(f"{URL}/p")
    async with http_server(chunked) as replica, calling(service_of(remote)) as transport:
        for _ in range(3):  # on one connection
            reply = await transport.call(replica, call_of("price", Ask("x")))
            assert reply.value == Price("x" * 100_000, 1)
    async with (
        misbehaving(saying(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\n\r\n" + text)) as replica,
        calling(service_of(remote)) as transport,
    ):
        assert (await transport.call(replica, call_of("price", Ask("x")))).value.cents == 1


@pytest.mark.parametrize(
    ("status", "idempotent", "kind", "message"),
    [
        (400, True, HandlerError, r"stage 'price': HTTP 400: .*no such article"),
        (404, False, HandlerError, r"stage 'price': HTTP 404: "),
        (500, True, HandlerError, r"stage 'price': HTTP 500: "),
        (429, True, RefusedError, r"replica .*: answered 429"),
        (503, True, RefusedError, r"answered 503"),
        (503, False, LostError, r"answered 503"),
        (421, False, RefusedError, r"another server"),
        (408, True, LostError, r"answered 408"),
        (502, True, LostError, r"answered 502"),
        (504, False, LostError, r"answered 504"),
    ],
)
async def test_a_status_becomes_the_runtimes_error(
    status: int, idempotent: bool, kind: type[Exception], message: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"error": "no such article"}, status=status)

    with pytest.raises(kind, match=message):
        await answered(HttpCall(f"{URL}/p"), answer, Ask("tea"), idempotent=idempotent)


@pytest.mark.parametrize(
    ("status", "header", "pause_s"),
    [
        (503, "7", 7.0),
        (429, "0", 0.0),
        (503, "Wed, 21 Oct 2026 07:28:07 GMT", 7.0),
        (503, "Wednesday, 21-Oct-26 07:28:07 GMT", 7.0),
        (503, "Wed Oct 21 07:28:07 2026", 7.0),
        (503, "Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        (503, "Wed, 21 Oct 2026 soon", 0.0),
        (503, "Wed, 21 Oct 999999 07:28:00 GMT", 0.0),
        (502, "Wed, 21 Oct 2026 07:28:07 GMT", 0.0),
        (503, "-3", 0.0),
        (503, "1.5", 0.0),
        (503, "9" * 400, 0.0),
        (502, "7", 0.0),
    ],
)
@pytest.mark.parametrize("idempotent", [True, False])
async def test_retry_after_is_a_pause(status: int, header: str, pause_s: float, idempotent: bool) -> None:
    async def answer(request: web.Request) -> web.Response:
        # The date of the answer is the server's, by whatever clock.
        stated = {"Retry-After": header, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
        return web.Response(status=status, headers=stated)

    with pytest.raises((RefusedError, LostError)) as caught:
        await answered(HttpCall(f"{URL}/p"), answer, Ask("tea"), idempotent=idempotent)
    assert getattr(caught.value, "pause_s", None) == pause_s


@given(
    now_s=st.integers(0, 4_000_000_000),
    ahead_s=st.integers(-100_000, 100_000),
    fault_s=st.integers(-100_000, 100_000),
)
def test_a_date_of_retry_after_counts_from_the_servers_own_date(
    now_s: int, ahead_s: int, fault_s: int
) -> None:
    until = format_datetime(datetime.fromtimestamp(now_s, UTC) + timedelta(seconds=ahead_s), usegmt=True)
    sent = format_datetime(datetime.fromtimestamp(now_s, UTC), usegmt=True)
    assert pause_of({"retry-after": until, "date": sent}, float(now_s + fault_s)) == max(0, ahead_s)
    assert pause_of({"retry-after": until}, float(now_s)) == max(0, ahead_s)  # by our clock


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_retry_after_is_a_pause_of_seconds(stated: str, date: str) -> None:
    assert 0.0 <= pause_of({"retry-after": stated, "date": date}, 0.0) < math.inf


async def test_redirects_are_not_followed() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/p"
        raise web.HTTPFound("http://elsewhere.example/")

    with pytest.raises(HandlerError, match=r"HTTP 302: redirects are not followed \(to http://elsewhere"):
        await answered(HttpCall(f"{URL}/p"), answer, Ask("tea"))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (b"", LostError, "the connection was closed"),
        (b"hello\r\n\r\n", LostError, "not an HTTP response"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", LostError, "switched to another protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", LostError, "the connection was closed"),
        (b"HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\n{}", LostError, "not a first line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}", UnfitError, "not JSON|truncated|malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", LostError, "not a Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}", HandlerError, "ReplyTooLarge"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000_000, HandlerError, "ReplyTooLarge"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", LostError, "transfer coding 'gzip'"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
            LostError,
            "and a length",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", LostError, "length of a chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n", LostError, "longer than it"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", LostError, "was closed"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}",
            LostError,
            "transfer coding ''",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b", UnfitError, "compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>", UnfitError, "text/html.* does not fit"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", UnfitError, "got `null`"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"sku": "tea"}', UnfitError, "missing required field `cents`"),
    ],
)
async def test_a_faulty_answer_is_an_error_that_names_stage_and_replica(
    text: bytes, kind: type[Exception], message: str
) -> None:
    async with misbehaving(saying(text)) as replica, calling(service_of(HttpCall(f"{URL}/p"))) as transport:
        with pytest.raises(kind, match=message) as caught:
            await transport.call(replica, call_of("price", Ask("tea")))
        assert "stage 'price'" in str(caught.value)
        assert replica.id in str(caught.value)


async def test_cancelling_closes_the_connection() -> None:
    entered, gone = asyncio.Event(), asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        entered.set()
        while await reader.read(1000):
            pass
        gone.set()

    async with misbehaving(hangs) as replica, calling(service_of(HttpCall(f"{URL}/p"))) as transport:
        task = asyncio.create_task(transport.call(replica, call_of("price", Ask("tea"))))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()


async def test_a_passed_deadline_sends_nothing() -> None:
    async def answer(request: web.Request) -> web.Response:
        raise AssertionError

    async with http_server(answer) as replica, calling(service_of(HttpCall(f"{URL}/p"))) as transport:
        with pytest.raises(DeadlineError):
            await transport.call(replica, call_of("price", Ask("tea"), within_s=-1))


async def test_a_body_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(HandlerError, match="CallTooLarge: its path is"):
        await answered(HttpCall(f"{URL}/{{request.sku}}"), tea, Ask("x" * 9_000))
    with pytest.raises(HandlerError, match="CallTooLarge: its body is"):
        await answered(HttpCall(f"{URL}/p"), tea, Ask("x" * (17 << 20)))


@pytest.mark.parametrize("step", [".", ".."])
async def test_a_value_cannot_lead_to_another_path(step: str) -> None:
    with pytest.raises(InputError, match="stage 'price': remote: a part of the path"):
        await answered(HttpCall(f"{URL}/{{request.sku}}/x"), tea, Ask(step))


async def test_a_field_that_the_request_lacks_is_the_clients_error() -> None:
    service = Service.of("shop", [Stage(name="price", remote=HttpCall(f"{URL}/{{request.sku}}"))])
    for body, message in (
        ({"sku": ["tea"]}, r"\{request.sku\}: is a list of 1; text takes"),
        ({"name": "tea"}, r"\{request.sku\}: there is no 'sku' in an object with the fields name"),
        (None, r"\{request.sku\}: there is no 'sku' in null"),
    ):
        async with executing(service, {"price": [Replica("r", "n", "http://127.0.0.1:9")]}) as executor:
            with pytest.raises(InputError, match=rf"stage 'price': {message}"):
                await executor.run(body)


async def test_a_mixed_dag_passes_answers_both_ways() -> None:
    async def parts(ask: Ask, *, shard: int) -> Price:
        return Price(ask.sku, shard)

    service = Service.of(
        "shop",
        [
            Stage(name="part.s", handler=parts, fanout=3),
            Stage(
                name="sum",
                after=("part.s",),
                fanout=2,
                remote=HttpCall(f"{URL}/{{shard}}", body={"all": "{part.s.values}", "u": "{part.s.utility}"}),
            ),
            Stage(name="both", after=("sum",), handler=both),
        ],
    )
    service.check()
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, body := await request.json()))
        return web.json_response(sum(part["cents"] for part in body["all"]) * 10 ** int(request.path[1:]))

    async with http_server(answer) as replica, executing(service, {"sum": [replica]}) as executor:
        assert (await executor.run(Ask("tea"))).value == 33
    all_parts = {"all": [{"sku": "tea", "cents": shard} for shard in range(3)], "u": 1.0}
    assert sorted(seen) == [("/0", all_parts), ("/1", all_parts)]


async def both(sums: Partial[int]) -> int:
    return sum(sums.present)


async def test_only_idempotent_stages_get_copies_and_retries() -> None:
    asked: list[str] = []
    began = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.append("slow")
        began.set()
        await asyncio.sleep(5.0)
        return await tea(request)

    async def quick(request: web.Request) -> web.Response:
        asked.append("quick")
        return await tea(request)

    async with http_server(slow) as one, http_server(quick) as other:
        service = service_of(
            HttpCall(f"{URL}/p"), idempotent=True, timeout_ms=4000, reissue=Reissue(after_ms=30)
        )
        async with executing(service, {"price": [one]}) as executor:
            task = asyncio.create_task(executor.run(Ask("tea")))
            await began.wait()
            executor.set_replicas("price", [one, other])
            async with asyncio.timeout(PATIENCE_S):
                assert (await task).value == Price("tea", 350)
            assert asked == ["slow", "quick"]
        asked.clear()
        began.clear()
        service = service_of(HttpCall(f"{URL}/p"), timeout_ms=150)
        async with executing(service, {"price": [one]}) as executor:
            task = asyncio.create_task(executor.run(Ask("tea")))
            await began.wait()
            executor.set_replicas("price", [one, other])
            with pytest.raises(DeadlineError):
                await task
            assert asked == ["slow"]


async def test_a_call_that_never_left_goes_to_another_replica_even_if_it_may_not_run_twice() -> None:
    async with http_server(tea) as good:
        service = service_of(HttpCall(f"{URL}/p"))
        gone = Replica("gone", "n", "http://127.0.0.1:9")
        async with executing(service, {"price": [gone, good]}) as executor:
            for _ in range(8):
                assert (await executor.run(Ask("tea"))).value == Price("tea", 350)
        async with executing(service, {"price": [gone]}) as executor:
            with pytest.raises(UnavailableError, match="no connection"):
                await executor.run(Ask("tea"))


@pytest.mark.parametrize("health", [None, "/healthz"])
async def test_health_is_asked_by_the_services_own_check(health: str | None) -> None:
    well = {"a": True}

    def server(name: str) -> Answer:
        async def answer(request: web.Request) -> web.Response:
            if health is None:
                assert (request.method, request.path) == ("HEAD", "/")
                return web.Response(status=404)
            assert (request.method, request.path) == ("GET", health)
            return web.Response(status=200 if well.get(name, True) else 503)

        return answer

    service = service_of(HttpCall(f"{URL}/p", health=health))
    async with (
        http_server(server("a")) as one,
        http_server(server("b")) as other,
        calling(service) as transport,
    ):
        both = [one, other]
        assert await transport.healthy("price", both) == both
        well["a"] = False
        assert await transport.healthy("price", both) == both  # one failed check proves little
        assert await transport.healthy("price", both) == (both if health is None else [other])
        well["b"] = False
        for _ in range(2):
            left = await transport.healthy("price", both)
        assert left == both  # none is well: all are tried
        well.update(a=True, b=True)
        assert await transport.healthy("price", both) == both


async def test_a_probe_after_a_lost_race_asks_the_foreign_server() -> None:
    async def answer(request: web.Request) -> web.Response:
        return await tea(request) if request.path == "/p" else web.Response(status=404)

    service = service_of(HttpCall(f"{URL}/p"))
    async with http_server(answer) as replica, calling(service) as transport:
        await transport.call(replica, call_of("price", Ask("tea")))
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        transport.ask(replica, heard.set_result)
        assert await heard
    async with misbehaving(saying(b"")) as replica, calling(service) as transport:
        with pytest.raises(LostError):
            await transport.call(replica, call_of("price", Ask("tea")))
        heard = asyncio.get_running_loop().create_future()
        transport.ask(replica, heard.set_result)
        assert not await heard


@pytest.mark.parametrize("status", [404, 502, 200])
async def test_failed_calls_leave_no_cycle_of_references(status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}, status=status)

    service = service_of(HttpCall(f"{URL}/p"))
    async with http_server(answer) as replica, executing(service, {"price": [replica]}) as executor:

        async def fail() -> None:
            with contextlib.suppress(HandlerError, LostError):
                await executor.run(Ask("tea"))

        await fail()
        left = await garbage_of(fail)
        assert not {name for name in left if name in {"HedgedCall", "Call", "Request", "Attempt"}}
