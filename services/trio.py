"""Three small services with one stage each. Their calls only use processor time.

Run one with `kwiken up services.trio:digest`. A request says how many rounds its call works.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Annotated, Final

from msgspec import Meta, Struct

from kwiken.model.service.service import Service

MAX_ROUNDS: Final = 1_000_000
SALT: Final = b"kwiken"
TEXT: Final = b"A replica more, a faster node, or a percent more reissues? " * 20
NUMBERS: Final = tuple(place * 7919 % 400 for place in range(400))  # all different, in disorder


class Work(Struct, frozen=True):
    """Request: the number of rounds."""

    rounds: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)]


digest = Service("digest")
pack = Service("pack")
order = Service("order")


@digest.stage(replicas=2, idempotent=True)
async def hashing(work: Work) -> str:
    """Hash repeatedly."""
    return hashlib.pbkdf2_hmac("sha256", b"placement", SALT, 100 * work.rounds).hex()


@pack.stage(replicas=2, idempotent=True)
async def packing(work: Work) -> int:
    """Compress a text repeatedly; returns the number of bytes."""
    return sum(len(zlib.compress(TEXT, 6)) for _ in range(work.rounds))


@order.stage(replicas=2, idempotent=True)
async def ordering(work: Work) -> int:
    """Sort numbers repeatedly; returns the sum of the medians."""
    return sum(sorted(NUMBERS)[len(NUMBERS) // 2] for _ in range(work.rounds))


for service in (digest, pack, order):
    service.check()
