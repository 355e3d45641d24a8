"""Process set-up of the command: signal handlers, and closed or broken standard streams."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Final, TextIO

MODES: Final = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)  # of stdin, stdout and stderr


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: cleans up temporary files and child processes, as Ctrl-C does."""


def heed_signals() -> None:
    """Raise SIGINT and SIGTERM as exceptions, unless the parent process set them to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def unheed_signals() -> None:
    """Let SIGINT and SIGTERM end the process silently: used before the work starts and after it ends."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated


def open_standard_files() -> None:
    """Open the null device in place of each closed standard stream.

    Otherwise the next file opened would get its descriptor, and output would be written into that file.
    """
    for number, mode in enumerate(MODES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets this number, the lowest free one: lower ones are open by now
    names = ("stdin", "stdout", "stderr")
    for number, (name, mode) in enumerate(zip(names, MODES, strict=True)):
        if getattr(sys, name) is None:
            how = "r" if mode == os.O_RDONLY else "w"
            setattr(sys, name, open(number, how, encoding="utf-8", closefd=False))  # noqa: SIM115 - a number


def silence(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, because the interpreter flushes it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
