"""Trace-driven simulation of many requests at once (Kwiken section 5.4), with and without a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kwiken._dag import start_times
from kwiken._errors import InputError
from kwiken._plan import Ladder, Plan
from kwiken._pool import Pool, complete_calls, pool
from kwiken._profile import Floats, Profile, StageProfile
from kwiken._stage import Reissue

Rows = NDArray[np.int64]
REQUESTS = 20_000
MOST_CELLS = 1 << 21  # calls of one stage that are held at once
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def ladder(latency_ms: Floats) -> Ladder:
    """Percentiles of latencies, milliseconds.

    Raises:
        InputError: when there are none.
    """
    if not len(latency_ms):
        raise InputError("there are no requests")
    p50, p90, p95, p99, p999 = np.percentile(latency_ms, PERCENTILES).tolist()
    return Ladder(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, p999_ms=p999)


@dataclass(frozen=True)
class Simulation:
    """What became of simulated requests.

    Attributes:
        before_ms: (n,): latency of each request without the plan.
        after_ms: (n,): of the same request with it: same stages' latencies, copies beside them.
        spent: (n,): what the copies of each request cost, as a share of an average request's cost.
        stage_spent: by stage: mean over requests of what its copies cost.
        stage_fraction: by stage: share of its calls that got a copy.
        censored: calls of the profile whose true latency had to be estimated.
    """

    before_ms: Floats
    after_ms: Floats
    spent: Floats
    stage_spent: Mapping[str, float] = field(default_factory=dict)
    stage_fraction: Mapping[str, float] = field(default_factory=dict)
    censored: int = 0

    @property
    def before(self) -> Ladder:
        """Percentiles without the plan."""
        return ladder(self.before_ms)

    @property
    def after(self) -> Ladder:
        """Percentiles with it."""
        return ladder(self.after_ms)

    @property
    def reissue(self) -> float:
        """Extra cost of all copies, as a share of the cost of all requests."""
        return float(self.spent.mean()) if len(self.spent) else 0.0


def simulate(
    profile: Profile,
    plan: Plan | None = None,
    *,
    requests: int = REQUESTS,
    seed: int = 0,
    independent: bool = False,
) -> Simulation:
    """Simulate requests through the profile's DAG.

    A request takes the latencies of one recorded request in all stages, drawn with replacement, so whatever
    makes stages slow together stays. Copies are drawn independently from the stage's own calls; every
    call races its own, and both arms see the same primaries. No queueing: a copy does not slow others.

    Args:
        profile: what was learned.
        plan: reissue policies and costs; None for none.
        requests: number of requests to draw.
        seed: of all draws.
        independent: draw every stage on its own, as the source does.

    Raises:
        InputError: for an empty profile, fewer than one request, or a plan for a stage that it lacks.
    """
    if requests < 1:
        raise InputError(f"requests must be 1 or more, not {requests}")
    if not profile.requests:
        raise InputError("the profile has no requests")
    rng = np.random.default_rng(seed)

    def rows() -> Rows:
        return (
            np.sort(rng.integers(profile.requests, size=requests))
            if not independent
            else rng.integers(profile.requests, size=requests)
        )

    fixed = None if independent else rows()
    return replay(profile, plan, [rows() if fixed is None else fixed for _ in profile.stages], seed=seed)


def replay(profile: Profile, plan: Plan | None, rows: list[Rows], *, seed: int = 0) -> Simulation:
    """Replay chosen rows of a profile.

    Args:
        profile: what was learned.
        plan: reissue policies and costs; None for none.
        rows: by stage: (n,) which recorded requests' latencies it takes.
        seed: of the copies' draws; each stage has its own stream, so plans differ only where policies do.

    Raises:
        InputError: for a plan for a stage that the profile lacks.
    """
    policies = _policies(profile, plan)
    arms = _Arms(profile, plan, len(rows[0]) if rows else 0)
    for i, stage in enumerate(profile.stages):
        arms.run(stage, rows[i], policies.get(stage.name), np.random.default_rng([seed, i]))
    return arms.result()


def _policies(profile: Profile, plan: Plan | None) -> dict[str, Reissue]:
    if plan is None:
        return {}
    known = {stage.name for stage in profile.stages}
    for name in plan.stages:
        if name not in known:
            names = ", ".join(sorted(known)[:8])
            raise InputError(f"the plan's stage {name!r} is not in the profile; it has: {names}")
    return {name: stage.reissue for name, stage in plan.stages.items() if stage.reissue is not None}


class _Arms:
    """Both arms of a replay, stage by stage, parents first."""

    def __init__(self, profile: Profile, plan: Plan | None, requests: int) -> None:
        self._stages = profile.stages
        self._shares = plan.cost.stages if plan is not None else {}
        self._before: dict[str, Floats] = {}
        self._after: dict[str, Floats] = {}
        self._spent = np.zeros(requests)
        self._stage_spent: dict[str, float] = {}
        self._fractions: dict[str, float] = {}
        self._censored = 0

    def run(self, stage: StageProfile, rows: Rows, policy: Reissue | None, rng: np.random.Generator) -> None:
        self._censored += int(stage.censored.sum())
        law = pool(stage) if policy is not None or stage.censored.any() else None
        calls = complete_calls(stage, law, rng) if law is not None else stage.calls_ms
        alone = np.fmax.reduce(calls, axis=1, initial=0.0)[rows]
        self._end(self._before, stage, alone)
        if policy is None or law is None or not len(law):
            self._end(self._after, stage, alone, same=self._before)
            return
        raced, copies = race(calls, rows, policy, law, rng)
        self._end(self._after, stage, raced)
        self._charge(stage, copies, int((~np.isnan(calls)).sum(axis=1)[rows].sum()))

    def _end(
        self,
        ends: dict[str, Floats],
        stage: StageProfile,
        latency: Floats,
        *,
        same: dict[str, Floats] | None = None,
    ) -> None:
        """Note when the stage ends; the very array of the other arm where nothing differs so far."""
        if same is not None and all(ends[parent] is same[parent] for parent in stage.after):
            ends[stage.name] = same[stage.name]
            return
        start = start_times(stage, ends)
        ends[stage.name] = latency if start is None else latency + start

    def _charge(self, stage: StageProfile, copies: NDArray[np.int64], calls: int) -> None:
        share = self._shares.get(stage.name, 0.0)
        cost = share / stage.calls_per_request if stage.calls_per_request else 0.0
        self._spent += cost * copies
        self._stage_spent[stage.name] = cost * float(copies.mean())
        self._fractions[stage.name] = float(copies.sum()) / max(1, calls)

    def result(self) -> Simulation:
        inner = {parent for stage in self._stages for parent in stage.after}
        sinks = [stage.name for stage in self._stages if stage.name not in inner]
        return Simulation(
            before_ms=np.maximum.reduce([self._before[name] for name in sinks]),
            after_ms=np.maximum.reduce([self._after[name] for name in sinks]),
            spent=self._spent,
            stage_spent=self._stage_spent,
            stage_fraction=self._fractions,
            censored=self._censored,
        )


def race(
    calls: Floats, rows: Rows, policy: Reissue, law: Pool, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """The stage's latency when every call races its own copies.

    Args:
        calls: (n, width) primary calls; NaN for no call.
        rows: (k,) which of them to replay.
        policy: when copies go; copy c goes at c times `after_ms`.
        law: of a copy, which is drawn on its own.
        rng: for coins and copies.

    Returns:
        (k,) latency of the slowest call, and (k,) number of copies sent. Memory is bounded by taking
        rows in blocks.
    """
    block = max(1, MOST_CELLS // calls.shape[1])
    latency, sent = np.empty(len(rows)), np.zeros(len(rows), dtype=np.int64)
    for at in range(0, len(rows), block):
        part = calls[rows[at : at + block]]
        sent[at : at + block] = _race_block(part, policy, law, rng)
        latency[at : at + block] = np.fmax.reduce(part, axis=1, initial=0.0)
    return latency, sent


def _race_block(part: Floats, policy: Reissue, law: Pool, rng: np.random.Generator) -> NDArray[np.int64]:
    """Race one block in place; the number of copies by row."""
    flat = part.reshape(-1)
    sent = np.zeros(len(part), dtype=np.int64)
    for copy in range(1, policy.copies + 1):
        late = np.flatnonzero(flat > copy * policy.after_ms)
        if policy.probability < 1:
            late = late[rng.random(len(late)) < policy.probability]
        flat[late] = np.minimum(flat[late], copy * policy.after_ms + law.draw(rng, len(late)))
        sent += np.bincount(late // part.shape[1], minlength=len(part))
    return sent
