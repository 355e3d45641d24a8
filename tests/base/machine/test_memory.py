"""Memory limit of this process, of hand-made control groups of either version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwiken.base.machine.memory import memory_limit

MIB = 1 << 20


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("", {}, None),
        ("0::/\n", {"memory.max": "104857600\n"}, 100 * MIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/a/b\n", {"a/memory.max": "73400320", "a/b/memory.max": "max"}, 70 * MIB),
        ("0::/a/b\n", {"a/memory.max": "73400320", "a/b/memory.max": "52428800"}, 50 * MIB),
        (
            "4:memory:/docker/x\n3:cpu:/\n",
            {
                "memory/docker/x/memory.limit_in_bytes": "83886080",
                "memory/memory.limit_in_bytes": str(1 << 62),
            },
            80 * MIB,
        ),
        ("4:memory:/docker/x\n", {"memory/memory.limit_in_bytes": "83886080"}, 80 * MIB),
        ("garbage\n", {"memory.max": "\u0661"}, None),
    ],
)
def test_the_smallest_limit_of_memory_counts(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_limit(tmp_path) == (limit or physical)
