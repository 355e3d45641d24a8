"""Services of one trivial stage, with many replicas and few; imports nothing that replicas do not need."""

from __future__ import annotations

from typing import Final

from kwiken.model.service.service import Service

MANY: Final = 50
FEW: Final = 4

many = Service("many")
few = Service("few")


@many.stage(replicas=MANY)
async def echo(value: str) -> str:
    return value


@few.stage(replicas=FEW, name="echo")
async def echo_of_few(value: str) -> str:
    return value
