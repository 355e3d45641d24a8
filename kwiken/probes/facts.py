"""Facts of this machine that contention kernels are sized by: processors, caches, memory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.allocator.workloads.sources import PRIVATE_SOURCES
from kwiken.base.machine.memory import memory_limit

KIB: Final = 1024
MIB: Final = 1024 * KIB
# Taken where the system does not say: what most servers have, or less.
USUAL_CACHES: Final = {"l1i": 32 * KIB, "l1d": 32 * KIB, "l2": 512 * KIB, "l3": 8 * MIB}
USUAL_TLB_ENTRIES: Final = 2048  # of the second level
PAGE_BYTES: Final = 4096
MIN_STREAM_BYTES: Final = 64 * MIB  # a stream through memory must not fit a cache
CACHES_IN_A_STREAM: Final = 4
DISK_BYTES: Final = 64 * MIB  # of the file that is read in turn
MEMORY_SHARE: Final = 0.5  # of the available memory that is held at full level: nobody must be killed for it
MAX_CACHE_BYTES: Final = 1024 * MIB


@dataclass(frozen=True)
class MachineFacts:
    """Processors, caches and memory, as the system tells them.

    Attributes:
        processors: numbers of the processors that this process may run on, ascending.
        siblings: by processor, others that share its core.
        l1i: size of one processor's first-level instruction cache, bytes.
        l1d: size of one processor's first-level data cache, bytes.
        l2: size of the second-level cache, bytes.
        l3: size of the last-level cache, bytes.
        tlb_entries: pages of 4 KiB that address translation keeps.
        available_bytes: memory that is free or can be freed.
        assumed: names of sizes that the system does not tell, so that usual ones were taken.
    """

    processors: tuple[int, ...]
    siblings: dict[int, tuple[int, ...]]
    l1i: int
    l1d: int
    l2: int
    l3: int
    tlb_entries: int
    available_bytes: int
    assumed: tuple[str, ...]

    def size_bytes(self, source: str, *, memory_gb: float | None = None) -> int:
        """Bytes that a kernel works on at full level.

        Args:
            memory_gb: memory that the kernel of memory capacity may hold; None for half of what is available.
        """
        held = self.available_bytes * MEMORY_SHARE if memory_gb is None else memory_gb * 1e9
        sizes = {
            "l1i": self.l1i,
            "l1d": self.l1d,
            "l2": self.l2,
            "l3-capacity": self.l3,
            "l3-bandwidth": max(self.l3 // 2, 2 * self.l2) // MIB * MIB or MIB,
            "tlb": self.tlb_entries * PAGE_BYTES,
            "memory-capacity": int(min(held, self.available_bytes * 0.9)),
            "memory-bandwidth": max(CACHES_IN_A_STREAM * self.l3, MIN_STREAM_BYTES),
            "disk": DISK_BYTES,
        }
        return sizes.get(source, 0)

    @property
    def victim(self) -> int:
        """Processor on which the workload runs that is measured."""
        return self.processors[0]

    def processor_for(self, source: str) -> int:
        """Processor on which a kernel presses on a workload at `victim`.

        There are three cases: 1. a resource within a core: another thread of the core; 2. the same, on a core
        with one thread: the workload's own processor, in turns; 3. a resource that cores share: another core.
        """
        near = [each for each in self.siblings.get(self.victim, ()) if each in self.processors]
        if source in PRIVATE_SOURCES:
            return near[0] if near else self.victim
        far = [each for each in self.processors if each != self.victim and each not in near]
        return far[0] if far else (near or [self.victim])[0]


def machine_facts(root: Path = Path("/")) -> MachineFacts:
    """Facts of this machine."""
    processors = tuple(sorted(os.sched_getaffinity(0)))
    found = dict(_caches(root, processors[0]))
    tlb = _tlb_entries(root)
    if tlb is not None:
        found["tlb"] = tlb
    assumed = tuple(name for name in (*USUAL_CACHES, "tlb") if name not in found)
    caches = {name: found.get(name, usual) for name, usual in USUAL_CACHES.items()}
    return MachineFacts(
        processors=processors,
        siblings={each: _siblings(root, each) for each in processors},
        tlb_entries=found.get("tlb", USUAL_TLB_ENTRIES),
        available_bytes=_available(root),
        assumed=assumed,
        **caches,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _caches(root: Path, processor: int) -> list[tuple[str, int]]:
    """Name and bytes of each cache that a processor uses."""
    found = []
    for folder in sorted((root / f"sys/devices/system/cpu/cpu{processor}/cache").glob("index*")):
        level, kind = _text(folder / "level"), _text(folder / "type")
        size = re.fullmatch(r"(\d{1,9})([KM]?)", _text(folder / "size"))
        name = {"1Instruction": "l1i", "1Data": "l1d", "2Unified": "l2", "3Unified": "l3"}.get(level + kind)
        if name is not None and size is not None:
            bytes_ = int(size[1]) * {"": 1, "K": KIB, "M": MIB}[size[2]]
            if KIB <= bytes_ <= MAX_CACHE_BYTES:
                found.append((name, bytes_))
    return found


def _tlb_entries(root: Path) -> int | None:
    """Entries of the TLB where the kernel prints them, as it does for AMD's processors."""
    found = re.search(r"^TLB size\s*:\s*(\d{2,6}) 4K pages", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return None if found is None else int(found[1])


def _siblings(root: Path, processor: int) -> tuple[int, ...]:
    listed = _text(root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    found: set[int] = set()
    for part in listed.split(","):
        ends = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if ends is not None:
            found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(sorted(found - {processor}))


def _available(root: Path) -> int:
    found = re.search(r"^MemAvailable:\s*(\d{1,12}) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    limit = memory_limit(root)
    return limit if found is None else min(limit, int(found[1]) * KIB)
