"""Load at 70% of the capacity with random faults and the autopilot on: nothing grows, and no request is lost.

`make soak` runs it for half an hour; `SOAK_S` is its length in seconds, `SOAK_SEED` the seed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.faults.matrix.clients import clients
from tests.support.faults.matrix.processes import Stack
from tests.support.faults.matrix.soak import AUTOPILOT, SOAKED_LOOKS, Soak
from tests.support.peers.protocols import GRPC, HTTP, Protocol

SECONDS = float(os.environ.get("SOAK_S", "60"))
SEED = int(os.environ.get("SOAK_SEED", "1"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * SECONDS + 300),
    pytest.mark.skipif(
        sys.platform != "linux" or shutil.which("cc") is None,
        reason="needs a C compiler and the loader of Linux",
    ),
]


@pytest.mark.parametrize("protocol", [HTTP, GRPC], ids=str)
async def test_nothing_grows_and_no_request_is_lost(
    protocol: Protocol, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(
        protocol, tmp_path, "--autopilot", "--autopilot-state", str(tmp_path / "state"), looks=SOAKED_LOOKS
    )
    async with stack.running(4 + (protocol is GRPC)), clients(stack) as some:
        await some.serves_again()
        some.ended.clear()
        soak = Soak(stack, some, SECONDS, SEED)
        await soak.run()
        note = (await stack.status(some.session))["autopilot"]
    lines, growing = soak.growth()
    told = "\n".join(
        ["", *soak.report(), f"autopilot: {note['sentence'] if note else 'no decision yet'}", *lines, ""]
    )
    with capsys.disabled():
        sys.stdout.write(told)
    if soak.lost and soak.starved:
        pytest.skip(f"other programs had the processors: {told}")
    assert not soak.lost, told
    assert any(name == AUTOPILOT for name, _ in soak.samples), "the autopilot did not run"
    assert not growing, "\n".join(growing)
