"""Program that runs the `kwiken` command and records which of its files run: `OUT ARGUMENTS...`.

SIGUSR1 empties the record, SIGUSR2 writes it to OUT, and so does the end of the process. The record holds the
functions of each file that were called, without those that ran while a module was imported.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

import kwiken
from kwiken.cli import main

ROOT: Final = f"{Path(kwiken.__file__).parent}/"
MODULE: Final = "<module>"  # name of the code of a module itself


class Recorder:
    """Functions called since the last reset, by file.

    Args:
        out: file to write the record to.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._called: set[CodeType] = set()

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of `sys.setprofile`."""
        del argument
        code = frame.f_code
        if event != "call" or code in self._called or not code.co_filename.startswith(ROOT):
            return
        if not any(_imports(caller) for caller in _callers(frame)):
            self._called.add(code)

    def reset(self, *_: object) -> None:
        """Forget what was called."""
        self._called.clear()

    def write(self, *_: object) -> None:
        """Write the record: a list of functions by file, as JSON, put in place at once."""
        files: dict[str, list[str]] = {}
        for code in self._called:
            files.setdefault(code.co_filename.removeprefix(ROOT), []).append(code.co_qualname)
        beside = self._out.with_suffix(".part")
        beside.write_bytes(msgspec.json.encode(files))
        beside.replace(self._out)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _imports(frame: FrameType) -> bool:
    return frame.f_code.co_name == MODULE and frame.f_code.co_filename.startswith(ROOT)


if __name__ == "__main__":
    recorder = Recorder(Path(sys.argv[1]))
    signal.signal(signal.SIGUSR1, recorder.reset)
    signal.signal(signal.SIGUSR2, recorder.write)
    atexit.register(recorder.write)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    main(sys.argv[2:])
