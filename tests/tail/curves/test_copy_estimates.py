"""Estimated copies from measured work, against simulated queues where the real copies are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.copy_estimates import guess_by_kind, guess_copies
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.curves.copy_correlation import copy_correlation
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.notes import CopiesAsSlow
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
REPLICAS = 3


@dataclass
class Seen:
    """Calls of a stage, and latencies of copies sent to another replica at the same time."""

    started: Floats
    latency: Floats
    work: Floats
    replica: np.ndarray
    copy: Floats


def queued(kind: str, *, calls: int = 12_000, load: float = 0.2, seed: int = 0) -> Seen:
    """Simulated replicas with queues; `kind` sets why calls are late: size, pauses of replicas, or both."""
    rng = np.random.default_rng(seed)
    sized, paused = kind in {"size", "both"}, kind in {"replica", "both"}
    work = rng.lognormal(0, 1, calls) if sized else rng.gamma(50, 1 / 50, calls)
    started = np.cumsum(rng.exponential(work.mean() / REPLICAS / load, calls))
    pauses = [Pauses.drawn(rng, started[-1], each=100.0 if paused else np.inf) for _ in range(REPLICAS)]
    free = np.zeros(REPLICAS)
    ends = np.zeros((calls, 2))
    chosen = np.array([rng.permutation(REPLICAS)[:2] for _ in range(calls)])
    for i, (one, other) in enumerate(chosen.tolist()):
        ends[i] = [pauses[r].end(max(started[i], free[r]), work[i]) for r in (one, other)]
        free[one] = ends[i, 0]
    took = ends - started[:, None] + rng.exponential(0.05, ends.shape)
    return Seen(started, took[:, 0], work, chosen[:, 0], took[:, 1])


@dataclass
class Pauses:
    """Pauses of a replica."""

    starts: Floats
    ends: Floats

    @classmethod
    def drawn(cls, rng: np.random.Generator, until: float, each: float) -> Pauses:
        starts = np.sort(rng.uniform(0, until, int(until / each)))
        return cls(starts, starts + rng.exponential(8, len(starts)))

    def end(self, at: float, work: float) -> float:
        """End of work that begins at a time, with the pauses between."""
        k = int(np.searchsorted(self.starts, at))
        if k and self.ends[k - 1] > at:
            at = float(self.ends[k - 1])
        while k < len(self.starts) and self.starts[k] < at + work:
            work -= max(0.0, float(self.starts[k]) - at)
            at = max(at, float(self.ends[k]))
            k += 1
        return at + work


def guessed(seen: Seen) -> Floats:
    found = guess_copies(seen.latency, seen.work, seen.replica, seen.started)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "load", "low", "high"),
    [("size", 0.01, 0.9, 1), ("size", 0.2, 0.55, 0.8), ("replica", 0.2, 0, 0.1), ("replica", 0.5, 0, 0.1),
     ("both", 0.2, 0.05, 0.3)],
)  # fmt: skip
def test_the_correlation_is_that_of_copies_really_sent(
    kind: str, load: float, low: float, high: float, stage_of: StageOf
) -> None:
    seen = queued(kind, load=load)
    stage = stage_of("a", seen.latency)
    distribution = EmpiricalDistribution.of(seen.latency)
    guesses = guessed(seen)
    late = np.isin(seen.latency, guesses[:, 0])
    pairs = np.column_stack((seen.latency[late], seen.copy[late]))
    true = copy_correlation(replace(stage, guesses_ms=pairs), distribution)  # by the measure of guesses
    found = copy_correlation(replace(stage, guesses_ms=guesses), distribution)
    assert low <= true.rho <= high
    assert found.rho == pytest.approx(true.rho, abs=0.1), "shrunk a little"
    assert found.low - 0.05 <= true.rho <= found.high + 0.05
    assert found.pairs == 0
    assert 10 <= found.guesses <= 1000


def test_the_copy_goes_to_a_replica_of_other_speed() -> None:
    rng = np.random.default_rng(1)
    replica = rng.integers(2, size=4000)
    size = rng.lognormal(0, 0.3, 4000)
    work = size * np.where(replica == 0, 1.0, 4.0)
    found = guess_copies(work + 0.01, work, replica, np.arange(4000.0))
    assert found is not None
    assert np.median(found[:, 1] / found[:, 0]) == pytest.approx(0.25, rel=0.05), (
        "late calls are the slow one's"
    )


def test_pairs_outweigh_guesses_as_they_become_many(stage_of: StageOf) -> None:
    sized, free = queued("size", load=0.01), np.random.default_rng(2).lognormal(0, 1, (5000, 2))
    distribution = EmpiricalDistribution.of(sized.latency)
    found = []
    for pairs in (0, 20, 200, 5000):
        pairs_ms = free[:pairs] if pairs else None
        cut = np.zeros((pairs, 2), np.bool_) if pairs else None
        stage = replace(
            stage_of("a", sized.latency), guesses_ms=guessed(sized), pairs_ms=pairs_ms, pairs_cut=cut
        )
        found.append(copy_correlation(stage, distribution).rho)
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[-1] < 0.1


def test_a_stage_late_by_its_requests_size_gets_no_copies(stage_of: StageOf, profile_of: ProfileOf) -> None:
    sized, paused = queued("size", load=0.01, seed=1), queued("replica", load=0.01, seed=2)
    profile = profile_of(
        replace(stage_of("size", sized.latency), guesses_ms=guessed(sized)),
        replace(stage_of("replica", paused.latency, after=("size",)), guesses_ms=guessed(paused)),
    )
    assert set(stage_curves(profile)) == {"replica"}
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z"))
    assert study.plan.stages["size"].reissue is None
    assert study.plan.stages["replica"].reissue is not None
    assert CopiesAsSlow(("size",)) in study.notes


def test_guesses_are_kept_in_the_profile(stage_of: StageOf, profile_of: ProfileOf) -> None:
    seen = queued("size", calls=500)
    profile = profile_of(replace(stage_of("a", seen.latency), guesses_ms=guessed(seen)))
    again = profile_from_json(profile_to_json(profile))
    assert again.digest == profile.digest
    assert again.digest != profile_of(stage_of("a", seen.latency)).digest
    found = again.stages[0].guesses_ms
    assert found is not None
    np.testing.assert_allclose(found, guessed(seen), atol=0.001)


def test_too_little_is_no_guess() -> None:
    rng = np.random.default_rng(1)
    latency = rng.exponential(1, 300)
    ones = np.zeros(300, np.int64)
    assert guess_copies(latency[:50], latency[:50], ones[:50], ones[:50].astype(float)) is None
    assert guess_copies(latency, np.full(300, np.nan), ones, ones.astype(float)) is None
    assert guess_copies(latency, latency * 0.01, ones, ones.astype(float)) is None, (
        "nearly all of it is waiting"
    )
    assert guess_copies(latency, latency * 0.9, ones, np.arange(300.0)) is not None, "one replica will do"


@given(st.integers(0, 2**32), st.integers(100, 400), st.integers(1, 4))
def test_a_guess_is_the_work_and_a_wait(seed: int, calls: int, replicas: int) -> None:
    rng = np.random.default_rng(seed)
    work, wait = rng.exponential(5, calls), rng.exponential(1, calls)
    replica = rng.integers(replicas, size=calls)
    latency = work + wait
    latency[rng.random(calls) < 0.1] = np.nan
    found = guess_copies(latency, work, replica, rng.permutation(calls).astype(float))
    if found is None:
        assert (~np.isnan(latency)).sum() < 100
        return
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found[:, 0].min() >= np.nanquantile(latency, 0.85)
    assert 10 <= len(found) <= calls // 10 + 1


@pytest.mark.parametrize(
    ("between", "within", "low", "high"), [(1.0, 0.1, 0.85, 1), (0.0, 1.0, 0, 0.1), (1.0, 1.0, 0.3, 0.6)]
)
def test_kinds_of_requests_explain_what_comes_with_the_request(
    between: float, within: float, low: float, high: float, stage_of: StageOf
) -> None:
    """With log-normal sizes, the share of variance between kinds is the correlation of requests of one kind."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(-1, 400, 8000)
    calls = np.exp(between * rng.normal(size=401)[kinds] + within * rng.normal(size=8000))
    found = guess_by_kind(calls[:, None], kinds, rng.permutation(8000).astype(float))
    assert found is not None
    rho = copy_correlation(
        replace(stage_of("a", calls), guesses_ms=found), EmpiricalDistribution.of(calls)
    ).rho
    assert low <= rho <= high


def test_copies_of_the_large_are_large_though_the_large_differ_at_random(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """A tenth of the requests is large; large ones are similar to each other, and their copies are large too."""
    rng = np.random.default_rng(1)
    large = rng.random(4000) < 0.1
    calls = np.where(large, 200.0, 10.0) * rng.lognormal(0, 0.2, 4000)
    stage = replace(
        stage_of("a", calls), guesses_ms=guess_by_kind(calls[:, None], large * 1, np.arange(4000))
    )
    assert copy_correlation(stage, EmpiricalDistribution.of(calls)).rho > 0.9
    profile = profile_of(stage, stage_of("b", rng.lognormal(2, 1, 4000), after=("a",)))
    plan = study_plan(
        profile, PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    ).plan
    assert plan.stages["a"].reissue is None
    assert plan.stages["b"].reissue is not None


def test_kinds_that_explain_nothing_are_left_out() -> None:
    calls, time = np.random.default_rng(1).exponential(1, (500, 2)), np.arange(500.0)
    assert guess_by_kind(calls, np.full(500, -1), time) is None
    assert guess_by_kind(calls, np.arange(500), time) is None, "each is the only one of its kind"
    calls[:, 1] = np.nan
    found = guess_by_kind(calls, np.zeros(500, np.int64), time)
    assert found is not None
    following = dict(zip(calls[:, 0].tolist(), np.roll(calls[:, 0], -1).tolist(), strict=True))
    assert all(following[late] == copy for late, copy in found.tolist())
