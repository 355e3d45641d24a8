"""Ended gRPC calls leave nothing in a process: losers of races, and clients that hang up."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Final

import pytest

from tests.support.runtime.grpc_growth import WAYS
from tests.support.runtime.server_processes import ROOT

ROUNDS: Final = 30
# A call whose operation is lost leaves 950 to 1,100 bytes; the rest of a warm-up, counted by call, 0 to 75.
MOST_BYTES: Final = 300.0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="counts bytes as only glibc tells")
@pytest.mark.parametrize("way", WAYS)
def test_an_ended_call_leaves_no_memory(way: str) -> None:
    command = [sys.executable, "-m", "tests.support.runtime.grpc_growth", way, str(ROUNDS)]
    one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=one_arena, capture_output=True, text=True, timeout=120, check=True
    )
    assert float(done.stdout) < MOST_BYTES
