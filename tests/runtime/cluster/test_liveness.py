"""Liveness check: when a process counts as unresponsive."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest

from kwiken.runtime.cluster.liveness import EVERY_S, Liveness, check_liveness, until_unresponsive
from kwiken.testing.virtual_loop import simulate
from tests.support.peers.misbehaving import misbehaving, saying, silence


class Patient:
    """Process that is unresponsive or closed in some spans of time; if unresponsive, a check takes its whole timeout."""

    def __init__(self, *bad: tuple[float, float], sign: Liveness = Liveness.SILENT) -> None:
        self.bad = bad
        self.sign = sign
        self.asked = 0

    async def __call__(self, within_s: float) -> Liveness:
        self.asked += 1
        loop = asyncio.get_running_loop()
        if not any(start <= loop.time() - 1000.0 < end for start, end in self.bad):
            return Liveness.ALIVE
        if self.sign is Liveness.SILENT:
            await asyncio.sleep(within_s)
        return self.sign


def ended(patient: Patient, *, silent_s: float = 10.0, closed_s: float = 13.0) -> float | None:
    """Moment at which the process was given up, within 100 s."""

    async def main() -> float | None:
        try:
            async with asyncio.timeout(100.0):
                sign = await until_unresponsive(patient, silent_s=silent_s, closed_s=closed_s)
        except TimeoutError:
            return None
        assert sign is patient.sign
        return asyncio.get_running_loop().time() - 1000.0

    return simulate(main)


def test_one_that_answers_is_asked_for_ever_and_not_often() -> None:
    patient = Patient()
    assert ended(patient) is None
    assert patient.asked == pytest.approx(100.0 / EVERY_S, abs=1)


@pytest.mark.parametrize("silent_s", [0.5, 3.0, 10.0, 60.0])
def test_a_process_that_stops_answering_is_given_up_after_the_limit(silent_s: float) -> None:
    at = ended(Patient((20.0, 1e9)), silent_s=silent_s)
    assert at is not None
    assert silent_s <= at - 20.0 + 1e-9
    assert at - 20.0 <= silent_s + 2 * EVERY_S


def test_pauses_however_many_are_no_hang() -> None:
    assert ended(Patient(*((start, start + 7.9) for start in range(4, 90, 12)))) is None


def test_one_that_takes_no_connections_gets_the_time_to_end() -> None:
    at = ended(Patient((20.0, 1e9), sign=Liveness.CLOSED), closed_s=30.0)
    assert at is not None
    assert at - 20.0 >= 30.0 - EVERY_S
    assert ended(Patient((20.0, 45.0), sign=Liveness.CLOSED), closed_s=30.0) is None


def test_the_asking_process_own_pause_is_no_hang_of_others() -> None:
    """The clock jumps by a minute during one check, which counts as one failed check."""

    class Jump(Patient):
        async def __call__(self, within_s: float) -> Liveness:
            self.asked += 1
            if self.asked % 10 == 0:
                await asyncio.sleep(60.0)
                return Liveness.SILENT
            return Liveness.ALIVE

    async def main() -> None:
        patient = Jump()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000.0):
                await until_unresponsive(patient, silent_s=10.0, closed_s=10.0)
        assert patient.asked > 100

    simulate(main)


async def test_signs_of_real_sockets() -> None:
    async with aiohttp.ClientSession() as session:
        async with misbehaving(saying(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")) as server:
            assert await check_liveness(session, server.address, 5.0) is Liveness.ALIVE
        assert await check_liveness(session, server.address, 5.0) is Liveness.CLOSED
        async with misbehaving(silence) as server:
            assert await check_liveness(session, server.address, 0.2) is Liveness.SILENT


async def test_an_endless_answer_counts_as_alive() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()

    async with misbehaving(flood) as replica, aiohttp.ClientSession() as session:
        assert await check_liveness(session, replica.address, 30.0) is Liveness.ALIVE
