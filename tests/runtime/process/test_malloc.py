"""Memory of large bodies goes back to the kernel, whichever threads held them."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from kwiken.runtime.cluster.child_process import Child
from kwiken.runtime.process.malloc import SURPLUS, FreedMemory, return_freed, trim
from kwiken.runtime.process.specs import GatewaySpec
from tests.support.runtime.waiting import until
from tests.support.services import bodies

TARGET = "tests.support.services.bodies:service"
SETTINGS = ("GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="only glibc from 2.33 on says how much its arenas hold",
)


async def kept() -> int:
    """Bytes by which a gateway's arenas grow while its threads hold large blocks, once these are freed."""
    gateway = await Child.start(GatewaySpec(target=TARGET, local=True), name="gateway")
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{gateway.url}/v1/request", json="hi") as answer,
        ):
            return int((await answer.json())["answer"])
    finally:
        await gateway.stop(1.0)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


async def test_freed_bodies_leave_nothing_in_arenas() -> None:
    assert await kept() < bodies.BODY


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_THRESHOLD_", "33554432"), ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=33554432")],
)
async def test_settings_of_the_environment_stay(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert await kept() > bodies.BODY


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@contextmanager
def freed_between_blocks_that_stay() -> Iterator[int]:
    """Memory of which the most is free; gives the process' bytes with it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    size, every = 20_000, 100  # bytes of a block, and number of blocks between two that stay
    blocks = [libc.malloc(size) for _ in range(6 * SURPLUS // size)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for number, block in enumerate(blocks):
        if number % every:
            libc.free(block)
    yield resident()
    for block in blocks[::every]:
        libc.free(block)


async def test_what_is_free_between_blocks_that_stay_goes_back() -> None:
    returning = asyncio.create_task(return_freed(0.05))
    await asyncio.sleep(0)
    with freed_between_blocks_that_stay() as held:
        await until(lambda: held - resident() > 4 * SURPLUS)
        returning.cancel()


def test_what_is_free_goes_back_at_once_where_it_is_asked_for() -> None:
    with freed_between_blocks_that_stay() as held:
        trim()
        assert held - resident() > 4 * SURPLUS


def test_memory_is_returned_once_for_each_growth() -> None:
    memory = FreedMemory(100 * SURPLUS)
    assert not memory.is_surplus(100 * SURPLUS, 50 * SURPLUS)  # it has not grown
    assert not memory.is_surplus(102 * SURPLUS, SURPLUS // 2)  # what it holds is in use
    assert memory.is_surplus(102 * SURPLUS, 2 * SURPLUS)
    memory.returned(101 * SURPLUS)
    assert not memory.is_surplus(101 * SURPLUS, 2 * SURPLUS)
    assert not memory.is_surplus(90 * SURPLUS, 2 * SURPLUS)
    assert memory.is_surplus(92 * SURPLUS, 2 * SURPLUS)  # it has grown from its least since
