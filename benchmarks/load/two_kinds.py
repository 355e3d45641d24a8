"""Service with two kinds of requests: the heavy one takes ten times as long as the light one."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from kwiken.model.service.service import Service

LIGHT: Final = "light"
HEAVY: Final = "heavy"
TAKES_S: Final = {LIGHT: 0.010, HEAVY: 0.100}


class Work(msgspec.Struct):
    """Request: the kind of work to do."""

    kind: str


two_kinds = Service("two-kinds")


@two_kinds.stage(replicas=2)
async def work(request: Work) -> str:
    # It blocks its replica, as work on a processor does, and leaves the processors to the other processes.
    time.sleep(TAKES_S[request.kind])  # noqa: ASYNC251
    return request.kind
