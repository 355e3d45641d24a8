"""Services whose stages fail in the ways that a probe must tell apart."""

from __future__ import annotations

import itertools
import os

from kwiken.model.service.service import Service

failing = Service("failing")
tired = Service("tired")
unready = Service("unready")
_calls = itertools.count()


@failing.stage()
async def raises(request: int) -> int:
    """Fail with every request."""
    raise RuntimeError(f"{request} is out of order")


@tired.stage()
async def tires(request: int) -> int:
    """Fail after some calls, long after the requests were recorded."""
    if next(_calls) > 50:
        raise RuntimeError("that is enough")
    return request


def _connect() -> None:
    raise ConnectionError("no database")


@unready.stage(setup=_connect)
async def starts(request: int) -> int:
    """Need a database."""
    return request


crashing = Service("crashing")


@crashing.stage()
async def crashes(request: int) -> int:
    """End the process."""
    os._exit(request)
