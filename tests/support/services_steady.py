"""A service that tells how its process' garbage is collected."""

from __future__ import annotations

import gc

from kwiken.service import Service

service = Service("steady")


@service.stage()
async def only(request: str) -> list[int]:
    """Objects that no full collection looks through, and those that it does."""
    del request
    return [gc.get_freeze_count(), len(gc.get_objects())]
