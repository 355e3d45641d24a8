"""Memory of large bodies goes back to the kernel, whichever threads held them."""

from __future__ import annotations

import ctypes

import aiohttp
import pytest

from kwiken.runtime.cluster.child_process import Child
from kwiken.runtime.process import GatewaySpec
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
