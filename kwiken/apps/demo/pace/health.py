"""Verdict on a stretch of a run: overload and lost processors, told from figures. Pure.

A stretch is judged by what the machine did and by signs of an overload, never by its latencies: leaving out
slow blocks would decide the result. Latency is looked at once, at the end, for all arms alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwiken.base.machine.processor_use import ProcessorUse

if TYPE_CHECKING:
    from kwiken.apps.demo.pace.rate_search import Pace

MAX_SHARE = 0.6  # use of what the program could have, from which on its own queues make the tail
MAX_WAITING = 6.0  # multiple of the running time for which processes may queue for processors
MAX_THROTTLED = 0.3  # share of the quota's periods in which the program may have to wait
MAX_LAG_MS = 50.0  # the client's own delay at its 99th percentile: half of a pause's median
MAX_LINE_MS = 100.0  # the wait for the gateway's event loop
MAX_BACKLOG_S = 1.0  # requests without an answer, in seconds of arrivals: pauses end after half of one
MIN_BACKLOG = 10  # requests that are never a backlog
MAX_UNREST = 0.7  # of p99, that requests without a pause may have: else no plan could cut it by a third
MIN_REQUESTS_FOR_UNREST = 200  # of fewer, two or three make the p99, and may have met no pause by chance
TAKEN_AWAY = 0.2  # processors more than at the start, from which on others count as the reason
MAX_P99_MS = 1000.0  # pauses end after 500 ms: a p99 of a second has another reason


@dataclass(frozen=True, kw_only=True)
class HealthWindow:
    """Figures of a stretch of the run.

    Attributes:
        rate: requests a second that were intended.
        failed: number of requests that failed or were dropped in it.
        backlog: number of requests at the gateway at its end; None if the gateway did not say.
        lag_ms: delay of the client at the 99th percentile; 0 without a request.
        line_ms: wait for the gateway's event loop at its end.
        use: use of the processors; None where it cannot be read.
    """

    rate: float
    answered: int
    failed: int
    backlog: int | None
    lag_ms: float
    line_ms: float
    use: ProcessorUse | None


@dataclass(frozen=True)
class Finding:
    """Fault of a stretch of a run.

    Attributes:
        words: the reason with its figures, as part of a sentence.
        severe: whether requests were lost or piled up, which a rate that fits does not do.
    """

    words: str
    severe: bool = False


def assess(window: HealthWindow, pace: Pace) -> Finding | None:
    """Judge a stretch of the run; None if nothing is wrong with it.

    There are seven cases, in this order: 1. failures, 2. a backlog, 3. a quota that is used up, 4. too large
    a share of the processors, 5. processes that queue for processors, 6. a late client, 7. a late gateway.
    The first two are severe. In cases 4 to 7 others are named as the reason if they use more than they did at
    the start.

    Args:
        pace: what the machine was measured to do at the start.
    """
    return next(_findings(window, pace), None)


def _findings(window: HealthWindow, pace: Pace) -> Iterator[Finding]:
    """Everything that is wrong with a stretch, in the order of the cases."""
    if window.failed:
        yield Finding(f"{window.failed} requests failed", severe=True)
    if window.backlog is None:
        yield Finding("the gateway did not answer for seconds", severe=True)
    elif window.backlog > max(MIN_BACKLOG, MAX_BACKLOG_S * window.rate):
        words = f"{window.backlog} requests waited at the gateway for an answer"
        yield Finding(words, severe=True)
    use = window.use
    if use is not None:
        if use.throttled > MAX_THROTTLED:
            words = f"the quota was used up in {use.throttled:.0%} of its periods"
            yield Finding(words)
        if use.share > MAX_SHARE:
            words = f"{use.share:.0%} of the {use.given:.2g} processors that it could have were used"
            yield _blamed(words, use, pace)
        if use.waiting is not None and use.waiting > MAX_WAITING:
            words = f"processes queued for a processor {use.waiting:.1f} times as long as they ran"
            yield _blamed(words, use, pace)
    if window.lag_ms > MAX_LAG_MS:
        yield _blamed(f"the load generator was itself {window.lag_ms:.0f} ms late", use, pace)
    if window.line_ms > MAX_LINE_MS:
        yield _blamed(f"the gateway's event loop was {window.line_ms:.0f} ms behind", use, pace)


def _blamed(words: str, use: ProcessorUse | None, pace: Pace) -> Finding:
    """Finding that is blamed on others if they use more than they did at the start."""
    if use is None or not use.taken > pace.taken + TAKEN_AWAY:
        return Finding(words)
    return Finding(f"others took {use.taken:.2g} of {use.processors} processors, and {words}")


def check_outcome(p99_ms: Mapping[str, float], *, due: int, failed: int, dropped: int) -> str | None:
    """Reason why the measured requests as a whole give no verdict; None if they do.

    Args:
        p99_ms: p99 by arm, in milliseconds.
        due: number of requests that were due in the blocks.
        dropped: number of them that the client could not send.
    """
    if failed or dropped:
        return f"{failed + dropped} of {due} requests failed"
    arm, worst = max(p99_ms.items(), key=lambda pair: pair[1])
    if worst > MAX_P99_MS:
        return f"p99 was {worst / 1000:.1f} s ({arm}), and no pause lasts half as long"
    return None


def check_unrest(p99_ms: float, undisturbed_ms: float, *, requests: int) -> str | None:
    """Reason why the pauses cannot be told from the machine's own unrest; None if they can.

    Args:
        p99_ms: p99 without a plan, in milliseconds.
        undisturbed_ms: p99 of those requests among them that met no pause, in milliseconds.
        requests: number of requests without a plan; a p99 of few requests says nothing of unrest.
    """
    if requests < MIN_REQUESTS_FOR_UNREST or undisturbed_ms <= MAX_UNREST * p99_ms:
        return None
    return (
        f"the machine itself made the tail: without a plan p99 was {p99_ms:.0f} ms, and "
        f"{undisturbed_ms:.0f} ms for the requests that met no pause"
    )
