"""Benchmark of threads for a late call: work in C that releases the interpreter's lock, and Python code.

Only the first is a reason to declare `Stage.threads`. With two cores, two threads can at best halve the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.harness import Row, side_by_side

THREADS = 2
BLOCKS = [bytes([number]) * (1 << 20) for number in range(12)]
TEXT = " ".join(f"word{number % 97} and then some more" for number in range(2000))


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds = 5 if quick else 25
    with ThreadPoolExecutor(THREADS) as pool:
        return [
            row(pool, "12 MiB hashed in C", hashed, rounds=rounds),
            row(pool, "12 texts counted in Python", counted, rounds=rounds),
        ]


def row(pool: ThreadPoolExecutor, name: str, work: Callable[[bytes], object], *, rounds: int) -> Row:
    """One kind of work, with and without threads."""
    return side_by_side(
        f"{name}, {THREADS} threads",
        lambda: spread(pool, work, THREADS),
        ("one thread", lambda: spread(pool, work, 1)),
        rounds=rounds,
        unit="ms",
        scale=1e3,
    )


def spread(pool: ThreadPoolExecutor, work: Callable[[bytes], object], threads: int) -> None:
    """All blocks, dealt to so many threads."""
    parts = [BLOCKS[first::threads] for first in range(threads)]
    for done in [pool.submit(lambda part: [work(block) for block in part], part) for part in parts]:
        done.result()


def hashed(block: bytes) -> str:
    """Native code that runs beside other threads."""
    return hashlib.sha256(block).hexdigest()


def counted(block: bytes) -> int:
    """Plain Python, which runs one thread at a time."""
    seen: dict[str, int] = {}
    for word in TEXT.split():
        seen[word] = seen.get(word, 0) + block[0]
    return len(seen)
