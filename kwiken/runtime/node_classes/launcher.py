"""Launcher: joins control groups, ties itself to its parent, and becomes a command; run as a program.

    python -I -S launcher.py PARENT [--join FILE]... [--processors 0,1] -- COMMAND...

The command is under the limit from its first instruction, and so are its children. It keeps its pid. On
Linux the kernel kills it when its parent ends. The file imports nothing of kwiken, since it runs isolated.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
CANNOT_JOIN = 125  # exit codes, as of `env` and `timeout`
CANNOT_RUN = 126
NOT_FOUND = 127


def main(words: list[str]) -> int:
    """Become the command; returns an exit code if that fails.

    Args:
        words: arguments, without the program's name.
    """
    parent = int(words[0])
    end = words.index("--")
    options, command = words[1:end], words[end + 1 :]
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            return CANNOT_JOIN
    try:
        for option, value in zip(options[::2], options[1::2], strict=True):
            if option == "--join":
                Path(value).write_text("0", encoding="ascii")  # 0 is the process that writes
            elif option == "--processors":
                os.sched_setaffinity(0, {int(number) for number in value.split(",")})
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be limited: {error}\n")
        return CANNOT_JOIN
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        sys.stderr.write(f"{command[0]}: no such command\n")
        return NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"{command[0]}: cannot be run: {error.strerror}\n")
        return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
