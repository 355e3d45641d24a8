"""Contention kernels: each presses by its level, stops when told, and says why it cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kwiken.allocator.contention.errors import ProbeError
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.probes.build import build_kernels
from kwiken.probes.facts import machine_facts
from kwiken.probes.machine import MachineProber, ProbeSettings
from kwiken.runtime.base.process_id import family
from tests.support.project.compilers import needs_compiler
from tests.support.runtime.waiting import until

pytestmark = needs_compiler


async def prober(**settings: object) -> MachineProber:
    return MachineProber(
        await build_kernels(),
        machine_facts(),
        ProbeSettings(**{"memory_gb": 0.1, "window_s": 0.03, **settings}),  # type: ignore[arg-type]
        lambda: None,
    )


@pytest.mark.parametrize("source", SOURCES)
async def test_every_kernel_works_at_full_level_and_rests_at_0(source: str) -> None:
    async with (await prober()).kernel(source) as kernel:
        await asyncio.sleep(0.03)
        rest = await kernel.measure(0.05)
        await kernel.settled(1.0)
        full = await kernel.measure(0.2)
    assert rest.rate == 0.0
    assert full.rate > 0.0
    assert full.busy_rate > 0.0


@pytest.mark.parametrize("source", ["l1i", "l1d", "l2", "tlb"])
async def test_footprints_follow_the_level(source: str) -> None:
    async with (await prober()).kernel(source) as kernel:
        rates = []
        for level in (0.25, 1.0):
            await kernel.settled(level)
            rates.append((await kernel.measure(0.3)).rate)
    assert 0.1 < rates[0] / rates[1] < 0.5  # 0.25, on a machine whose other programs may take turns


async def test_memory_is_held_and_given_back() -> None:
    async with (await prober()).kernel("memory-capacity") as kernel:
        await kernel.settled(1.0)
        full = kernel.held_bytes
        kernel.set_level(0.0)
        for _ in range(100):
            if kernel.held_bytes == 0:
                break
            await asyncio.sleep(0.02)
        assert (full >= 0.05e9, kernel.held_bytes) == (True, 0)


async def test_a_calibration_is_made_of_what_the_kernel_does() -> None:
    found = await (await prober()).calibrate("l1d")
    assert found.source == "l1d"
    assert found.reached[0] == 0.0
    assert found.reached[-1] == 1.0
    assert found.peak > 0


async def test_crosstalk_has_a_loss_for_every_pair() -> None:
    sources = ("l1d", "tlb")
    probes = await prober()
    found = await probes.run(sources, crosstalk=True)
    assert found.crosstalk is not None
    assert found.crosstalk.losses.shape == (2, 2)
    assert (found.crosstalk.losses <= 1).all()
    assert set(found.calibrations) == set(found.sizes) == set(sources)


async def test_a_kernel_says_why_it_cannot_start(tmp_path: Path) -> None:
    probes = await prober(folder=tmp_path / "missing")
    with pytest.raises(ProbeError, match=r"the kernel of disk ended: .*missing: No such file or directory"):
        async with probes.kernel("disk"):
            pass


async def test_a_kernel_that_was_ended_is_noticed() -> None:
    probes, before = await prober(), set(family(os.getpid()))
    async with probes.kernel("l1d") as kernel:
        (process,) = set(family(os.getpid())) - before
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ProbeError, match="the kernel of l1d ended with exit code -9"):
            await until(lambda: not kernel.counters())


async def test_the_disk_kernel_leaves_no_file(tmp_path: Path) -> None:
    async with (await prober(folder=tmp_path)).kernel("disk") as kernel:
        await kernel.settled(1.0)
        assert (await kernel.measure(0.1)).rate > 0
        assert os.listdir(tmp_path) == []  # noqa: PTH208 - a coroutine reads no Path
