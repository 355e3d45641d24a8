"""Benchmark of the autopilot with real processes: the day's phases in minutes, all ways side by side.

Each way has a gateway of its own, with all stages in its process, and a load of its own; all run at the
same time, so a busy machine slows all of them. Handlers wait as the generator says and hardly compute. First
a short day without any plan is traced, a quarter as long: hindsight plans are made of each of its phases, and
the fixed plan and the even spread of its first eighth. `KWIKEN_LIVE_S` is the length of the day in seconds:
300 by default, 1800 for the half hour, which takes 39 minutes in all.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.harness import Row
from benchmarks.plans.autopilot.bench_autopilot import (
    EVEN,
    FIRST_SHARE,
    FIXED,
    GOAL_SHARE,
    MAX_USELESS,
    PHASE,
)
from benchmarks.plans.autopilot.day import PHASES, phase_at
from benchmarks.plans.autopilot.ways import BUDGET, plan_of
from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.otel.fit.fit import fit_profile
from kwiken.runtime.gateway.control.client import NoAnswerError
from kwiken.runtime.gateway.steering.gateways import Gateways

T = TypeVar("T")
DAY_S: Final = 300.0
LEARN_SHARE: Final = 0.25  # of the day, for the day before that is traced
MIN_LEARN_S: Final = 120.0
QUICK_S: Final = 30.0
RATE_PER_S: Final = 40.0
TOKEN: Final = "live-benchmark"
READY_S: Final = 60.0
TRIES: Final = 20  # of a request to a gateway, 5 s each
TRACED: Final = 0.2  # of ordinary requests
NONE, PILOT = "no plan", "autopilot"


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    day_s = QUICK_S if quick else float(os.environ.get("KWIKEN_LIVE_S", str(DAY_S)))
    return asyncio.run(_run(day_s, QUICK_S if quick else max(MIN_LEARN_S, LEARN_SHARE * day_s)))


async def _run(day_s: float, learn_s: float) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="kwiken-live-") as name:
        folder = Path(name)
        await _day([NONE], {}, learn_s, folder / "first", traced=True)
        plans = _plans(folder / "first" / "0" / "traces", learn_s)
        ways = [NONE, FIXED, EVEN, PHASE, PILOT]
        found = await _day(ways, plans, day_s, folder / "day", traced=False)
    return _rows(found, day_s)


def _plans(traces: Path, learn_s: float) -> dict[str, list[Plan]]:
    """Plans of each way by phase, from a day without a plan; a single plan holds in all phases."""
    profile = fit_profile([traces])
    start_s = float(profile.started_s.min())
    phase = [phase_at(at_s - start_s, learn_s) for at_s in profile.started_s.tolist()]
    first = _part(profile, [at_s - start_s < FIRST_SHARE * learn_s for at_s in profile.started_s.tolist()])
    parts = [_part(profile, [one == number for one in phase]) for number in range(len(PHASES))]
    return {
        FIXED: [plan_of(first)],
        EVEN: [plan_of(first, spread="equal")],
        PHASE: [plan_of(part, insurance=0.0) for part in parts],
    }


def _part(profile: Profile, wanted: Sequence[bool]) -> Profile:
    import numpy as np

    return part_of(profile, np.flatnonzero(wanted))


async def _day(
    ways: Sequence[str], plans: Mapping[str, list[Plan]], day_s: float, folder: Path, *, traced: bool
) -> dict[str, dict[str, Any]]:
    """Run a day with all ways at once; returns the load's results and the last status of each way."""
    start_s = time.time() + 5.0 + 3.0 * len(ways)  # for the gateways to start
    env = {
        **os.environ,
        "KWIKEN_TOKEN": TOKEN,
        "KWIKEN_DAY_START": str(start_s),
        "KWIKEN_DAY_S": str(day_s),
    }
    processes: list[asyncio.subprocess.Process] = []
    urls = []
    try:
        for number, way in enumerate(ways):
            started, url = await _gateway(way, folder / str(number), env, traced=traced)
            processes += started
            urls.append(url)
        await asyncio.sleep(max(0.0, start_s - time.time()))
        client = Gateways(urls, lambda: TOKEN)
        changing = [
            asyncio.create_task(_follow(client, url, plans[way], start_s, day_s))
            for way, url in zip(ways, urls, strict=True)
            if way in plans
        ]
        loads = await asyncio.gather(*(_load(url, day_s, number) for number, url in enumerate(urls)))
        await asyncio.gather(*changing)
        statuses = [await _asked(client.clients[url].status) for url in urls]
        return {
            way: {"load": load, "status": status}
            for way, load, status in zip(ways, loads, statuses, strict=True)
        }
    finally:
        for process in processes:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            await process.wait()


async def _gateway(
    way: str, folder: Path, env: Mapping[str, str], *, traced: bool
) -> tuple[list[asyncio.subprocess.Process], str]:
    """Start the gateway of a way, with its autopilot if it has one; returns the processes and the address."""
    words = ["-m", "benchmarks.plans.autopilot.live_gateway", "--traces", str(folder / "traces")]
    words += ["--share", "1" if traced else str(TRACED), "--token", TOKEN]
    pipe = asyncio.subprocess.PIPE
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=dict(env), stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert gateway.stdout is not None
    async with asyncio.timeout(READY_S):
        url = (await gateway.stdout.readline()).decode().strip()
    if not url:
        raise InputError("the gateway did not start", where=way)
    if way != PILOT:
        return [gateway], url
    words = ["-m", "kwiken", "autopilot", "--url", url, "--traces", str(folder / "traces")]
    words += ["--state", str(folder / "state"), "--budget", str(BUDGET)]
    pilot = await asyncio.create_subprocess_exec(sys.executable, *words, env=dict(env))
    return [pilot, gateway], url


async def _follow(client: Gateways, url: str, plans: Sequence[Plan], start_s: float, day_s: float) -> None:
    """Put the plan of each phase in force as the phase begins."""
    hours = sum(phase.hours for phase in PHASES)
    since_s = 0.0
    for number, plan in enumerate(plans):
        await asyncio.sleep(max(0.0, start_s + since_s - time.time()))
        await _asked(functools.partial(client.clients[url].put_plan, plan))
        since_s += PHASES[number].hours / hours * day_s


async def _asked(request: Callable[[], Awaitable[T]]) -> T:
    """Answer to a request that is sent again where a busy machine lets a gateway wait too long.

    Raises:
        NoAnswerError: there was no answer to any of them.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(NoAnswerError):
            return await request()
    return await request()


async def _load(url: str, day_s: float, seed: int) -> dict[str, Any]:
    words = ["load", url, "--rate", str(RATE_PER_S), "--duration", str(day_s), "--seed", str(seed), "--json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kwiken",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    text, _ = await process.communicate()
    found: dict[str, Any] = json.loads(text)
    return found


def _rows(found: Mapping[str, dict[str, Any]], day_s: float) -> list[Row]:
    p99 = {way: float(each["load"]["latency"]["p99_ms"]) for way, each in found.items()}
    rows = [Row(name=f"live, {day_s:g} s: p99, {way}", ours=value, unit="ms") for way, value in p99.items()]
    best = p99[NONE] - p99[PHASE]
    share = (p99[NONE] - p99[PILOT]) / best if best > 0 else 0.0
    status = found[PILOT]["status"]
    note, ledger = status["autopilot"] or {}, status["ledger"]
    rows.append(
        Row(
            name=f"live, {day_s:g} s: cut of the autopilot over that of {PHASE}",
            ours=100 * share,
            unit="%",
            target=100 * GOAL_SHARE,
            met=share >= GOAL_SHARE,
        )
    )
    peak = LedgerTerms().peak(BUDGET)
    return [
        *rows,
        Row(
            name=f"live, {day_s:g} s: worst 10 s",
            ours=100 * (ledger["worst_10s"] or 0.0),
            unit="%",
            target=100 * peak,
        ),
        Row(name=f"live, {day_s:g} s: changes", ours=note.get("changes", 0), unit="plans tried"),
        Row(
            name=f"live, {day_s:g} s: changes in vain",
            ours=note.get("useless", 0),
            unit="plans",
            target=MAX_USELESS,
        ),
    ]
