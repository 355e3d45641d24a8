"""Test service that reports on the garbage collection of its process."""

from __future__ import annotations

import gc

from kwiken.model.service.service import Service

service = Service("steady")


@service.stage()
async def only(request: str) -> list[int]:
    """Numbers of objects that full collections skip, and that they scan."""
    del request
    return [gc.get_freeze_count(), len(gc.get_objects())]
