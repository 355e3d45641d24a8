"""The day's service with real processes: handlers that wait as long as the generator of the day says.

The phase follows from the clock: the day starts at `KWIKEN_DAY_START` (seconds since 1970) and lasts
`KWIKEN_DAY_S` seconds. Without them there is no fault.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import time

from msgspec import Struct

from benchmarks.plans.autopilot.day import PHASES, STAGES, STALL_MS, STALL_SHARE, Phase, phase_at
from kwiken.model.service.service import Service


class Ask(Struct, frozen=True):
    """Request: its size, a factor of the time of all its calls."""

    size: float = 1.0


START_S = float(os.environ.get("KWIKEN_DAY_START", "0"))
DAY_S = float(os.environ.get("KWIKEN_DAY_S", "0"))
RNG = random.Random()
day = Service("day")


def wait_ms(name: str, size: float) -> float:
    """Time of one call, milliseconds."""
    phase = PHASES[phase_at(time.time() - START_S, DAY_S)] if DAY_S else Phase(1.0)
    kind, hit = STAGES[name], phase.stage == name
    sigma = kind.sigma * (phase.sigma if hit else 1.0)
    took = size * kind.median_ms * (phase.slower if hit else 1.0) * math.exp(RNG.gauss(0.0, sigma))
    if RNG.random() < STALL_SHARE:
        took += RNG.expovariate(1 / STALL_MS)
    if hit and phase.share and RNG.random() < phase.share:
        took += RNG.expovariate(1 / phase.stall_ms)
    return took


async def waited(name: str, ask: Ask) -> Ask:
    """Wait as long as a call of a stage takes."""
    await asyncio.sleep(wait_ms(name, ask.size) / 1000)
    return ask


@day.stage(replicas=3, idempotent=True)
async def front(ask: Ask) -> Ask:
    """Take the request."""
    return await waited("front", ask)


@day.stage(after=[front], replicas=3, idempotent=True)
async def users(ask: Ask) -> Ask:
    """Look the user up."""
    return await waited("users", ask)


@day.stage(after=[front], replicas=3, idempotent=True)
async def stock(ask: Ask) -> Ask:
    """Look the stock up."""
    return await waited("stock", ask)


@day.stage(after=[stock], replicas=3, idempotent=True)
async def price(ask: Ask) -> Ask:
    """Price what is in stock."""
    return await waited("price", ask)


@day.stage(after=[stock], replicas=3, idempotent=True)
async def offers(ask: Ask) -> Ask:
    """Find offers for what is in stock."""
    return await waited("offers", ask)


@day.stage(after=[users, price, offers], replicas=3, idempotent=True)
async def page(user: Ask, priced: Ask, offered: Ask) -> Ask:
    """Make the page."""
    del priced, offered
    return await waited("page", user)


day.check()
