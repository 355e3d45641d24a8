"""Trace-driven simulation of many requests at once (Kwiken section 5.4), with and without a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kwiken._copies import linked
from kwiken._correlation import known_correlation
from kwiken._dag import Node, start_times
from kwiken._errors import InputError
from kwiken._plan import Ladder, Plan
from kwiken._pool import Pool, complete_calls, pool
from kwiken._profile import Floats, Profile, StageProfile
from kwiken._stage import Reissue

Rows = NDArray[np.int64]
REQUESTS = 20_000
BLOCK = 1 << 17  # requests that are replayed at once, so that memory does not grow with their number
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
        refused: share of the spend that a ledger refused, where one was simulated.
    """

    before_ms: Floats
    after_ms: Floats
    spent: Floats
    stage_spent: Mapping[str, float] = field(default_factory=dict)
    stage_fraction: Mapping[str, float] = field(default_factory=dict)
    censored: int = 0
    refused: float = 0.0

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
    copy_correlation: float | None = None,
) -> Simulation:
    """Simulate requests through the profile's DAG.

    A request takes the latencies of one recorded request in all stages, drawn with replacement, so whatever
    makes stages slow together stays. Copies are drawn from the stage's own calls; every call races its own,
    and both arms see the same primaries. No queueing: a copy does not slow others.

    Args:
        profile: what was learned.
        plan: reissue policies and costs; None for none.
        requests: number of requests to draw.
        seed: of all draws.
        independent: draw every stage on its own, as the source does.
        copy_correlation: of a copy's normal score with its call's, at every stage; 0 for independent copies;
            by default what each stage's pairs say, and 0 where there are none.

    Raises:
        InputError: for an empty profile, fewer than one request, a plan for a stage that it lacks, or a
            correlation outside [0, 1).
    """
    if requests < 1:
        raise InputError(f"requests must be 1 or more, not {requests}")
    if not profile.requests:
        raise InputError("the profile has no requests")
    rng = np.random.default_rng(seed)
    replayer = Replayer(profile, plan, seed=seed, copy_correlation=copy_correlation)
    parts = []
    for at in range(0, requests, BLOCK):
        count = min(BLOCK, requests - at)
        if independent:
            rows = [rng.integers(profile.requests, size=count) for _ in profile.stages]
        else:  # their order does not matter, and sorted rows are read faster
            rows = [np.sort(rng.integers(profile.requests, size=count))] * len(profile.stages)
        parts.append(replayer.run(rows))
    return replayer.join(parts)


def replay(
    profile: Profile,
    plan: Plan | None,
    rows: Rows,
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> Simulation:
    """Replay chosen requests of a profile, in the order given.

    Args:
        profile: what was learned.
        plan: reissue policies and costs; None for none.
        rows: (n,) which recorded requests.
        seed: of the copies' draws; each stage has its own stream, so plans differ only where policies do.
        copy_correlation: as `simulate` takes it.

    Raises:
        InputError: for a plan for a stage that the profile lacks.
    """
    replayer = Replayer(profile, plan, seed=seed, copy_correlation=copy_correlation)
    starts = range(0, max(1, len(rows)), BLOCK)
    return replayer.join([replayer.run([rows[at : at + BLOCK]] * len(profile.stages)) for at in starts])


@dataclass(frozen=True)
class _Part:
    """What became of one block of requests; `copies` and `calls` are numbers by stage."""

    before_ms: Floats
    after_ms: Floats
    spent: Floats
    copies: Mapping[str, int]
    calls: Mapping[str, int]


class _Player:
    """One stage, ready to be replayed: its calls with the cancelled ones filled in, and its policy."""

    def __init__(
        self,
        stage: StageProfile,
        policy: Reissue | None,
        share: float,
        rng: np.random.Generator,
        copy_correlation: float | None,
    ) -> None:
        self.name, self.after = stage.name, stage.after
        law = pool(stage) if policy is not None or stage.censored.any() else Pool(np.empty(0))
        self._calls = complete_calls(stage, law, rng)
        self._alone: Floats = np.fmax.reduce(self._calls, axis=1, initial=0.0)
        self._law, self._rng = law, rng
        self._policy = policy if len(law) else None
        self._rho = known_correlation(stage, law, copy_correlation) if self._policy is not None else 0.0
        self.cost = share / stage.calls_per_request if stage.calls_per_request else 0.0

    @property
    def races(self) -> bool:
        """Whether any of its calls may get a copy."""
        return self._policy is not None

    def alone(self, rows: Rows) -> Floats:
        """(k,): latency of the stage in these requests without copies."""
        return self._alone[rows]

    def race(self, rows: Rows) -> tuple[Floats, NDArray[np.int64], int]:
        """(k,) latency and (k,) copies of these requests with the policy, and their number of calls."""
        assert self._policy is not None
        latency, copies = race(self._calls, rows, self._policy, self._law, self._rng, rho=self._rho)
        return latency, copies, int((~np.isnan(self._calls)).sum(axis=1)[rows].sum())


class Replayer:
    """A profile and a plan, ready to replay blocks of requests.

    Args:
        profile: what was learned.
        plan: reissue policies and costs; None for none.
        seed: of the copies' draws.
        copy_correlation: as `simulate` takes it.

    Raises:
        InputError: for a plan for a stage that the profile lacks.
    """

    def __init__(
        self, profile: Profile, plan: Plan | None, *, seed: int, copy_correlation: float | None = None
    ) -> None:
        policies = _policies(profile, plan)
        shares = plan.cost.stages if plan is not None else {}
        self._censored = sum(int(stage.censored.sum()) for stage in profile.stages)
        self._players = [
            _Player(
                stage,
                policies.get(stage.name),
                shares.get(stage.name, 0.0),
                np.random.default_rng([seed, i]),
                copy_correlation,
            )
            for i, stage in enumerate(profile.stages)
        ]
        inner = {parent for stage in profile.stages for parent in stage.after}
        self._sinks = [stage.name for stage in profile.stages if stage.name not in inner]

    def run(self, rows: list[Rows]) -> _Part:
        """Replay a block: by stage, which recorded requests' latencies it takes."""
        before: dict[str, Floats] = {}
        after: dict[str, Floats] = {}
        spent = np.zeros(len(rows[0]))
        copies: dict[str, int] = {}
        calls: dict[str, int] = {}
        for player, chosen in zip(self._players, rows, strict=True):
            alone = player.alone(chosen)
            before[player.name] = _end(player, before, alone)
            if player.races:
                raced, sent, calls[player.name] = player.race(chosen)
                after[player.name] = _end(player, after, raced)
                copies[player.name] = int(sent.sum())
                spent += player.cost * sent
            elif all(after[parent] is before[parent] for parent in player.after):
                after[player.name] = before[player.name]
            else:
                after[player.name] = _end(player, after, alone)
        last = [np.maximum.reduce([ends[name] for name in self._sinks]) for ends in (before, after)]
        return _Part(last[0], last[1], spent, copies, calls)

    def join(self, parts: list[_Part]) -> Simulation:
        """Put blocks together."""
        requests = max(1, sum(len(part.spent) for part in parts))
        copies = {name: sum(part.copies[name] for part in parts) for name in parts[0].copies}
        calls = {name: sum(part.calls[name] for part in parts) for name in parts[0].calls}
        costs = {player.name: player.cost for player in self._players}
        return Simulation(
            before_ms=np.concatenate([part.before_ms for part in parts]),
            after_ms=np.concatenate([part.after_ms for part in parts]),
            spent=np.concatenate([part.spent for part in parts]),
            stage_spent={name: costs[name] * sent / requests for name, sent in copies.items()},
            stage_fraction={name: sent / max(1, calls[name]) for name, sent in copies.items()},
            censored=self._censored,
        )


def _policies(profile: Profile, plan: Plan | None) -> dict[str, Reissue]:
    if plan is None:
        return {}
    known = {stage.name for stage in profile.stages}
    for name in plan.stages:
        if name not in known:
            names = ", ".join(sorted(known)[:8])
            raise InputError(f"the plan's stage {name!r} is not in the profile; it has: {names}")
    return {name: stage.reissue for name, stage in plan.stages.items() if stage.reissue is not None}


def _end(stage: Node, ends: Mapping[str, Floats], latency: Floats) -> Floats:
    """(k,): when a stage ends whose parents' ends are known."""
    start = start_times(stage, ends)
    return latency if start is None else latency + start


def race(
    calls: Floats,
    rows: Rows,
    policy: Reissue,
    law: Pool,
    rng: np.random.Generator,
    *,
    rho: float = 0.0,
) -> tuple[Floats, NDArray[np.int64]]:
    """The stage's latency when every call races its own copies.

    Args:
        calls: (n, width) primary calls; NaN for no call.
        rows: (k,) which of them to replay.
        policy: when copies go; copy c goes at c times `after_ms`.
        law: of a copy.
        rng: for coins and copies.
        rho: correlation of a copy's normal score with its call's; 0 for copies drawn on their own.

    Returns:
        (k,) latency of the slowest call, and (k,) number of copies sent. Memory is bounded by taking
        rows in blocks.
    """
    block = max(1, MOST_CELLS // calls.shape[1])
    latency, sent = np.empty(len(rows)), np.zeros(len(rows), dtype=np.int64)
    for at in range(0, len(rows), block):
        part = calls[rows[at : at + block]]
        sent[at : at + block] = _race_block(part, policy, law, rng, rho)
        latency[at : at + block] = np.fmax.reduce(part, axis=1, initial=0.0)
    return latency, sent


def _race_block(
    part: Floats, policy: Reissue, law: Pool, rng: np.random.Generator, rho: float
) -> NDArray[np.int64]:
    """Race one block in place; the number of copies by row."""
    flat = part.reshape(-1)
    calls = flat.copy() if rho > 0 and policy.copies > 1 else flat
    sent = np.zeros(len(part), dtype=np.int64)
    for copy in range(1, policy.copies + 1):
        late = np.flatnonzero(flat > copy * policy.after_ms)
        if policy.probability < 1:
            late = late[rng.random(len(late)) < policy.probability]
        if rho > 0:
            copies = linked(law, calls[late], rng.standard_normal(len(late)), rho)
        else:
            copies = law.draw(rng, len(late))
        flat[late] = np.minimum(flat[late], copy * policy.after_ms + copies)
        sent += np.bincount(late // part.shape[1], minlength=len(part))
    return sent
