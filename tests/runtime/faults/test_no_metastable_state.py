"""Three times the capacity for twenty seconds: soon afterwards nearly all requests are answered again.

Each replica has a few lanes, in which look-ups wait and hardly compute. So the capacity is known, and hardly depends
on the machine.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.faults.matrix.clients import OK, clients
from tests.support.faults.matrix.levers import ALL, NONE, plan
from tests.support.faults.matrix.processes import LOOKS, Stack
from tests.support.faults.matrix.service import capacity_per_s
from tests.support.peers.protocols import GRPC, HTTP, Protocol

LANE_MS = 160.0
CAPACITY_PER_S = capacity_per_s(LOOKS, LANE_MS)
BEFORE_S, OVERLOAD_S, AFTER_S = 3.0, 20.0, 10.0
RECOVERY_S = 5.0  # after the overload
USUAL, TIMES, LEAST = 0.7, 3.0, 0.95
USEFUL_S = 2.0  # age of an answer up to which it is of use

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or shutil.which("cc") is None,
        reason="needs a C compiler and the loader of Linux",
    ),
]


@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=str)
@pytest.mark.parametrize("lever", [NONE, ALL])
async def test_goodput_is_back_after_an_overload(
    protocol: Protocol, lever: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(protocol, tmp_path, "--trace", "off")
    async with stack.running(2 + (protocol is GRPC)), clients(stack) as some:
        await some.serves_again()
        await stack.put_plan(some.session, plan(lever, after_ms=1.5 * LANE_MS))
        some.lane_ms = LANE_MS
        some.ended.clear()
        usual = USUAL * CAPACITY_PER_S
        begin = asyncio.get_running_loop().time()
        await some.at_rate(usual, BEFORE_S, 1)
        over = asyncio.create_task(some.at_rate(TIMES * CAPACITY_PER_S, OVERLOAD_S, 2))
        await asyncio.sleep(OVERLOAD_S)
        end = asyncio.get_running_loop().time()
        await asyncio.gather(over, some.at_rate(usual, AFTER_S, 3))

    def goodput(first: float, last: float) -> tuple[int, int]:
        """Number of requests that were sent in a time, and of those that were answered soon."""
        sent = [each for each in some.ended if first <= each.at < last]
        return len(sent), sum(each.how == OK and each.took <= USEFUL_S for each in sent)

    parts = {
        "before": goodput(begin, begin + BEFORE_S),
        "overload": goodput(end - OVERLOAD_S, end),
        "first 5 s": goodput(end, end + RECOVERY_S),
        "then": goodput(end + RECOVERY_S, end + AFTER_S),
    }
    told = "; ".join(f"{name}: {good} of {sent}" for name, (sent, good) in parts.items())
    with capsys.disabled():
        sys.stdout.write(f"\n{protocol}, {lever}: answered within {USEFUL_S:g} s {told}\n")
    assert parts["overload"][1] < parts["overload"][0] / 2, f"it was no overload: {told}"
    sent, good = parts["then"]
    assert good >= LEAST * sent, told
