"""Known defects of hedging clients, each as a test that this client passes and its peers are held against.

Peers are tried where they are installed (`uv sync --group peers`); a defect that a peer no longer has fails its
test, so that the documents are corrected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from kwiken.hedge.hedger import Hedger
from kwiken.hedge.httpx_transport import HedgedTransport

PATH: Final = "/items"
DELAY_S: Final = 0.02
SLOW_S: Final = 0.3
Act = Callable[[int], Any]


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each attempt as a function of its number says, and notes which were cancelled."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self.attempts = 0
        self.cancelled: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        number = self.attempts
        self.attempts += 1
        try:
            return httpx.Response(await self._act(number), request=request)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise


def ours(inner: ScriptedTransport) -> httpx.AsyncBaseTransport:
    return HedgedTransport(Hedger.fixed({f"GET {PATH}": 1000 * DELAY_S}, budget=1.0), inner)


def hedge_python(inner: ScriptedTransport) -> httpx.AsyncBaseTransport:
    pytest.importorskip("hedge", reason="hedge-python is not installed")
    from hedge import HedgeConfig
    from hedge.transport import HedgedHttpxTransport

    made: httpx.AsyncBaseTransport = HedgedHttpxTransport(inner, HedgeConfig(warmup_delay=DELAY_S))
    return made


def httpx_hedged(inner: ScriptedTransport) -> httpx.AsyncBaseTransport:
    library = pytest.importorskip("httpx_hedged", reason="httpx-hedged is not installed")
    made: httpx.AsyncBaseTransport = library.HedgedTransport(inner, library.HedgeConfig(warmup_delay=DELAY_S))
    return made


def clients(*defective: Callable[[ScriptedTransport], httpx.AsyncBaseTransport]) -> pytest.MarkDecorator:
    """All clients; those with the defect must fail."""
    return pytest.mark.parametrize(
        "made",
        [
            pytest.param(
                each, marks=pytest.mark.xfail(strict=True, reason="known") if each in defective else ()
            )
            for each in (ours, hedge_python, httpx_hedged)
        ],
    )


async def status_of(transport: httpx.AsyncBaseTransport) -> int:
    async with httpx.AsyncClient(transport=transport) as client:
        return (await client.get(f"http://shop{PATH}")).status_code


@clients(hedge_python, httpx_hedged)
async def test_a_copy_with_an_error_status_does_not_win(made: Any) -> None:
    async def act(number: int) -> int:
        await asyncio.sleep(0 if number else SLOW_S)
        return 503 if number else 200

    inner = ScriptedTransport(act)
    assert await status_of(made(inner)) == 200
    assert inner.attempts == 2


@clients(hedge_python, httpx_hedged)
async def test_a_copy_that_raises_does_not_win(made: Any) -> None:
    async def act(number: int) -> int:
        await asyncio.sleep(0 if number else SLOW_S)
        if number:
            raise httpx.ConnectError("refused")
        return 200

    assert await status_of(made(ScriptedTransport(act))) == 200


@clients(hedge_python)
async def test_no_attempt_runs_on_after_its_caller(made: Any) -> None:
    both = asyncio.Event()

    async def act(number: int) -> int:
        if number:
            both.set()
        await asyncio.sleep(60)
        return 200

    inner = ScriptedTransport(act)
    transport = made(inner)
    asking = asyncio.create_task(status_of(transport))
    await asyncio.wait_for(both.wait(), 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert sorted(inner.cancelled) == [0, 1]


@clients()
async def test_the_loser_has_ended_when_the_call_returns(made: Any) -> None:
    async def act(number: int) -> int:
        await asyncio.sleep(0 if number else 60)
        return 200

    inner = ScriptedTransport(act)
    assert await status_of(made(inner)) == 200
    assert inner.cancelled == [0]


@pytest.mark.parametrize("budget", [1e-6, 1.0])
async def test_a_budget_that_is_spent_leaves_the_first_attempt_alone(budget: float) -> None:
    """failsafe-go before 0.9.7 cancelled it."""
    slow = 0

    async def act(number: int) -> int:
        nonlocal slow
        slow += 1
        await asyncio.sleep(SLOW_S)
        return 200

    inner = ScriptedTransport(act)
    transport = HedgedTransport(Hedger.fixed({f"GET {PATH}": 1000 * DELAY_S}, budget=budget), inner)
    async with httpx.AsyncClient(transport=transport) as client:
        replies = await asyncio.gather(*(client.get(f"http://shop{PATH}") for _ in range(30)))
    assert [reply.status_code for reply in replies] == [200] * 30
    assert inner.attempts < 60, "the budget was never empty"
