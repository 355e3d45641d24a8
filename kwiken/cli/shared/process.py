"""What the command is as a process: its signals, and standard files that are closed or broken."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Final, TextIO

MODES: Final = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)


class Terminated(KeyboardInterrupt):
    """SIGTERM came: end as for Ctrl-C, so that temporary files and child processes go too."""


def heed_signals() -> None:
    """Have SIGINT and SIGTERM raised as exceptions, unless whoever started this has them ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def unheed_signals() -> None:
    """Let the two end the process at once and without a word: nothing has begun yet, or all is done."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated


def open_standard_files() -> None:
    """Put the null device where a standard file is closed.

    The next file opened would get its number otherwise, and what is printed would go there.
    """
    for number, mode in enumerate(MODES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free number is this one: those below are open by now
    names = ("stdin", "stdout", "stderr")
    for number, (name, mode) in enumerate(zip(names, MODES, strict=True)):
        if getattr(sys, name) is None:
            how = "r" if mode == os.O_RDONLY else "w"
            setattr(sys, name, open(number, how, encoding="utf-8", closefd=False))  # noqa: SIM115 - a number


def silence(stream: TextIO) -> None:
    """Turn a broken stream to the null device, or the interpreter fails at its end as it flushes it again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
