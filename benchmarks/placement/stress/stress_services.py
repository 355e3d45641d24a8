"""Services of one stage each, whose calls are operations of stress-ng's stressors; for recorded histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.placement.stress.stressor import Stressor
from kwiken.model.service.service import Service


@dataclass(frozen=True)
class StressedResource:
    """One stressor.

    Attributes:
        operations: bogus operations of one call, some milliseconds of work on an ordinary processor.
        options: options of the stressor: those that make all of its operations alike, and short.
    """

    operations: int
    options: tuple[str, ...] = ()


STRESSORS = {
    "cpu": StressedResource(8, ("--cpu-method", "fft")),
    "matrix": StressedResource(2, ("--matrix-method", "prod")),
    "memcpy": StressedResource(10, ("--memcpy-method", "libc")),
    "vecmath": StressedResource(10),
    "qsort": StressedResource(1, ("--qsort-size", "16384")),
    "hash": StressedResource(300, ("--hash-method", "murmur3_32")),
    "branch": StressedResource(300),
    "pipe": StressedResource(1500),
    "stream": StressedResource(1, ("--stream-l3-size", "4M")),
    "memrate": StressedResource(1, ("--memrate-bytes", "4M")),
    "crypt": StressedResource(5),
    "hdd": StressedResource(100, ("--hdd-bytes", "16M")),
    "malloc": StressedResource(100),
    "jpeg": StressedResource(3),
}


def service_of(name: str, operations: int, options: Sequence[str]) -> Service:
    """Service whose only stage runs a stressor.

    Args:
        name: name of the stressor.
        operations: bogus operations of one call.
        options: options of the stressor.
    """
    service = Service(name)

    @cache
    def stressor() -> Stressor:
        return Stressor(name, options, operations)

    @service.stage(setup=stressor)
    async def stress(request: Any) -> int:
        del request
        return await stressor().call()

    return service


for _name, _stressed in STRESSORS.items():
    globals()[_name] = service_of(_name, _stressed.operations, _stressed.options)
