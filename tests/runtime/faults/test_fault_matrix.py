"""Fifteen faults under each lever, over HTTP and gRPC, with real processes.

One stack of processes serves all cells of a protocol. A cell puts the lever's plan in force, sends requests while
the fault comes and goes, and checks three things: no request is lost that another replica could serve, each budget
holds by the replicas' own count of calls, and no process keeps tasks or descriptors.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio

from tests.support.faults.matrix.clients import Ended, clients
from tests.support.faults.matrix.faults import FAULTS, Cell, Fault, heal, table
from tests.support.faults.matrix.levers import ALL, LEVERS, Books, plan
from tests.support.faults.matrix.processes import LOOKS, Stack
from tests.support.peers.protocols import GRPC, HTTP, Protocol
from tests.support.runtime.server_processes import ROOT

KEPT_FILES = 24  # connections that a process may keep for later calls, beyond those at the start
KEPT_TASKS = 2
# Of a full queue no call need tell: a gateway that knows the load of a replica sends its calls to the others.
SENT_AGAIN = ("kill", "refuse", "reset", "wrong answer", "out of memory")
TAKE_LONG = ("stop", "slow", "lost packets")
LONG_S = 0.1
MANY_CELLS = 4  # of one fault, of which at least one must have met calls
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        sys.platform != "linux" or shutil.which("cc") is None,
        reason="needs a C compiler and the loader of Linux",
    ),
]


class Matrix:
    """The stack of one protocol, and the books over all its cells."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.books = Books()
        self.victims = itertools.cycle(range(LOOKS))
        self.held: dict[str, tuple[int, int]] = {}
        self.cells: Counter[str] = Counter()
        self.met: Counter[str] = Counter()

    async def warm_up(self) -> None:
        """Note what each process holds once it has served requests and nobody is connected."""
        async with clients(self.stack) as some:
            await some.serves_again()
            await some.some(40)
        self.stack.new_calls()
        self.held = await self.stack.held()

    def note(self, fault: str, again: int, ended: Iterable[Ended]) -> None:
        """Note the signs that a fault met calls: calls sent again, or requests that took long."""
        self.cells[fault] += 1
        self.met[fault] += again if fault in SENT_AGAIN else sum(each.took > LONG_S for each in ended)

    def check_faults_met_calls(self) -> None:
        """Fail if a fault that was injected several times left no sign at all."""
        seen = [each for each in (*SENT_AGAIN, *TAKE_LONG) if self.cells[each] >= MANY_CELLS]
        assert not [each for each in seen if not self.met[each]], self.met

    async def nothing_left(self) -> None:
        """Wait until each process holds as much as at the start, but for connections that it keeps."""
        seen: dict[str, Any] = {}

        def more(now: dict[str, tuple[int, int]]) -> dict[str, Any]:
            return {
                name: f"{now[name]} tasks and descriptors, {self.held[name]} at the start"
                for name in now
                if now[name][0] > self.held[name][0] + KEPT_TASKS
                or now[name][1] > self.held[name][1] + KEPT_FILES
            }

        for _ in range(100):
            seen = more(await self.stack.held())
            if not seen:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"left behind: {seen}")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[HTTP, GRPC], ids=str)
async def matrix(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Matrix]:
    protocol: Protocol = request.param
    stack = Stack(protocol, tmp_path_factory.mktemp(protocol.scheme), "--trace", "all")
    async with stack.running(protocol is GRPC):
        found = Matrix(stack)
        await found.warm_up()
        yield found
        found.check_faults_met_calls()


def retries(status: dict[str, Any], before: dict[str, Any] | None) -> dict[str, int]:
    """Calls that were sent again between two statuses of a gateway, by stage."""
    return {
        name: each["retries"]
        + each["resends"]
        - ((before["stages"][name]["retries"] + before["stages"][name]["resends"]) if before else 0)
        for name, each in status["stages"].items()
    }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize(
    "lever", [pytest.param(each, marks=[pytest.mark.slow] * (each != ALL)) for each in LEVERS]
)
async def test_a_fault_under_a_lever(matrix: Matrix, lever: str, fault: Fault) -> None:
    stack, books = matrix.stack, matrix.books
    if fault.name == "lost packets" and stack.far is None:
        pytest.skip("no network namespace with lost packets can be made here")
    async with clients(stack) as some:
        await some.serves_again()
        await stack.put_plan(some.session, plan(lever))
        before, life = await stack.status(some.session), stack.lives
        cell = Cell(stack, some, next(matrix.victims), lever)
        some.ended.clear()
        stack.new_calls()  # what was called before does not count
        try:
            await some.during(lambda: fault.inject(cell))
        finally:
            await heal(cell)
        assert not fault.lost(cell), fault.lost(cell)
        await some.serves_again()
        assert not [each for each in await some.some(8) if each.how != "ok"], "after the fault"
        status = await stack.status(some.session)
        assert status["inside"] == 0
        lost = sum(each.lost for each in some.ended)
        again = retries(status, before if stack.lives == life else None)
    partial = [each for each in some.ended if each.partial]
    assert lever in {"partial", "all"} or not partial
    matrix.note(fault.name, sum(again.values()), some.ended)
    books.lost += lost
    books.add(stack.new_calls(), again, lever, {life, stack.lives})
    books.check()
    await matrix.nothing_left()


async def test_the_page_has_the_table_of_the_faults() -> None:
    page = (ROOT / "docs" / "operate" / "faults.md").read_text(encoding="utf-8")
    assert "```{generated} faults\n" in page
    names = [line.split("|")[1].strip() for line in table().splitlines()[2:]]
    assert names == [fault.name for fault in FAULTS]
