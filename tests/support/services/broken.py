"""Test services whose replicas cannot start."""

from __future__ import annotations

import os

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage


async def work(request: str) -> str:
    """Return the request."""
    return request


def fail() -> None:
    """Setup that raises."""
    raise RuntimeError("no index here")


def leave() -> None:
    """Setup that says why and exits its process."""
    os.write(2, b"no licence here\n")
    os._exit(7)


fails = Service.of("fails", [Stage(name="work", handler=work, setup=fail)])
exits = Service.of("exits", [Stage(name="work", handler=work, setup=leave)])
