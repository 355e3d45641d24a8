"""Expected effect of a plan, with confidence intervals by a bootstrap over blocks of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Bools, Floats
from kwiken.latency import PERCENTILES
from kwiken.plan import Budgets, Expected, Intervals, Ladder, LedgerTerms, Plan
from kwiken.profile import Profile
from kwiken.simulation.ledger_replay import replay_ledger
from kwiken.simulation.trace_driven import REQUESTS, Simulation, replay

Again = Callable[[Plan], Simulation]
INTERVAL_LEVEL = 0.9
BOOTSTRAP_RESAMPLES = 200
BOOTSTRAP_BLOCKS = 50  # blocks of time that are resampled whole: slow requests come in bursts


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
        plan: plan to replay.
        ledger: terms of the ledger that enforces the budgets; None for no ledger. Only for profiles that hold
            every request: with a sample, the copies of a second look fewer than they are.
        seed: seed of the draws.
        copy_correlation: as `simulate` takes it.

    Returns:
        The simulation, and ladders before and after with intervals and the expected spend. The intervals
        resample whole blocks of time (a block bootstrap), since requests close in time are correlated. For
        p99.9 they mean little below some 10,000 requests, since a resample holds no slower request than was
        seen.
    """
    order = np.argsort(profile.started_s, kind="stable")
    times = max(1, REQUESTS // max(1, profile.requests))
    rows = np.repeat(order, times)
    simulation = replay(profile, plan, rows, seed=seed, copy_correlation=copy_correlation)
    if ledger is not None:
        again = partial(replay, profile, rows=rows, seed=seed, copy_correlation=copy_correlation)
        simulation = _paid_for(simulation, profile.started_s[order], plan, ledger, again)
    weights = _block_weights(len(rows), np.random.default_rng([seed, len(rows)]))
    low, high = 50 * (1 - INTERVAL_LEVEL), 50 * (1 + INTERVAL_LEVEL)
    spends = {
        "reissue": simulation.expected_spent,
        "utility_loss": simulation.lost,
        "catch_up": simulation.late_spent,
    }
    means = {lever: _block_means(spent, weights) for lever, spent in spends.items()}
    bounds = Intervals(
        before=_bounds(simulation.before_ms, weights),
        after=_bounds(simulation.after_ms, weights),
        spent={
            lever: (float(np.percentile(mean, low)), float(np.percentile(mean, high)))
            for lever, mean in means.items()
            if lever == "reissue" or mean.any()
        },
    )
    return simulation, Expected(
        before=simulation.before,
        after=simulation.after,
        spent=Budgets(**{lever: min(1.0, float(spent.mean())) for lever, spent in spends.items()}),
        interval=INTERVAL_LEVEL,
        bounds=bounds,
    )


def _paid_for(
    simulation: Simulation, started_s: Floats, plan: Plan, ledger: LedgerTerms, again: Again
) -> Simulation:
    """Result for the same requests when ledgers refuse what the budgets do not pay for.

    Each round of the replay, which runs through all requests once, has ledgers of its own. A request whose
    copies, or whose catch-up, the ledger refuses has the result of a plan without them; its stop rules stay.
    The spend of each stage, and the expectation over coins, are reduced by the same share, since a refusal
    does not depend on the stage.

    Args:
        simulation: result without any ledger.
        started_s: (n,) start times of the profile's requests, seconds, ascending.
        plan: plan with the budgets.
        ledger: terms of the ledgers.
        again: function that replays the same requests under another plan.
    """
    copies = _paid(simulation.spent, started_s, plan.budgets.reissue, ledger)
    help_ = _paid(simulation.late_spent, started_s, plan.budgets.catch_up, ledger)
    if copies.all() and help_.all():
        return simulation
    found = {name: getattr(simulation, name).copy() for name in ("after_ms", "spent", "lost", "late_spent")}
    for with_copies, with_help in ((False, True), (True, False), (False, False)):
        those = (copies == with_copies) & (help_ == with_help)
        if those.any():
            arm = again(_without(plan, copies=not with_copies, help_=not with_help))
            for name, values in found.items():
                values[those] = getattr(arm, name)[those]
    share, late_share, lost_share = (
        float(found[name].sum() / getattr(simulation, name).sum()) if getattr(simulation, name).any() else 1.0
        for name in ("spent", "late_spent", "lost")
    )
    return replace(
        simulation,
        **found,
        expected_spent=share * simulation.expected_spent,
        stage_spent={name: share * value for name, value in simulation.stage_spent.items()},
        stage_fraction={name: share * value for name, value in simulation.stage_fraction.items()},
        stage_loss={name: lost_share * value for name, value in simulation.stage_loss.items()},
        stage_late={name: late_share * value for name, value in simulation.stage_late.items()},
        refused=1.0 - share,
        late_refused=1.0 - late_share,
    )


def _paid(spent: Floats, started_s: Floats, budget: float, terms: LedgerTerms) -> Bools:
    """Which requests' spends a ledger pays, each round of them with its own."""
    rounds = spent.reshape(len(started_s), -1)
    kept = [
        replay_ledger(np.ascontiguousarray(one), started_s, budget=budget, terms=terms).granted
        for one in rounds.T
    ]
    return np.stack(kept, axis=1).ravel()


def _without(plan: Plan, *, copies: bool, help_: bool) -> Plan:
    """The plan less its reissues, or less its help for late requests, or less both."""
    stages = {
        name: msgspec.structs.replace(
            stage,
            reissue=None if copies else stage.reissue,
            catch_up=None if help_ else stage.catch_up,
        )
        for name, stage in plan.stages.items()
    }
    return msgspec.structs.replace(plan, stages=stages)


def _blocks(requests: int) -> NDArray[np.int64]:
    """(n,): number of the bootstrap block of each request."""
    return np.arange(requests) * min(BOOTSTRAP_BLOCKS, requests) // max(1, requests)


def _block_weights(requests: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(resamples, blocks): number of times that each resample holds each block."""
    count = min(BOOTSTRAP_BLOCKS, requests)
    return rng.multinomial(count, np.full(count, 1 / count), size=BOOTSTRAP_RESAMPLES)


def _block_means(values: Floats, weights: NDArray[np.int64]) -> Floats:
    """(resamples,): mean of the values in each resample."""
    block = _blocks(len(values))
    sums, counts = np.bincount(block, values), np.bincount(block)
    return np.asarray((weights @ sums) / (weights @ counts))


def _bounds(latency_ms: Floats, weights: NDArray[np.int64]) -> dict[str, tuple[float, float]]:
    """By field of a ladder: ends of the interval, milliseconds."""
    order = np.argsort(latency_ms)
    block = _blocks(len(latency_ms))[order]
    found = np.empty((len(weights), len(PERCENTILES)))
    for i, row in enumerate(weights):
        mass = np.cumsum(row[block])
        ranks = np.asarray(PERCENTILES) / 100 * mass[-1]
        found[i] = latency_ms[order[np.minimum(np.searchsorted(mass, ranks), len(order) - 1)]]
    ends = np.percentile(found, (50 * (1 - INTERVAL_LEVEL), 50 * (1 + INTERVAL_LEVEL)), axis=0)
    names = [f.name for f in msgspec.structs.fields(Ladder)]
    return {name: (float(a), float(b)) for name, a, b in zip(names, *ends.tolist(), strict=True)}
