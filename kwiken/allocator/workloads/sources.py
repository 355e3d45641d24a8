"""Sources of contention: shared resources of a node for which workloads compete."""

from __future__ import annotations

from typing import Final

# Paragon's ten (section 3.3), and three kinds of work of the processor. Paragon leaves the processor out,
# because there every application has cores of its own. Here replicas share processors by quota, and the
# processor is the first resource that they contend for. Probes, profiles and placement use this list.
SOURCES: Final[tuple[str, ...]] = (
    "cpu-int",
    "cpu-fp",
    "cpu-branch",
    "l1i",
    "l1d",
    "l2",
    "l3-capacity",
    "l3-bandwidth",
    "tlb",
    "memory-capacity",
    "memory-bandwidth",
    "disk",
    "network",
)
# Resources of one core: only what runs on the same core feels them.
PRIVATE_SOURCES: Final = frozenset({"cpu-int", "cpu-fp", "cpu-branch", "l1i", "l1d", "l2", "tlb"})
