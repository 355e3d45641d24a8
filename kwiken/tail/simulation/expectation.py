"""Expected effect of a plan, with confidence intervals by a bootstrap over blocks of requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.model.latency import PERCENTILES
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Expected, Intervals, Ladder, Plan
from kwiken.model.profile.copy_dependence import at_end, uncertain, unshown_stages
from kwiken.model.profile.profile import Profile
from kwiken.tail.simulation.kept_budgets import kept_to
from kwiken.tail.simulation.trace_driven import REQUESTS, Rows, Simulation, replay

INTERVAL_LEVEL = 0.9
RESAMPLES = 200
BLOCKS = 50  # blocks of time that are resampled whole: slow requests come in bursts


class BlockBootstrap:
    """Resamples of whole blocks of time, since requests close in time are correlated.

    All figures of one bootstrap use the same resamples, so that figures of two plans can be compared.

    Args:
        requests: number of requests in order of time, 1 or more.
    """

    def __init__(self, requests: int, *, seed: int) -> None:
        count = min(BLOCKS, requests)
        rng = np.random.default_rng([seed, requests])
        self._weights = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
        self._block: NDArray[np.int64] = np.arange(requests) * count // requests

    @property
    def counts(self) -> Floats:
        """(resamples, n): number of times that each request, in order of time, is in each resample."""
        return np.asarray(self._weights[:, self._block], dtype=np.float64)

    def means(self, values: Floats) -> Floats:
        """(resamples,): mean of the values in each resample, in their unit.

        Args:
            values: (n,) values of the requests in order of time, in any unit.
        """
        sums, counts = np.bincount(self._block, values), np.bincount(self._block)
        return np.asarray((self._weights @ sums) / (self._weights @ counts))

    def percentiles(self, latency_ms: Floats) -> Floats:
        """(resamples, 5): the percentiles of a ladder in each resample, milliseconds.

        Args:
            latency_ms: (n,) latencies of the requests in order of time, milliseconds.
        """
        order = np.argsort(latency_ms)
        block = self._block[order]
        found = np.empty((len(self._weights), len(PERCENTILES)))
        for i, row in enumerate(self._weights):
            mass = np.cumsum(row[block])
            ranks = np.asarray(PERCENTILES) / 100 * mass[-1]
            found[i] = latency_ms[order[np.minimum(np.searchsorted(mass, ranks), len(order) - 1)]]
        return found


def interval(resampled: Floats) -> tuple[float, float]:
    """Ends of the interval that holds `INTERVAL_LEVEL` of the resamples, in their unit.

    Args:
        resampled: (resamples,) values of one figure, in any unit.
    """
    low, high = np.percentile(resampled, (50 * (1 - INTERVAL_LEVEL), 50 * (1 + INTERVAL_LEVEL))).tolist()
    return low, high


def expected_rows(profile: Profile) -> Rows:
    """(n,): indices of the requests that an expectation replays, in order of time: each equally often."""
    order = np.argsort(profile.started_s, kind="stable")
    return np.repeat(order, max(1, REQUESTS // max(1, profile.requests)))


def expect(
    profile: Profile,
    plan: Plan,
    *,
    ledger: LedgerTerms | None = None,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> tuple[Simulation, Expected]:
    """Replay every request of a profile with and without the plan.

    Args:
        profile: profile that the plan was made from.
        ledger: terms of the ledger that enforces the budgets; None for no ledger. Only for profiles that hold
            every request: with a sample, the copies of a second look fewer than they are.
        copy_correlation: as `simulate` takes it.

    Returns:
        The simulation, and ladders before and after with intervals and the expected spend. The intervals
        resample whole blocks of time (a block bootstrap), since requests close in time are correlated. For
        p99.9 they mean little below some 10,000 requests, since a resample holds no slower request than was
        seen.
    """
    rows = expected_rows(profile)

    def played(known: Profile) -> Simulation:
        again = partial(replay, known, rows=rows, seed=seed, copy_correlation=copy_correlation)
        found = again(plan)
        if ledger is None:
            return found
        return kept_to(found, np.sort(profile.started_s), plan, ledger, again).simulation

    simulation = played(profile)
    unshown = () if copy_correlation is not None else unshown_stages(profile, plan)
    bootstrap = BlockBootstrap(len(rows), seed=seed)
    spends = {
        "reissue": simulation.expected_spent,
        "utility_loss": simulation.lost,
        "catch_up": simulation.late_spent,
    }
    bounds = Intervals(
        before=_bounds(bootstrap, simulation.before_ms),
        after={} if unshown else _bounds_after(bootstrap, profile, plan, simulation, played),
        spent={
            lever: interval(bootstrap.means(spent))
            for lever, spent in spends.items()
            if lever == "reissue" or spent.any()
        },
    )
    return simulation, Expected(
        before=simulation.before,
        after=simulation.after,
        spent=Budgets(**{lever: min(1.0, float(spent.mean())) for lever, spent in spends.items()}),
        interval=INTERVAL_LEVEL,
        bounds=bounds,
        unshown=unshown,
    )


def _bounds_after(
    bootstrap: BlockBootstrap,
    profile: Profile,
    plan: Plan,
    simulation: Simulation,
    played: Callable[[Profile], Simulation],
) -> dict[str, tuple[float, float]]:
    """Bounds of the percentiles with the plan: by the requests drawn, and by what is known of the copies."""
    found = _bounds(bootstrap, simulation.after_ms)
    if not any(uncertain(stage) for stage in profile.stages if stage.name in plan.stages):
        return found
    low = _bounds(bootstrap, played(at_end(profile, "low")).after_ms)
    high = _bounds(bootstrap, played(at_end(profile, "high")).after_ms)
    return {name: (min(low[name][0], at[0]), max(high[name][1], at[1])) for name, at in found.items()}


def _bounds(bootstrap: BlockBootstrap, latency_ms: Floats) -> dict[str, tuple[float, float]]:
    """By field of a ladder: ends of the interval, milliseconds."""
    found = bootstrap.percentiles(latency_ms)
    names = [f.name for f in msgspec.structs.fields(Ladder)]
    return {name: interval(found[:, i]) for i, name in enumerate(names)}
