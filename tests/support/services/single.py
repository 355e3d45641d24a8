"""A service of one stage that must not run twice: a call that is lost is a request that fails."""

from __future__ import annotations

import asyncio

from kwiken.model.service.service import Service

service = Service("single")


@service.stage()
async def work(text: str) -> str:
    """Wait, as for a disk."""
    await asyncio.sleep(0.02)
    return text.upper()
