"""Facts of a machine from made-up files of the system, and where kernels run on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.allocator.workloads.sources import SOURCES
from kwiken.probes.facts import MIB, MachineFacts, machine_facts


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_sizes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 2})
    caches = "sys/devices/system/cpu/cpu2/cache"
    files: dict[str, str] = {}
    for index, (level, kind, size) in enumerate(
        [
            ("1", "Data", "48K"),
            ("1", "Instruction", "32K"),
            ("2", "Unified", "2048K"),
            ("3", "Unified", "30M"),
        ]
    ):
        for name, text in (("level", level), ("type", kind), ("size", size)):
            files[f"{caches}/index{index}/{name}"] = text + "\n"
    files["sys/devices/system/cpu/cpu2/topology/thread_siblings_list"] = "2-3\n"
    files["sys/devices/system/cpu/cpu3/topology/thread_siblings_list"] = "2,3\n"
    files["proc/cpuinfo"] = "vendor_id\t: AuthenticAMD\nTLB size\t: 3072 4K pages\n"
    files["proc/meminfo"] = "MemTotal: 16000 kB\nMemAvailable:    8000 kB\n"
    write(tmp_path, files)
    facts = machine_facts(tmp_path)
    assert (facts.l1d, facts.l1i, facts.l2, facts.l3) == (48 << 10, 32 << 10, 2 << 20, 30 << 20)
    assert (facts.tlb_entries, facts.available_bytes, facts.assumed) == (3072, 8_192_000, ())
    assert facts.siblings == {2: (3,), 3: (2,)}
    assert facts.processors == (2, 3)


def test_what_the_system_does_not_tell_is_assumed_and_named(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/system/cpu/cpu0/cache/index0/size": "rubbish"})
    facts = machine_facts(tmp_path)
    assert facts.assumed == ("l1i", "l1d", "l2", "l3", "tlb")
    assert facts.available_bytes > 0
    assert all(facts.size_bytes(source) >= 0 for source in SOURCES)


def facts_of(processors: tuple[int, ...], siblings: dict[int, tuple[int, ...]]) -> MachineFacts:
    return MachineFacts(processors, siblings, 32 << 10, 32 << 10, 1 << 20, 32 << 20, 2048, 4 << 30, ())


@pytest.mark.parametrize(
    ("facts", "private", "shared"),
    [
        (facts_of((0, 1), {0: (), 1: ()}), 0, 1),  # in turns on one core, and from the other core
        (facts_of((0, 1, 2, 3), {0: (2,), 2: (0,)}), 2, 1),  # the core's other thread
        (facts_of((5,), {5: ()}), 5, 5),  # all there is
        (facts_of((0, 4), {0: (4,), 4: (0,)}), 4, 4),  # one core with two threads
        (facts_of((0, 1), {0: (8,), 1: (9,)}), 0, 1),  # the other thread is not ours to use
    ],
)
def test_kernels_run_where_they_share_the_resource(facts: MachineFacts, private: int, shared: int) -> None:
    assert facts.processor_for("l1d") == facts.processor_for("cpu-int") == private
    assert facts.processor_for("l3-capacity") == facts.processor_for("disk") == shared


def test_sizes_of_kernels_follow_the_machine() -> None:
    facts = facts_of((0, 1), {})
    assert facts.size_bytes("l1d") == 32 << 10
    assert facts.size_bytes("tlb") == 2048 * 4096
    assert facts.size_bytes("memory-bandwidth") == 128 * MIB  # four times the last cache
    assert facts.size_bytes("l3-bandwidth") == 16 * MIB
    assert facts.size_bytes("memory-capacity") == 2 << 30  # half of what is available
    assert facts.size_bytes("memory-capacity", memory_gb=1) == 10**9
    assert facts.size_bytes("memory-capacity", memory_gb=100) == int(0.9 * (4 << 30))  # never all of it
