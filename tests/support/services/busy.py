"""Service of one stage that takes processor time, whatever the clock says."""

from __future__ import annotations

import time

import msgspec

from kwiken.model.service.service import Service


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """Request: `busy_ms` of processor time."""

    busy_ms: float = 4.0


service = Service("busy")


@service.stage(timeout_ms=20_000)
async def work(ask: Ask) -> float:
    """Use processor time."""
    end = time.process_time() + ask.busy_ms / 1e3
    while time.process_time() < end:
        pass
    return ask.busy_ms
