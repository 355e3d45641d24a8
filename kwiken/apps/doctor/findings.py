"""Findings of a check-up: what each figure of the machine means, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, Literal

import msgspec

from kwiken.apps.demo.pace.health import MAX_LAG_MS, MAX_SHARE, MAX_THROTTLED
from kwiken.base.machine.processor_use import ProcessorUse

State = Literal["ok", "note", "fails"]
MIN_FILES, FEW_FILES = 256, 4096  # open files, of which each connection is one
FEW_PROCESSORS: Final = 2.0  # below which a gateway and a load generator wait for each other
MIN_MEMORY, LITTLE_MEMORY = 128 << 20, 1 << 30  # bytes; a replica takes about 25 MiB
OLDEST_NOW_S: Final = 1_704_067_200.0  # 2024, before which no clock that is set can be
MAX_CLOCK_STEP_S: Final = 0.05
MIB: Final = 1 << 20


class CheckupFinding(msgspec.Struct, frozen=True):
    """Result of one check.

    Attributes:
        name: what was checked, in one word or two.
        state: `ok`, `note` for a limit that may matter, or `fails`.
        found: what was found, with its figures.
        cure: what to do; empty where nothing is to be done.
    """

    name: str
    state: State
    found: str
    cure: str = ""


def extra_finding(extra: str, missing: Sequence[str]) -> CheckupFinding:
    """Finding on the libraries of an extra.

    Args:
        missing: common names of the libraries that are not installed.
    """
    if not missing:
        return CheckupFinding(f"extra {extra}", "ok", "installed")
    words = f"lacks {', '.join(missing)}"
    return CheckupFinding(f"extra {extra}", "note", words, f"pip install 'kwiken[{extra}]', if you need it")


def files_finding(limit: float) -> CheckupFinding:
    """Finding on the largest number of open files that a server process can have."""
    found = f"{limit:.0f} open files" if isfinite(limit) else "any number of open files"
    if limit >= FEW_FILES:
        return CheckupFinding("open files", "ok", found)
    state: State = "fails" if limit < MIN_FILES else "note"
    cure = "raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd, or --ulimit of Docker"
    return CheckupFinding("open files", state, f"{found}: one for each connection", cure)


def processors_finding(given: float, processors: int) -> CheckupFinding:
    """Finding on the processors' worth of time that this process may use.

    Args:
        given: that worth, by affinity and quota, number of processors.
        processors: number of processors of the machine.
    """
    found = f"{given:.3g} of {processors} processors"
    if given >= FEW_PROCESSORS:
        return CheckupFinding("processors", "ok", found)
    cure = "raise the quota or the affinity, or expect latencies that wait for a processor"
    return CheckupFinding("processors", "note", found, cure)


def memory_finding(limit: int) -> CheckupFinding:
    """Finding on the memory that this process may use, bytes."""
    found = f"{limit / MIB:.0f} MiB"
    if limit >= LITTLE_MEMORY:
        return CheckupFinding("memory", "ok", found)
    state: State = "fails" if limit < MIN_MEMORY else "note"
    return CheckupFinding("memory", state, found, "raise the limit of the container, or run fewer replicas")


def port_finding(port: int, problem: str | None) -> CheckupFinding:
    """Finding on a port of loopback.

    Args:
        problem: why nothing can listen there; None where it is free.
    """
    if problem is None:
        return CheckupFinding("port", "ok", f"{port} is free")
    return CheckupFinding("port", "note", f"{port}: {problem}", "give kwiken up --port another one; 0 is any")


def clock_finding(now_s: float, wall_s: float, monotonic_s: float) -> CheckupFinding:
    """Finding on the wall clock, by which spans of several machines are joined.

    Args:
        now_s: time of day, seconds since 1970.
        wall_s: seconds that passed by the wall clock during the check-up.
        monotonic_s: seconds that passed by the clock that is never set.
    """
    cure = "set the clock, and keep it by NTP"
    if now_s < OLDEST_NOW_S:
        return CheckupFinding("clock", "fails", "shows a time before 2024", cure)
    step_s = wall_s - monotonic_s
    if abs(step_s) > MAX_CLOCK_STEP_S:
        return CheckupFinding("clock", "fails", f"was set by {step_s:+.2f} s during the check-up", cure)
    return CheckupFinding("clock", "ok", "runs evenly")


def tls_finding(variables: Mapping[str, str], problem: str | None) -> CheckupFinding:
    """Finding on the TLS of clients.

    Args:
        variables: values of the variables that describe it, those that are set.
        problem: why they cannot be used; None where they can.
    """
    if problem is not None:
        cure = "KWIKEN_TLS_CERT and KWIKEN_TLS_KEY name a pair, KWIKEN_TLS_CA the servers' authorities"
        return CheckupFinding("TLS", "fails", problem, cure)
    if not variables:
        return CheckupFinding("TLS", "ok", "no variable is set; the system's authorities count")
    return CheckupFinding("TLS", "ok", f"{', '.join(sorted(variables))} can be used")


def quiet_finding(use: ProcessorUse | None, late_ms: float) -> CheckupFinding:
    """Finding on whether the machine is too busy to measure latencies, by the bounds of `kwiken demo`.

    Args:
        use: use of the processors during the check-up; None where it cannot be read.
        late_ms: delay of a timer at the 99th percentile, milliseconds.
    """
    cure = "measure on a quieter machine, or compare in turns; take no latency of now for the service's"
    words = f"timers are {late_ms:.1f} ms late at p99"
    busy = late_ms > MAX_LAG_MS
    if use is not None:
        words += f", others use {use.taken:.2g} of {use.processors} processors"
        busy |= use.taken > MAX_SHARE * use.processors or use.throttled > MAX_THROTTLED
        words += f", the quota was used up in {use.throttled:.0%} of its periods" if use.throttled else ""
    if busy:
        return CheckupFinding("quiet", "fails", f"too busy to measure: {words}", cure)
    return CheckupFinding("quiet", "ok", words)
