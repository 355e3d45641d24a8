"""Trace-driven simulation of many requests at once (Kwiken section 5.4), with and without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, Spread, one_by_one
from kwiken.model.latency import DagNode, ladder, start_times
from kwiken.model.plan.plan import Costs, Ladder, Plan, StagePlan
from kwiken.model.profile.cost_models import cost_of_one_call
from kwiken.model.profile.profile import Profile
from kwiken.tail.simulation.stage_replay import StageReplay

Rows = NDArray[np.int64]
REQUESTS = 20_000  # requests that are simulated by default
REQUESTS_PER_BLOCK = 1 << 17  # replayed at once, so that memory does not grow with the number of requests


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True)
class Simulation:
    """Results of simulated requests, with and without a plan.

    Attributes:
        before_ms: (n,) latency of each request without the plan, milliseconds.
        after_ms: (n,) latency of the same requests with the plan, milliseconds, from the same primary calls.
        spent: (n,) cost of each request's copies, as a share of an average request's cost, with the coins
            drawn.
        expected_spent: (n,) mean of that cost over the coins, in the same unit.
        stage_spent: by stage: cost of its copies, mean over requests and coins, in the same unit.
        stage_fraction: by stage: share of its calls that get a copy, mean over the coins.
        lost: (n,) utility lost in each request: sum over stages of their losses times their weights.
        stage_loss: by stage that may answer in part: share of its own utility lost, mean over requests.
        late_spent: (n,) cost of catch-up for each late request, in the unit of `spent`.
        stage_late: by stage with a catch-up policy: cost of its catch-up, mean over requests.
        hurried: share of all calls that started late, at stages with a catch-up policy.
        censored: number of calls of the profile whose true latency had to be estimated.
        refused: share of the copies' cost that a ledger refused, where one was simulated.
        late_refused: share of the catch-up's cost that a ledger refused.
    """

    before_ms: Floats
    after_ms: Floats
    spent: Floats
    expected_spent: Floats
    stage_spent: Mapping[str, float] = field(default_factory=dict)
    stage_fraction: Mapping[str, float] = field(default_factory=dict)
    lost: Floats = field(default_factory=_none)
    stage_loss: Mapping[str, float] = field(default_factory=dict)
    late_spent: Floats = field(default_factory=_none)
    stage_late: Mapping[str, float] = field(default_factory=dict)
    hurried: float = 0.0
    censored: int = 0
    refused: float = 0.0
    late_refused: float = 0.0

    @property
    def before(self) -> Ladder:
        """Latency percentiles without the plan."""
        return ladder(self.before_ms)

    @property
    def after(self) -> Ladder:
        """Latency percentiles with the plan."""
        return ladder(self.after_ms)

    @property
    def reissue(self) -> float:
        """Expected extra cost of all copies, as a share of the cost of all requests."""
        return float(self.expected_spent.mean()) if len(self.expected_spent) else 0.0

    @property
    def utility_loss(self) -> float:
        """Mean utility lost, a fraction from 0 to 1."""
        return float(self.lost.mean()) if len(self.lost) else 0.0

    @property
    def catch_up(self) -> float:
        """Extra cost of catch-up for late requests, as a share of the cost of all requests."""
        return float(self.late_spent.mean()) if len(self.late_spent) else 0.0


def simulate(
    profile: Profile,
    plan: Plan | None = None,
    *,
    requests: int = REQUESTS,
    seed: int = 0,
    independent: bool = False,
    copy_correlation: float | None = None,
    spread: Spread = one_by_one,
) -> Simulation:
    """Simulate requests through the profile's DAG (Kwiken section 5.4).

    A request takes the latencies of one recorded request in all stages, drawn with replacement, so the
    correlation between stages is kept. Copies are drawn from the stage's own calls; every call races its own
    copy, and both arms use the same primary calls. Stop rules are applied to the shards' latencies after
    their copies; missing answers count by their recorded worth. Catch-up starts by a request's age in the arm
    with the plan. There is no queueing: a copy does not slow other calls, and priority makes no call faster.

    Args:
        plan: policies and costs; None for no plan.
        requests: number of requests to draw, 1 or more.
        seed: seed of all draws.
        independent: whether every stage is drawn on its own, as in the source.
        copy_correlation: correlation of a copy's normal score with its call's at every stage, 0 or more and
            below 1; 0 for independent copies; None to estimate it per stage, 0 where nothing is known.
        spread: function that runs jobs: a block of `REQUESTS_PER_BLOCK` requests is one, with draws of its
            own, so that the results do not depend on where blocks run.

    Raises:
        InputError: for an empty profile, fewer than one request, a plan for a stage that it lacks or that
            cannot answer in part as the plan says, or a correlation outside [0, 1).
    """
    if requests < 1:
        raise InputError(f"requests must be 1 or more, not {requests}")
    if not profile.requests:
        raise InputError("the profile has no requests", where="profile")
    rng = np.random.default_rng(seed)
    replayer = Replayer(profile, plan, seed=seed, copy_correlation=copy_correlation)
    jobs: list[Job] = []
    for block, at in enumerate(range(0, requests, REQUESTS_PER_BLOCK)):
        count = min(REQUESTS_PER_BLOCK, requests - at)
        if independent:  # one large array takes fewer page faults than many
            rows = list(rng.integers(profile.requests, size=(len(profile.stages), count)))
        else:  # the order of the draws does not matter, and sorted rows are read faster
            rows = [np.sort(rng.integers(profile.requests, size=count))] * len(profile.stages)
        jobs.append((_replayed_block, (profile, plan, block, rows, seed, copy_correlation)))
    return replayer.join(list(spread(jobs)))


def _replayed_block(
    profile: Profile,
    plan: Plan | None,
    block: int,
    rows: list[Rows],
    seed: int,
    copy_correlation: float | None,
) -> _Part:
    """Replay one block of requests, with draws of its own; arguments as `Replayer`."""
    return Replayer(profile, plan, seed=seed, block=block, copy_correlation=copy_correlation).run(rows)


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
        plan: policies and costs; None for no plan.
        rows: (n,) indices of recorded requests.
        seed: seed of the copies' draws; each stage has its own stream, so results of two plans differ only
            where their policies do.
        copy_correlation: as `simulate` takes it.

    Raises:
        InputError: for a plan for a stage that the profile lacks.
    """
    replayer = Replayer(profile, plan, seed=seed, copy_correlation=copy_correlation)
    starts = range(0, max(1, len(rows)), REQUESTS_PER_BLOCK)
    width = len(profile.stages)
    parts = [replayer.run([rows[at : at + REQUESTS_PER_BLOCK]] * width, first=at) for at in starts]
    return replayer.join(parts)


@dataclass(frozen=True)
class _Part:
    """Results of one block of requests; `sums` holds totals over its requests by stage."""

    before_ms: Floats
    after_ms: Floats
    spent: Floats
    expected_spent: Floats
    lost: Floats
    late_spent: Floats
    sums: Mapping[str, _Sums]


@dataclass(frozen=True)
class _Sums:
    """Totals of a stage in a block: calls, expected copies, catch-up work, late calls, utility lost."""

    calls: int
    copies: float
    late_work: float
    late: int
    lost: float


class _Arrays:
    """Arrays of one length that are used again: fresh ones cost more page faults than work.

    Args:
        length: number of values of each.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._free: list[Floats] = []

    def take(self) -> Floats:
        """(length,): array of any content."""
        return self._free.pop() if self._free else np.empty(self._length)

    def give_back(self, array: Floats) -> None:
        """Take an array back that nothing refers to."""
        self._free.append(array)


class _Ends:
    """Ends of stages in the requests of a block, each held until the last stage that follows has started.

    Args:
        stages: all stages, parents before children.
        arrays: where the ends' arrays are from.

    Attributes:
        of: by stage: (n,) ends that are held, milliseconds.
    """

    def __init__(self, stages: Sequence[DagNode], arrays: _Arrays) -> None:
        self.of: dict[str, Floats] = {}
        self._arrays = arrays
        self._last_use = {stage.name: stage.name for stage in stages}
        self._last_use |= {parent: stage.name for stage in stages for parent in stage.after}
        self._last: Floats | None = None  # ends of the requests so far

    def add(self, stage: DagNode, latency_ms: Floats, start_ms: Floats | None) -> None:
        """Add a stage, whose latencies are overwritten by its ends."""
        end = latency_ms if start_ms is None else np.add(latency_ms, start_ms, out=latency_ms)
        self.of[stage.name] = end
        if self._last_use[stage.name] == stage.name:  # no stage follows
            self._last = end.copy() if self._last is None else np.maximum(self._last, end, out=self._last)
        for name in {stage.name, *stage.after}:
            if self._last_use[name] == stage.name:
                self._arrays.give_back(self.of.pop(name))

    def last(self) -> Floats:
        """(n,): end of the requests' last stage, milliseconds."""
        assert self._last is not None
        return self._last


class Replayer:
    """Replays blocks of requests of a profile with and without a plan.

    Args:
        plan: policies and costs; None for no plan.
        block: number of the block among those that are replayed apart, from 0; each has draws of its own.
        copy_correlation: as `simulate` takes it.

    Raises:
        InputError: for a plan for a stage that the profile lacks.
    """

    def __init__(
        self,
        profile: Profile,
        plan: Plan | None,
        *,
        seed: int,
        block: int = 0,
        copy_correlation: float | None = None,
    ) -> None:
        self._profile, self._plans = profile, acting(profile, plan)
        self._shares = plan.cost if plan is not None else Costs(model="calls", stages={})
        self._seed, self._block, self._copy_correlation = seed, block, copy_correlation

    @cached_property
    def _replays(self) -> list[StageReplay]:
        """Replay of each stage, with a generator of its own for the draws of all blocks."""
        seed, block = self._seed, self._block
        return [
            StageReplay(
                stage,
                self._shares.stages.get(stage.name, 0.0),
                np.random.default_rng([seed, i, block] if block else [seed, i]),
                copy_correlation=self._copy_correlation,
                races=_races(self._plans.get(stage.name)),
            )
            for i, stage in enumerate(self._profile.stages)
        ]

    def run(self, rows: list[Rows], *, first: int = 0) -> _Part:
        """Replay a block.

        Args:
            rows: (n,) indices of the recorded requests whose latencies a stage takes, for each stage in
                order.
            first: number of the first of these requests, which tells its draws from those of others.
        """
        arrays = _Arrays(len(rows[0]))
        before, after = _Ends(self._profile.stages, arrays), _Ends(self._profile.stages, arrays)
        spent, expected, lost, late_spent = (np.zeros(len(rows[0])) for _ in range(4))
        sums: dict[str, _Sums] = {}
        scratch = arrays.take()
        for replayed, chosen in zip(self._replays, rows, strict=True):
            alone, latency = replayed.alone(chosen, arrays.take()), arrays.take()
            np.copyto(latency, alone)
            plan = self._plans.get(replayed.name)
            if plan is not None:
                start = start_times(replayed, after.of, out=scratch)
                outcome = replayed.play(chosen, plan, start, alone_ms=latency, first=first)
                after.add(replayed, latency, start)
                spent += np.multiply(outcome.copies, replayed.cost, out=scratch)
                expected += np.multiply(outcome.expected, replayed.cost, out=scratch)
                late_work = 0.0
                if plan.catch_up is not None:
                    late = outcome.late_copies + outcome.late_work
                    late_work = float(late.sum())
                    late_spent += np.multiply(late, replayed.cost, out=scratch)
                if plan.partial is not None:
                    lost += np.multiply(outcome.lost, plan.partial.weight, out=scratch)
                sums[replayed.name] = _Sums(
                    replayed.calls(chosen),
                    float(outcome.expected.sum()),
                    late_work,
                    int(outcome.late.sum()) if plan.catch_up is not None else 0,
                    float(outcome.lost.sum()) if plan.partial is not None else 0.0,
                )
            else:
                after.add(replayed, latency, start_times(replayed, after.of, out=scratch))
            before.add(replayed, alone, start_times(replayed, before.of, out=scratch))
        return _Part(before.last(), after.last(), spent, expected, lost, late_spent, sums)

    def join(self, parts: list[_Part]) -> Simulation:
        """Join the results of blocks into one simulation."""
        requests = max(1, sum(len(part.spent) for part in parts))
        costs = {name: cost_of_one_call(self._profile, self._shares, name) for name in parts[0].sums}

        def total(name: str, field: str) -> float:
            return float(sum(getattr(part.sums[name], field) for part in parts))

        def those(lever: str) -> list[str]:
            return [name for name in parts[0].sums if getattr(self._plans[name], lever) is not None]

        calls = {name: max(1.0, total(name, "calls")) for name in parts[0].sums}
        helping = those("catch_up")
        return Simulation(
            before_ms=np.concatenate([part.before_ms for part in parts]),
            after_ms=np.concatenate([part.after_ms for part in parts]),
            spent=np.concatenate([part.spent for part in parts]),
            expected_spent=np.concatenate([part.expected_spent for part in parts]),
            stage_spent={name: costs[name] * total(name, "copies") / requests for name in those("reissue")},
            stage_fraction={name: total(name, "copies") / calls[name] for name in those("reissue")},
            lost=np.concatenate([part.lost for part in parts]),
            stage_loss={name: total(name, "lost") / requests for name in those("partial")},
            late_spent=np.concatenate([part.late_spent for part in parts]),
            stage_late={name: costs[name] * total(name, "late_work") / requests for name in helping},
            hurried=sum(total(name, "late") for name in helping) / max(1.0, sum(calls[n] for n in helping)),
            censored=sum(int(stage.censored.sum()) for stage in self._profile.stages),
        )


def acting(profile: Profile, plan: Plan | None) -> dict[str, StagePlan]:
    """Stages with at least one policy in a plan.

    Args:
        plan: plan for the service; None for no plan.

    Raises:
        InputError: for a stage that the profile lacks, or a partial answer of one that is no fan-out.
    """
    if plan is None:
        return {}
    width = {stage.name: stage.calls_ms.shape[1] for stage in profile.stages}
    for name, stage in plan.stages.items():
        if name not in width:
            names = ", ".join(sorted(width)[:8])
            raise InputError(
                f"the plan's stage {name!r} is not in the profile; it has: {names}", where="plan"
            )
        if stage.partial is not None and width[name] == 1:
            wide = ", ".join(sorted(other for other, shards in width.items() if shards > 1)[:8])
            raise InputError(
                f"stage {name!r}: partial is for a fan-out, and this stage has one shard, so its answer "
                f"cannot be partial; the profile's fan-outs: {wide or 'none'}",
                where="plan",
            )
    return {
        name: stage
        for name, stage in plan.stages.items()
        if not (stage.reissue is None and stage.partial is None and stage.catch_up is None)
    }


def _races(plan: StagePlan | None) -> bool:
    """Whether calls of a stage may get copies under its plan."""
    return plan is not None and (
        plan.reissue is not None or (plan.catch_up is not None and plan.catch_up.reissue)
    )
