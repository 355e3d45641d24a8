"""Malicious or foreign servers at a replica's address: a good replica beside them keeps the service up.

All kinds are tried at the same time in one process; the result of a test is the list of failures by kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.choice.picker import FIRST_BACKOFF_S
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.strangers import STRANGERS, Place, Said, Stranger, at_home
from tests.support.runtime.waiting import PATIENCE_S, until

REQUESTS: Final = 40
FIRST: Final = 22  # of them; in the rest a stranger is known
FEW: Final = 4
ERRING: Final = (
    20  # requests that an erring replica may fail until it is known: no other replica may be asked
)
MAX_LOST: Final = 14  # of the first, where no other replica may be asked
AT_ONCE: Final = 3
DEADLINE_MS: Final = 800.0
LONGEST: Final = 2_000  # characters of an error
TRIED: Final = 6  # kinds of strangers at a time

RAN: Counter[str] = Counter()


async def say(word: str) -> Said:
    """Handler that runs at good replicas only."""
    RAN[word] += 1
    await asyncio.sleep(0.001)
    return Said(word)


async def last(said: Said) -> str:
    """Stage that reads the first stage's answer, which the gateway has passed on undecoded."""
    return said.text


def service_of(*, idempotent: bool) -> Service:
    return Service.of(
        "beset",
        [
            Stage(name="say", handler=say, idempotent=idempotent, replicas=2, timeout_ms=DEADLINE_MS),
            Stage(name="last", handler=last, after=("say",), idempotent=True),
        ],
    )


class Beset:
    """A service with a malicious server among its replicas."""

    def __init__(self, executor: Executor, place: Place, stranger: Stranger) -> None:
        self.executor = executor
        self.place = place
        self.stranger = stranger

    async def ask(self, word: str) -> str | None:
        """Complete message of a request's error; None for none."""
        try:
            async with asyncio.timeout(PATIENCE_S):  # far longer than the deadline of a request
                answer = await self.executor.run(word, deadline_ms=DEADLINE_MS)
        except KwikenError as error:
            leaves = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            return f"{error} {' '.join(map(str, leaves))}"
        assert answer.value == (word if word in RAN else "fit")
        return None

    async def ask_all(self, words: list[str]) -> list[str]:
        """Errors of requests, a few of which run at a time."""
        left = iter(words)
        errors: list[str] = []

        async def some() -> None:
            for word in left:
                error = await self.ask(word)
                errors.extend([] if error is None else [error])

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        return errors


@contextlib.asynccontextmanager
async def beset(stranger: Stranger, *, idempotent: bool, alone: bool) -> AsyncIterator[Beset]:
    service = service_of(idempotent=idempotent)
    async with contextlib.AsyncExitStack() as stack:
        place = await stack.enter_async_context(at_home(stranger))
        replicas: dict[str, list[Replica]] = {"say": [place.replica], "last": []}
        for stage in ("last",) if alone else ("say", "last"):
            server = ReplicaServer(service, stage)
            await server.start()
            stack.push_async_callback(server.stop, grace_s=0.0, linger_s=0.0)
            replicas[stage].append(Replica(f"good-{stage}", "here", server.url))
        async with FrameTransport(service, raw=True) as transport:
            executor = Executor(
                service, transport, replicas=replicas, clock=SystemClock(), rng=random.Random(3)
            )
            yield Beset(executor, place, stranger)
        await until(lambda: place.open == 0)


Trial = Callable[[str, Stranger], Awaitable[str | None]]


async def trouble(trial: Trial) -> dict[str, str]:
    """Failures by kind of server; checks that no task, connection or unhandled error is left."""
    turns = asyncio.Semaphore(TRIED)
    wrong: dict[str, str] = {}

    async def one(name: str, stranger: Stranger) -> None:
        async with turns:
            complaint = await trial(name, stranger)
            if complaint is not None:
                wrong[name] = complaint

    before = asyncio.all_tasks()
    with unheard() as words:
        await asyncio.gather(*(one(name, stranger) for name, stranger in STRANGERS.items()))
        gc.collect()
        await until(lambda: asyncio.all_tasks() <= before)
    assert not words
    return wrong


@contextlib.contextmanager
def unheard() -> Iterator[list[str]]:
    """Logged warnings and errors, but that an answer does not fit, and unhandled exceptions."""
    words: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "its answer does not fit" not in record.getMessage():
                words.append(record.getMessage())

    listener = Listener(logging.WARNING)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: words.append(str(context)))
    logging.getLogger().addHandler(listener)
    try:
        yield words
    finally:
        logging.getLogger().removeHandler(listener)
        loop.set_exception_handler(None)


def words_of(name: str, count: int) -> list[str]:
    return [f"{name} {next(_numbers)}" for _ in range(count)]


_numbers = itertools.count()


async def test_beside_a_good_replica_nearly_every_request_succeeds() -> None:
    async def trial(name: str, stranger: Stranger) -> str | None:
        async with beset(stranger, idempotent=True, alone=False) as it:
            errors = await it.ask_all(words_of(name, FIRST))
            hits, began = it.place.hits, time.monotonic()
            later = await it.ask_all(words_of(name, REQUESTS - FIRST))
            more = it.place.hits - hits
            # Each trial ends a time of ejection, and each of those is twice as long as the last one.
            trials = math.log2(1 + (time.monotonic() - began) / FIRST_BACKOFF_S)
        if stranger.sound:
            return f"{errors + later}" if errors or later else None
        if more > FEW + trials:
            return f"it still gets calls: {more} of the last {REQUESTS - FIRST}"
        if len(errors) > (ERRING if stranger.errs else 0) or len(later) > (FEW if stranger.errs else 0):
            return f"{len(errors)} and {len(later)} failed: {set(errors + later)}"
        return None

    assert await trouble(trial) == {}


async def test_a_call_that_must_not_run_twice_goes_to_one_replica_unless_the_other_refused() -> None:
    async def trial(name: str, stranger: Stranger) -> str | None:
        words = words_of(name, FIRST)
        async with beset(stranger, idempotent=False, alone=False) as it:
            errors = await it.ask_all(words)
            calls = it.place.calls
        twice = [word for word in words if RAN[word] + calls[word] > 1]
        if twice and not stranger.refuses:
            return f"sent twice: {twice}"
        if len(errors) > (0 if stranger.sound or stranger.refuses else MAX_LOST):
            return f"{len(errors)} failed: {set(errors)}"
        return None

    assert await trouble(trial) == {}


def unclear(error: str | None, stranger: Stranger) -> str | None:
    """Describe what is wrong with a request's error; None for nothing."""
    if error is None:
        return "a request succeeded"
    if len(error) > LONGEST:
        return "an endless error"
    named = "stage 'say'" in error and ("bad" in error or stranger.errs)
    return None if named else "stage or replica is not named"


async def test_a_single_malicious_replica_fails_each_request_in_time_by_name() -> None:
    async def trial(name: str, stranger: Stranger) -> str | None:
        async with beset(stranger, idempotent=True, alone=True) as it:
            started = time.monotonic()
            words = words_of(name, 4)
            errors = [await it.ask(word) for word in words]
            took_s = (time.monotonic() - started) / len(words)
            (replica,) = it.executor.status()["stages"]["say"]["replicas"]
        if stranger.sound:
            return f"{errors}" if any(errors) else None
        for error in errors:
            if complaint := unclear(error, stranger):
                return f"{complaint}: {error}"
        if took_s > 10 * DEADLINE_MS / 1000:
            return f"{took_s:.1f} s a request"
        return None if replica["trouble"] else "its status does not show what is wrong"

    assert await trouble(trial) == {}
