"""Limit of processes: cores, and the speed of a core relative to this machine's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import InputError

MIN_SHARE: Final = 0.01  # processors; the kernel's shortest quota, 1 ms, in a period of 100 ms
MAX_CORES: Final = 4096.0


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of the processes of a node, or of one process and its children.

    A core of half the speed is half of a processor's time. The processor's clock and caches stay what they
    are. Work that is shorter than a few milliseconds may run at full speed, and its process pays for that
    later.

    Attributes:
        cores: number of cores, above 0.
        speed: speed of a core as a share of this machine's, above 0 and at most 1.
        processors: numbers of this machine's processors to run on; None for all.

    Raises:
        InputError: a value is out of range.
    """

    cores: float
    speed: float = 1.0
    processors: frozenset[int] | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range; NaN fails every comparison."""
        if not 0 < self.cores <= MAX_CORES:
            raise InputError(f"cores must be above 0 and at most {MAX_CORES:g}, not {self.cores:g}")
        if not 0 < self.speed <= 1:
            raise InputError(f"speed must be above 0 and at most 1, not {self.speed:g}")
        if self.processors is not None and not self.processors:
            raise InputError("processors must not be empty")

    @property
    def share(self) -> float:
        """Processors' worth of time, `MIN_SHARE` or more."""
        return max(MIN_SHARE, self.cores * self.speed)
