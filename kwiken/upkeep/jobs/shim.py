"""Runner of one job: claims it, runs its command and writes the result; run as a program.

    python -I -S shim.py CLAIM RESULT NODE FOLDER [--out FILE] -- COMMAND...

The claim is a hard link, which only one process can make: whoever fails to make it runs nothing. The runner
outlives the program that started it. When that program is killed, the runner and its command leave the
control groups that are removed with the program: they go to the group of FILE. A job ends with its command:
once the result is written, the runner kills its process group, with what the command left running and itself.
The file imports nothing of kwiken, since it runs isolated.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
CLAIMED = 124  # exit code: another process has claimed the job
CANNOT_RUN = 126  # exit codes of commands, as of `env`
NOT_FOUND = 127
ROUNDS = 5  # of moves: a command may start further processes meanwhile


def main(words: list[str]) -> int:
    """Run the job; returns an exit code.

    Args:
        words: arguments, without the program's name.
    """
    end = words.index("--")
    (claim, result, node, folder), options, command = words[:4], words[4:end], words[end + 1 :]
    out = Path(options[1]) if options else None
    signal.signal(signal.SIGUSR1, lambda *_: leave(out) if out is not None else None)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    job = Command(command, folder)
    signal.signal(signal.SIGTERM, lambda *_: job.end())
    if not make_claim(Path(claim), node):
        return CLAIMED
    code = job.run()
    write(Path(result), {"code": code, "ended_at": time.time()})
    if os.getpgrp() == os.getpid():  # a group of its own: what the command left behind ends with the job
        os.killpg(0, signal.SIGKILL)
    return 0


def make_claim(path: Path, node: str) -> bool:
    """Claim the job for this process; returns whether no other process has."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    runner = {"pid": os.getpid(), "started": started()}
    fresh.write_text(
        json.dumps({"runner": runner, "node": node, "started_at": time.time()}), encoding="utf-8"
    )
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def started() -> str:
    """Start time of this process, in the form of `kwiken.runtime.base.process_id`."""
    if sys.platform != "linux":
        found = subprocess.run(  # noqa: S603 - the only variable argument is an int
            ["/bin/ps", "-o", "lstart=,stat=", "-p", str(os.getpid())],
            capture_output=True,
            text=True,
            check=False,
        )
        return " ".join(found.stdout.split()[:-1])
    text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{text[text.rindex(')') + 2 :].split()[19]}"


class Command:
    """Command of the job, which may be told to end at any moment, even before it runs."""

    def __init__(self, words: list[str], folder: str) -> None:
        self._words, self._folder = words, folder
        self._child: subprocess.Popen[bytes] | None = None
        self._told: list[bool] = []  # one for each time

    def end(self) -> None:
        """Tell the command to end; one that does not run yet is told as soon as it does."""
        self._told.append(True)
        if self._child is not None:
            self._child.terminate()

    def run(self) -> int:
        """Run the command to its end; returns its exit code, or the negative number of a signal."""
        if self._told:
            return -signal.SIGTERM
        try:
            self._child = subprocess.Popen(self._words, cwd=self._folder, stdin=subprocess.DEVNULL)  # noqa: S603 - the job itself
        except FileNotFoundError as error:
            sys.stderr.write(f"{error.filename}: no such command or folder\n")
            return NOT_FOUND
        except OSError as error:
            sys.stderr.write(f"{self._words[0]}: cannot be run: {error.strerror}\n")
            return CANNOT_RUN
        if self._told:
            self._child.terminate()
        return self._child.wait()


def write(path: Path, value: dict[str, Any]) -> None:
    """Write a document as a whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    fresh.replace(path)


def leave(out: Path) -> None:
    """Move this process and all below it into another control group."""
    for _ in range(ROUNDS):
        pids = [os.getpid()]
        for pid in pids:
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    pids += map(int, (thread / "children").read_text(encoding="ascii").split())
        for pid in pids:
            with contextlib.suppress(OSError):
                out.write_text(str(pid), encoding="ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
