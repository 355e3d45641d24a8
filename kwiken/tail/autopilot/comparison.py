"""Comparison of two arms of a trial by their slowest requests, with a bound on the chance of error.

Every request draws its arm at random. If the plan changed nothing, the slow requests would be divided
between the arms by chance alone, whatever made them slow and however many were slow at the same moments. So
the number of a plan's requests beyond the p99 of both arms together is hypergeometric (Fisher's exact test):
no distribution of latencies is assumed. A trial is looked at a fixed number of times, at counts that are
stated before it, and each look has its part of the chance of error (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite, log
from statistics import NormalDist
from typing import Final

from scipy.stats import hypergeom

from kwiken.tail.autopilot.arms import P99, ArmCounts

BETTER: Final = "better"
WORSE: Final = "worse"
OPEN: Final = "open"
ERROR: Final = 0.05  # chance of a wrong verdict in a whole trial, for each of the two
POWER: Final = 0.8  # chance of the right verdict within the requests that are stated
LOOKS: Final = 8  # at a plan with one share of the requests
MAX_LOOKS: Final = 2 * LOOKS + 2  # at one trial: with both shares, before the second one, and at its limit
ERROR_OF_LOOK: Final = ERROR / MAX_LOOKS
TOLD_CHANGE: Final = 0.10  # of p99, for which requests are counted
MIN_STEP: Final = 0.02  # of the share beyond p99, below which a change of p99 hardly shows
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, kw_only=True)
class ArmComparison:
    """Two arms beside one another.

    Attributes:
        verdict: `better` or `worse` where the tried arm is so by more than chance, else `open`.
        tried_p99_ms: 99th percentile of the tried arm, milliseconds; infinite where 1% failed.
        other_p99_ms: 99th percentile of the other arm, milliseconds; likewise.
        tried_beyond: share of the tried arm's requests beyond the p99 of both arms together.
        other_beyond: share of the other arm's requests beyond it.
    """

    verdict: str
    tried_p99_ms: float
    other_p99_ms: float
    tried_requests: int
    other_requests: int
    tried_beyond: float
    other_beyond: float

    @property
    def cut(self) -> float:
        """Share by which the tried arm's p99 is below the other's; below 0 where it is above."""
        if not isfinite(self.tried_p99_ms):
            return -inf if isfinite(self.other_p99_ms) else 0.0
        return 1.0 - self.tried_p99_ms / self.other_p99_ms if self.other_p99_ms > 0 else 0.0


def compare(tried: ArmCounts, other: ArmCounts, *, error: float = ERROR_OF_LOOK) -> ArmComparison:
    """Compare a tried plan with what it is to replace.

    Args:
        tried: requests with the tried plan.
        other: requests at the same time without it.
        error: chance of a wrong verdict of this look, for each of the two, a share from 0 to 1.
    """
    both = tried.plus(other)
    bucket = _edge(both)
    beyond, total = both.beyond(bucket), both.requests
    slow, count = tried.beyond(bucket), tried.requests
    verdict = OPEN
    if count and other.requests:
        drawn = hypergeom(total, beyond, count)
        if float(drawn.cdf(slow)) <= error:
            verdict = BETTER
        elif float(drawn.sf(slow - 1)) <= error:
            verdict = WORSE
    return ArmComparison(
        verdict=verdict,
        tried_p99_ms=tried.quantile_ms(P99),
        other_p99_ms=other.quantile_ms(P99),
        tried_requests=count,
        other_requests=other.requests,
        tried_beyond=slow / count if count else 0.0,
        other_beyond=(beyond - slow) / other.requests if other.requests else 0.0,
    )


def _edge(both: ArmCounts) -> int:
    """Bucket beyond which a share nearest to 1% of the requests lies."""
    wanted = (1.0 - P99) * both.requests
    best, distance = 0, inf
    beyond = both.failed
    for cell in sorted(both.cells, reverse=True):
        here = abs(log((beyond + 0.5) / (wanted + 0.5)))
        if here <= distance:
            best, distance = cell, here
        if beyond > wanted:
            break
        beyond += both.cells[cell]
    return best


def look_points(limit: int) -> tuple[int, ...]:
    """Numbers of requests at which a trial is looked at: each twice the one before, the last one its limit.

    Args:
        limit: number of requests of the whole trial, 1 or more.
    """
    return tuple(dict.fromkeys(max(1, ceil(limit / 2**k)) for k in reversed(range(LOOKS))))


def requests_to_tell(reference: ArmCounts, *, share: float, change: float = TOLD_CHANGE) -> float:
    """Number of requests, of both arms, after which a change of p99 is told from chance.

    A p99 that is longer by a share puts as many more requests beyond the old p99 as now lie beyond what is
    shorter by that share. The number follows from the normal approximation of the difference of two shares;
    `compare` is exact. Requests that are slow together change nothing in the errors, but rather more of them
    are needed then.

    Args:
        reference: requests whose p99 changes, at least some hundred.
        share: share of the requests that get the tried plan, above 0 and below 1.
        change: share by which p99 is longer, above 0.

    Returns:
        The number; infinite without any answered request.
    """
    p99_ms = reference.quantile_ms(P99)
    if not 0 < p99_ms < inf:
        return inf
    usual = max(reference.share_beyond(p99_ms), 1.0 / max(1, reference.requests))
    more = reference.share_beyond(p99_ms / (1.0 + change))
    return _to_tell_shares(usual, max(more, (1.0 + MIN_STEP) * usual), share)


def requests_to_take_back(*, share: float) -> float:
    """Number of requests, of both arms, after which a plan with twice the requests beyond p99 is told.

    Args:
        share: share of the requests that get the plan, above 0 and below 1.
    """
    return _to_tell_shares(1.0 - P99, 2 * (1.0 - P99), share)


def _to_tell_shares(usual: float, more: float, share: float) -> float:
    reach = _NORMAL.inv_cdf(1.0 - ERROR_OF_LOOK) + _NORMAL.inv_cdf(POWER)
    spread = usual * (1 - usual) / (1.0 - share) + more * (1 - more) / share
    return reach**2 * spread / (more - usual) ** 2
