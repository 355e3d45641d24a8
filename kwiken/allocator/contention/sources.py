"""Sources of contention: the operations that each kernel counts."""

from __future__ import annotations

from typing import Final

_OPERATIONS: Final = {
    "cpu-int": "rounds of integer operations",
    "cpu-fp": "rounds of floating-point operations",
    "cpu-branch": "rounds of unpredictable branches",
    "l1i": "functions",
    "tlb": "pages",
    "memory-capacity": "bytes held",
    "l3-bandwidth": "bytes",
    "memory-bandwidth": "bytes",
    "disk": "bytes",
    "network": "bytes",
}


def operations_of(source: str) -> str:
    """What the kernel of a source counts."""
    return _OPERATIONS.get(source, "lines")
