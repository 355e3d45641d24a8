"""Benchmark of the command line's start, beside an interpreter that imports the packages it needs.

There are two cases:

1. Commands that end before they compute: help, a wrong option, an unknown file. Both processes are timed from
   their start to their end; the reference imports click and msgspec.
2. Commands that compute: `simulate`. Both processes are timed from their start until they first read standard
   input; the reference imports NumPy and `scipy.special`.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.harness import Row, paired

KWIKEN = "from kwiken.cli import main; main()"
PACKAGES = "import click, msgspec"
NUMERIC = "import numpy, scipy.special"
MAX_RATIO_TO_END = 1.2  # of our time over the reference's
MAX_RATIO_TO_READ = 1.3
TIMEOUT_S = 60.0
BAD_INPUT = 2
ENDING = (
    ("kwiken --help", ("--help",), 0),
    ("kwiken plan --help", ("plan", "--help"), 0),
    ("kwiken plan, wrong option", ("plan", "--no-such-option"), BAD_INPUT),
    ("kwiken plan, unknown file", ("plan", "no-such-file.json"), BAD_INPUT),
)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds = 3 if quick else 15
    rows = [
        _compared(
            f"{name}, start to end",
            PACKAGES,
            lambda arguments=arguments, code=code: time_to_end(KWIKEN, arguments, code=code),  # type: ignore[misc]
            lambda: time_to_end(PACKAGES),
            rounds=rounds,
            most=MAX_RATIO_TO_END,
        )
        for name, arguments, code in ENDING
    ]
    numeric = f"{NUMERIC}; import sys; sys.stdin.buffer.read(1)"
    rows.append(
        _compared(
            "kwiken simulate, start to first read",
            NUMERIC,
            lambda: time_to_read(KWIKEN, ("simulate", "-"), code=BAD_INPUT),
            lambda: time_to_read(numeric),
            rounds=rounds,
            most=MAX_RATIO_TO_READ,
        )
    )
    return rows


def _compared(
    name: str,
    alternative: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    *,
    rounds: int,
    most: float,
) -> Row:
    """Both times in turn; the first turn, which compiles modules, does not count."""
    pairs = [(ours() * 1e3, theirs() * 1e3) for _ in range(rounds + 1)][1:]
    return paired(name, f"python -c '{alternative}'", pairs, unit="ms", least=1 / most)


def time_to_end(program: str, arguments: Sequence[str] = (), *, code: int = 0) -> float:
    """Seconds from the start of an interpreter until it has ended.

    Args:
        program: source text to run.
        arguments: of the command line.
        code: exit code to expect.

    Raises:
        RuntimeError: another exit code.
    """
    start = time.perf_counter()
    process = _started(program, arguments, subprocess.DEVNULL)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    took = time.perf_counter() - start
    _check(process.returncode, code, errors)
    return took


def time_to_read(program: str, arguments: Sequence[str] = (), *, code: int = 0) -> float:
    """Seconds from the start of an interpreter until it first reads standard input.

    Standard input is a full pipe, which takes more bytes once the process has read some. The pipe holds
    blanks only: a command that expects a document refuses them.

    Args:
        program: source text to run.
        arguments: of the command line.
        code: exit code to expect.

    Raises:
        RuntimeError: the process ended or hung without reading, or ended with another exit code.
    """
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        _fill(writing)
        start = time.perf_counter()
        process = _started(program, arguments, reading)
    finally:
        os.close(reading)
    waiting = select.poll()
    waiting.register(writing, select.POLLOUT)
    events = waiting.poll(TIMEOUT_S * 1e3)
    took = time.perf_counter() - start
    os.close(writing)
    if not events:
        process.kill()
    _, errors = process.communicate(timeout=TIMEOUT_S)
    # A process may read and end before this one is awake; one that ended without reading leaves a full pipe.
    if not events or not events[0][1] & select.POLLOUT:
        raise RuntimeError(f"ended or hung before it read its input: {errors.strip()}")
    _check(process.returncode, code, errors)
    return took


def _started(program: str, arguments: Sequence[str], stdin: int) -> subprocess.Popen[str]:
    """An interpreter that may keep the modules it compiles, whatever this process was told."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _fill(pipe: int) -> None:
    try:
        while True:
            os.write(pipe, b" " * 4096)
    except BlockingIOError:
        return


def _check(found: int, expected: int, errors: str) -> None:
    if found != expected:
        raise RuntimeError(f"exit code {found}, not {expected}: {errors.strip()}")
