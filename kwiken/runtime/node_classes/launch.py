"""Commands that start by way of the launcher, which puts them under their limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

LAUNCHER: Final = Path(__file__).with_name("launcher.py")


def launched(
    command: Sequence[str], *, joins: Iterable[Path] = (), processors: frozenset[int] | None = None
) -> list[str]:
    """Command that becomes another one under its limits, as a child of this process.

    Args:
        joins: files of the control groups to join.
        processors: numbers of the processors to run on; None for all.
    """
    words = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
    for path in joins:
        words += ["--join", str(path)]
    if processors is not None:
        words += ["--processors", ",".join(map(str, sorted(processors)))]
    return [*words, "--", *command]
