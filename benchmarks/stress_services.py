"""Services of one stage each, whose calls are short runs of stress-ng's stressors; for recorded histories."""

from __future__ import annotations

import asyncio
from typing import Any

from kwiken.service import Service

CALL_S = 60.0
# By stressor: bogus operations of one call, some tens of milliseconds of work on an ordinary processor.
OPERATIONS = {
    "cpu": 40,
    "matrix": 300,
    "memcpy": 8,
    "vecmath": 100,
    "qsort": 1,
    "bsearch": 20,
    "hash": 2500,
    "branch": 4000,
    "stream": 1,
    "pipe": 60_000,
    "sock": 30,
    "hdd": 60,
    "zlib": 2,
    "memrate": 1,
}


class StressError(Exception):
    """A run of stress-ng failed."""


def service_of(stressor: str, operations: int) -> Service:
    """Service whose only stage runs a stressor.

    Args:
        stressor: name of the stressor.
        operations: bogus operations of one call.
    """
    service = Service(stressor)

    async def stress(request: Any) -> int:
        del request
        process = await asyncio.create_subprocess_exec(
            *("stress-ng", f"--{stressor}", "1", f"--{stressor}-ops", str(operations), "--quiet"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(CALL_S):
                code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code != 0:
            raise StressError(f"stress-ng --{stressor} ended with exit code {code}")
        return operations

    service.stage(name="stress")(stress)
    return service


for _name, _operations in OPERATIONS.items():
    globals()[_name] = service_of(_name, _operations)
