"""Check-up: reads versions, limits, ports, clock, TLS and load of this machine."""

from __future__ import annotations

import os
import platform
import resource
import socket
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from kwiken.apps.doctor.findings import (
    CheckupFinding,
    clock_finding,
    extra_finding,
    files_finding,
    memory_finding,
    port_finding,
    processors_finding,
    quiet_finding,
    tls_finding,
)
from kwiken.base.errors import InputError
from kwiken.base.extras import EXTRAS
from kwiken.base.machine.memory import memory_limit
from kwiken.base.machine.processor_use import use_between
from kwiken.base.machine.reading import processors_given, read_processors
from kwiken.runtime.process.server_process import MAX_FILES
from kwiken.runtime.wire.tls.clients import AUTHORITIES, CERTIFICATE, KEY, ClientTls

LIBRARIES: Final = ("aiohttp", "grpcio", "msgspec", "uvloop")  # of the core, whose versions matter most
TIMER_S: Final = 0.005


def checkup(*, port: int, seconds: float) -> Iterator[CheckupFinding]:
    """Check one thing after the other; the last one takes the time that is given.

    Args:
        port: port of loopback to check.
        seconds: time for which the load of the machine is watched, seconds.
    """
    yield CheckupFinding("versions", "ok", _versions())
    for extra, libraries in EXTRAS.items():
        yield extra_finding(extra, [name for module, name in libraries.items() if find_spec(module) is None])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    yield files_finding(MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES))
    yield processors_finding(processors_given(), os.cpu_count() or 1)
    yield memory_finding(memory_limit())
    yield port_finding(port, _port_problem(port))
    names = {name: os.environ[name] for name in (CERTIFICATE, KEY, AUTHORITIES) if os.environ.get(name)}
    yield tls_finding(names, _tls_problem())
    wall, monotonic, before = time.time(), time.monotonic(), read_processors([os.getpid()])
    late_ms = _timer_delay_ms(seconds)
    after = read_processors([os.getpid()])
    yield clock_finding(time.time(), time.time() - wall, time.monotonic() - monotonic)
    yield quiet_finding(use_between(before, after) if before and after else None, late_ms)


def _versions() -> str:
    found = [f"kwiken {version('kwiken')}", f"Python {platform.python_version()}"]
    found.append(f"{platform.system()} {platform.release()}")
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def _port_problem(port: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return (error.strerror or str(error)).lower()
    return None


def _tls_problem() -> str | None:
    try:
        ClientTls()
    except InputError as error:
        return str(error)
    return None


def _timer_delay_ms(seconds: float) -> float:
    """Delay of a timer at its 99th percentile over some time, milliseconds."""
    delays: list[float] = []
    end = time.monotonic() + seconds
    while not delays or time.monotonic() < end:
        due = time.monotonic() + TIMER_S
        time.sleep(TIMER_S)
        delays.append(time.monotonic() - due)
    return max(0.0, sorted(delays)[int(0.99 * len(delays))]) * 1000
