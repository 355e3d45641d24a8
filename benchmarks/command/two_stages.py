"""Service of two quick stages whose calls are slow now and then; copies of them are safe."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from msgspec import Struct

from kwiken.model.service.service import Service

two_stages = Service("two-stages")
TYPICAL_LOG_S: Final = -6.0  # logarithm of the median latency, seconds
SLOW_SHARE: Final = 0.02
SLOW_S: Final = 0.08


class Visitor(Struct, frozen=True):
    """Visitor to greet."""

    name: str


async def _take_time() -> None:
    slow = SLOW_S if random.random() < SLOW_SHARE else 0.0
    await asyncio.sleep(random.lognormvariate(TYPICAL_LOG_S, 0.4) + slow)


@two_stages.stage(replicas=1, idempotent=True)
async def tidy(request: Visitor) -> Visitor:
    """Strip blanks around the name."""
    await _take_time()
    return Visitor(request.name.strip())


@two_stages.stage(after=[tidy], replicas=1, idempotent=True)
async def greet(visitor: Visitor) -> str:
    """Greet the visitor."""
    await _take_time()
    return f"Hello, {visitor.name}!"


two_stages.check()
